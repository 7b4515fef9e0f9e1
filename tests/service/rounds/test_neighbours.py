"""The laws of items processed together: a fault of one affects no other, and damage is reported."""

import asyncio
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx2
import numpy as np
import pytest
from standardwebhooks import Webhook

from learners.base import Decisions
from service.choice.requests import PredictionRequest
from service.errors import LearnerFailedError, StoreUnavailableError
from service.rounds.importer import RoundImporter
from service.schemas.rounds import ImportRequest, ImportRound, PredictAnswer
from service.store import keys
from service.store.records.layout import VERSION
from service.store.redis.redis_store import RedisStore
from tests.service.damaging import changed, rewrite, session_of
from tests.service.replicas.altering import stored
from tests.service.sample_models import (
    LABEL_SET,
    SOBA_DIAGONAL,
    UNIFORM,
    definition,
    make_model,
    play,
    post,
    some_contexts,
    taught_by,
    whole_log,
)
from tests.service.workers import START, worker

X = [0.6, 0.8, 0.0]


async def predict_block(client: httpx2.AsyncClient, name: str, n: int = 4) -> tuple[str, list[str]]:
    """Predict n contexts in one batch; return the block's name and the ids."""
    answers = (await post(client, "/predict/batch", model=name, contexts=[X] * n))["predictions"]
    ids = [each["prediction_id"] for each in answers]
    return ids[0].split(":")[1], ids


# --- ids


# --- coalesced requests


BAD: list[tuple[dict[str, Any], int | None]] = [
    ({"context": X, "prediction_id": "block"}, 409),
    ({"context": X, "prediction_id": "damaged"}, 500),
    ({"context": X, "prediction_id": "cut"}, 500),
    ({"context": X, "prediction_id": "newer"}, 503),
    ({"context": X, "prediction_id": "other"}, 409),
    ({"context": X, "prediction_id": "~x"}, 422),
    ({"context": [1.0]}, 422),
    ({"context": [1e308, 1e308, 1e308]}, None),
    ({"context": {"indices": [1], "values": [1.0]}}, 422),
]


async def test_a_bad_prediction_fails_alone(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    """Good requests coalesced with a bad one get their usual answers."""
    await post(client, "/models", **definition(name, learner=UNIFORM))
    key = (await stored(store, name)).key
    block, _ = await predict_block(client, name)
    await store.command("RENAME", keys.block(*key, block), keys.block(*key, "block"))
    await post(client, "/predict", model=name, context=[1.0, 2.0, 3.0], prediction_id="other")
    record = await store.command("GET", keys.block(*key, "other"))
    await store.command("SET", keys.block(*key, "damaged"), record[:62] + b"\xff" * 20 + record[82:])
    await store.command("SET", keys.block(*key, "cut"), b"\x03")
    await store.command("SET", keys.block(*key, "newer"), bytes([VERSION + 1]) + record[1:])
    for bad, status in BAD:
        good = [client.post("/predict", json={"model": name, "context": X}) for _ in range(4)]
        wrong = client.post("/predict", json={"model": name} | bad)
        *others, answer = await asyncio.gather(*good[:2], *good[2:], wrong)
        assert [each.status_code for each in others] == [200] * 4
        assert answer.status_code == (status or answer.status_code), bad
        assert answer.status_code < 500 or status is not None


@pytest.mark.parametrize(
    ("what", "status", "webhook"),
    [("damaged", 500, "ignored"), ("cut", 500, "ignored"), ("newer", 503, None), ("gone", 404, "ignored")],
)
async def test_bad_feedback_fails_alone(
    store: RedisStore, store_url: str, name: str, what: str, status: int, webhook: str | None
) -> None:
    """Good feedback coalesced with bad feedback is recorded, and webhook senders are not made to resend."""
    secret, names = "whsec_" + "c2VjcmV0" * 4, ("a", "b", "c", "bad")
    async with worker(store_url, webhook_secrets=secret) as client:
        await post(client, "/models", **definition(name, learner=UNIFORM))
        bad = keys.block(*(await stored(store, name)).key, "bad")
        made = [await post(client, "/predict", model=name, context=X, prediction_id=own) for own in names]
        given = [{"prediction_id": each["prediction_id"], "correct": True} for each in made]
        record = await store.command("GET", bad)
        records = {"damaged": record[:-8] + b"\xff" * 8, "cut": b"\x03", "newer": bytes([VERSION + 1]) + record[1:]}
        await store.command(*(("UNLINK", bad) if what == "gone" else ("SET", bad, records[what])))
        answers = await asyncio.gather(*(client.post("/feedback", json=each) for each in given))
        assert [each.status_code for each in answers] == [200, 200, 200, status]
        results = (await post(client, "/feedback/batch", feedback=given))["results"]
        assert [each["status"] for each in results] == ["duplicate"] * 3 + [status]
        if webhook is not None:
            sent = await send_webhook(client, secret, given[3])
            assert (sent.status_code, sent.json()["status"]) == (200, webhook)
            assert sent.json()["reason"]["status"] == status
        assert (await client.get(f"/models/{name}")).json()["rounds_seen"] == 3


async def send_webhook(client: httpx2.AsyncClient, secret: str, body: dict[str, Any]) -> httpx2.Response:
    text = json.dumps(body)
    signature = Webhook(secret).sign("msg", datetime.fromtimestamp(START, UTC), text)
    headers = {"webhook-id": "msg", "webhook-timestamp": str(int(START)), "webhook-signature": signature}
    return await client.post("/webhooks/feedback", content=text, headers=headers)


# --- learners and stores that fail


class Failing:
    """A learner that cannot decide for contexts whose first number is negative."""

    def __init__(self, learner: Any, how: str) -> None:
        self._learner = learner
        self._how = how

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def decide_unchecked(self, state: Any, contexts: Any, eligible: Any, prices: Any) -> Decisions:
        distributions, evidence = self._learner.decide_unchecked(state, contexts, eligible, prices)
        bad = contexts.values.reshape(contexts.n, -1)[:, 0] < 0.0
        if self._how == "raises" and bad.any():
            raise FloatingPointError("cannot decide")
        if self._how == "nan":
            distributions = np.where(bad[:, None], np.nan, distributions)
        evidence = np.where(bad[:, None], np.inf, evidence) if self._how == "evidence" else evidence
        return Decisions(distributions, evidence)


def requests_with(bad: set[int]) -> list[PredictionRequest]:
    """Return nine requests, some of which have contexts whose first number is negative."""
    rows = [[-1.0, 0.0, 0.5] if i in bad else [abs(row[0]), *row[1:]] for i, row in enumerate(some_contexts(1, 9))]
    return [PredictionRequest(row, None, include_distribution=False) for row in rows]


@pytest.mark.parametrize("how", ["raises", "evidence", "nan"])
async def test_an_impossible_decision_fails_alone(
    store: RedisStore, name: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An impossible decision is logged and not stored; the other requests of its batch are answered."""
    model = await make_model(store, name, learner=LABEL_SET if how == "evidence" else SOBA_DIAGONAL)
    session = session_of(store, taught_by(model, Failing(model.learner, how)))
    requests = requests_with({2, 5, 6})
    answers = await session.predictor.predict_all(requests)
    assert [i for i, each in enumerate(answers) if isinstance(each, LearnerFailedError)] == [2, 5, 6]
    assert sum(isinstance(each, PredictAnswer) for each in answers) == 6
    assert (await stored(store, name)).predictions == 6
    assert "failed for" in caplog.text
    done = await asyncio.gather(*(session.predictor.predict(ask) for ask in requests), return_exceptions=True)
    assert [i for i, each in enumerate(done) if isinstance(each, LearnerFailedError)] == [2, 5, 6]


async def test_a_failing_import_says_which_rounds_it_imported(store: RedisStore, name: str) -> None:
    """The batches before the impossible decision remain imported, and the error says from where on none is."""
    model = await make_model(store, name, learner=SOBA_DIAGONAL)
    session = session_of(store, taught_by(model, Failing(model.learner, "nan")))
    rows = [[0.5, 0.0, 0.5]] * 70 + [[-1.0, 0.0, 0.5]]
    rounds = [ImportRound(context=row, true_label=model.definition.labels[0]) for row in rows]
    sessions: Any = SimpleNamespace(use=lambda _, __, work: work(session))
    importer = RoundImporter(sessions, session.predictor._environment)
    with pytest.raises(LearnerFailedError, match="this request imported no round from offset 69 on"):
        await importer.add(name, ImportRequest(source="file", offset=0, rounds=rounds))
    assert (await stored(store, name)).round_count == 69


async def test_a_store_error_fails_the_whole_batch(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each prediction of the batch gets the error, and none is retried alone."""

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(store, "add_predictions", fail)
    session = session_of(store, await make_model(store, name))
    first, second = await session.predictor.predict_all(requests_with(set())[:2])
    assert first is second
    assert isinstance(first, StoreUnavailableError)


async def test_damage_is_reported_everywhere(store: RedisStore, store_url: str, name: str) -> None:
    """The model, its log, readiness and metrics report damage until the model is deleted."""
    await store.command("DEL", keys.DAMAGED)  # other tests' damage
    model = await make_model(store, name)
    await play(store, model, 5)
    whole = await whole_log(store, model.key)
    await rewrite(store, model, [changed(e, 60, b"\xff" * 30) if e.last_round in {2, 3} else e for e in whole])
    async with worker(store_url, metrics_models=name) as client:

        async def warns() -> bool:
            ready = await client.get("/readyz")
            assert (ready.status_code, name in ready.text) == (200, False)  # it needs no key
            return "wager repair" in ready.text

        async def rounds(**query: int) -> list[int]:
            lines = (await client.get(f"/models/{name}/rounds", params=query)).text.splitlines()
            return [json.loads(line)["round"] for line in lines]

        before = (await client.get(f"/models/{name}")).json()
        assert (before["damaged_rounds"], before["damage"], await warns()) == (0, None, False)
        await post(client, "/predict", 200, model=name, context=X)
        after = (await client.get(f"/models/{name}")).json()
        found = [(each["what"], each["first"], each["last"]) for each in after["damage"]]
        assert (after["damaged_rounds"], found) == (2, [("rounds", 2, 2), ("rounds", 3, 3)])
        assert (await rounds(), await rounds(after=1, limit=1)) == ([1, 4, 5], [4])
        assert await warns()
        assert f'wager_damaged_rounds{{model="{name}"}} 2.0' in (await client.get("/metrics")).text
        assert (await client.delete(f"/models/{name}")).status_code == 204
        assert not await warns()
        assert await store.command("EXISTS", keys.damage(*model.key)) == 0
