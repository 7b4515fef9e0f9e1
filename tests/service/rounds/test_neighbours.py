"""The laws of items processed together: a fault of one affects no other, and damage is reported."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx2
import numpy as np
import pytest
from standardwebhooks import Webhook

from learners.base import Decisions
from service.choice.requests import PredictionRequest
from service.errors import LearnerFailedError, StoreUnavailableError
from service.schemas.rounds import PredictAnswer
from service.store import keys
from service.store.records.layout import VERSION
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.service.damaging import changed, rewrite, session_of
from tests.service.sample_models import (
    LABEL_SET,
    SOBA_DIAGONAL,
    UNIFORM,
    definition,
    make_model,
    play,
    some_contexts,
    taught_by,
    whole_log,
)
from tests.service.workers import START, worker

X = [0.6, 0.8, 0.0]


async def predict_block(client: httpx2.AsyncClient, name: str, n: int = 4) -> tuple[str, list[str]]:
    """Predict n contexts in one batch; return the block's name and the ids."""
    answer = await client.post("/predict/batch", json={"model": name, "contexts": [X] * n})
    ids = [each["prediction_id"] for each in answer.json()["predictions"]]
    return ids[0].split(":")[1], ids


def slug(answer: Any) -> str:
    """Return a problem's name, or "" for an answer."""
    return str(answer.get("type", "")).rpartition(":")[2]


async def key_of(store: RedisStore, name: str) -> ModelKey:
    """Return the key of the model with this name."""
    stored = await store.get_model(name)
    assert stored is not None
    return stored.key


# --- ids


async def test_only_the_services_ids_begin_with_a_tilde(client: httpx2.AsyncClient, name: str) -> None:
    """A client's id with a tilde is refused with its field and the rule; in a batch only its item fails."""
    await client.post("/models", json=definition(name, learner=UNIFORM))
    _, ids = await predict_block(client, name)
    (alone,) = [(await client.post("/predict", json={"model": name, "context": X})).json()["prediction_id"]]
    assert all(own.startswith(f"{name}:~") for own in [alone, *ids])
    for given in ("~", "~mine", f"{name}:~mine", ids[0].rpartition(":")[0]):
        body = {"model": name, "context": X, "prediction_id": given}
        refused = await client.post("/predict", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, "prediction_id")
        assert "begin with ~" in refused.json()["detail"]
        batch = {"model": name, "contexts": [X, X, X], "prediction_ids": [f"a{given[-3:]}", given, f"b{given[-3:]}"]}
        items = (await client.post("/predict/batch", json=batch)).json()["predictions"]
        assert [slug(item) for item in items] == ["", "invalid-name", ""]
        assert items[1]["field"] == "prediction_id"
    for own in (alone, *ids):
        assert (await client.post("/feedback", json={"prediction_id": own, "correct": True})).status_code == 200


@pytest.mark.parametrize("token", ["999999999999999", "0", "65535", "1_0", "\u0663", "9" * 30, "-1", ""])
async def test_hostile_tokens_are_refused(client: httpx2.AsyncClient, name: str, token: str) -> None:
    """Feedback with a hostile token gets 404 or 422, also in a batch, whose other items are recorded."""
    await client.post("/models", json=definition(name, learner=UNIFORM))
    _, ids = await predict_block(client, name)
    bad = {"prediction_id": f"{ids[0].rpartition(':')[0]}:{token}", "correct": True}
    assert (await client.post("/feedback", json=bad)).status_code in {404, 422}
    both = {"feedback": [bad, {"prediction_id": ids[0], "correct": True}]}
    first, second = (await client.post("/feedback/batch", json=both)).json()["results"]
    assert first["status"] in {404, 422}
    assert second["status"] == "recorded"


# --- coalesced requests


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        ({"context": X, "prediction_id": "block"}, 409),
        ({"context": X, "prediction_id": "damaged"}, 500),
        ({"context": X, "prediction_id": "cut"}, 500),
        ({"context": X, "prediction_id": "newer"}, 503),
        ({"context": X, "prediction_id": "other"}, 409),
        ({"context": X, "prediction_id": "~x"}, 422),
        ({"context": [1.0]}, 422),
        ({"context": [1e308, 1e308, 1e308]}, None),
        ({"context": {"indices": [1], "values": [1.0]}}, 422),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_bad_prediction_fails_alone(
    client: httpx2.AsyncClient, store: RedisStore, name: str, bad: dict[str, Any], status: int | None
) -> None:
    """Good requests coalesced with a bad one get their usual answers."""
    await client.post("/models", json=definition(name, learner=UNIFORM))
    key = await key_of(store, name)
    block, _ = await predict_block(client, name)
    await store.command("RENAME", keys.block(*key, block), keys.block(*key, "block"))
    await client.post("/predict", json={"model": name, "context": [1.0, 2.0, 3.0], "prediction_id": "other"})
    record = await store.command("GET", keys.block(*key, "other"))
    await store.command("SET", keys.block(*key, "damaged"), record[:62] + b"\xff" * 20 + record[82:])
    await store.command("SET", keys.block(*key, "cut"), b"\x03")
    await store.command("SET", keys.block(*key, "newer"), bytes([VERSION + 1]) + record[1:])
    good = [client.post("/predict", json={"model": name, "context": X}) for _ in range(4)]
    wrong = client.post("/predict", json={"model": name} | bad)
    one, two, answer, three, four = await asyncio.gather(*good[:2], wrong, *good[2:])
    assert [each.status_code for each in (one, two, three, four)] == [200] * 4
    assert answer.status_code == (status or answer.status_code)
    assert answer.status_code < 500 or status is not None


@pytest.mark.parametrize(
    ("what", "status", "webhook"),
    [("damaged", 500, "ignored"), ("cut", 500, "ignored"), ("newer", 503, None), ("gone", 404, "ignored")],
)
async def test_bad_feedback_fails_alone(
    store: RedisStore, store_url: str, name: str, what: str, status: int, webhook: str | None
) -> None:
    """Good feedback coalesced with bad feedback is recorded, and webhook senders are not made to resend."""
    secret = "whsec_" + "c2VjcmV0" * 4
    async with worker(store_url, webhook_secrets=secret) as client:
        await client.post("/models", json=definition(name, learner=UNIFORM))
        key = await key_of(store, name)
        ids = []
        for own in ("a", "b", "c", "bad"):
            made = await client.post("/predict", json={"model": name, "context": X, "prediction_id": own})
            ids.append(made.json()["prediction_id"])
        record = await store.command("GET", keys.block(*key, "bad"))
        records = {
            "damaged": record[:-8] + b"\xff" * 8,
            "cut": b"\x03",
            "newer": bytes([VERSION + 1]) + record[1:],
            "gone": None,
        }
        if records[what] is None:
            await store.command("UNLINK", keys.block(*key, "bad"))
        else:
            await store.command("SET", keys.block(*key, "bad"), records[what])
        given = [client.post("/feedback", json={"prediction_id": own, "correct": True}) for own in ids]
        answers = await asyncio.gather(*given)
        assert [each.status_code for each in answers] == [200, 200, 200, status]
        batch = {"feedback": [{"prediction_id": own, "correct": True} for own in ids]}
        results = (await client.post("/feedback/batch", json=batch)).json()["results"]
        assert [each["status"] for each in results] == ["duplicate"] * 3 + [status]
        if webhook is not None:
            sent = await send_webhook(client, secret, {"prediction_id": ids[3], "correct": True})
            assert (sent.status_code, sent.json()["status"]) == (200, webhook)
            assert sent.json()["reason"]["status"] == status
        assert (await client.get(f"/models/{name}")).json()["rounds_seen"] == 3


async def send_webhook(client: httpx2.AsyncClient, secret: str, body: dict[str, Any]) -> httpx2.Response:
    """Send a signed webhook; return the answer."""
    text = json.dumps(body)
    signature = Webhook(secret).sign("msg", datetime.fromtimestamp(START, UTC), text)
    headers = {"webhook-id": "msg", "webhook-timestamp": str(int(START)), "webhook-signature": signature}
    return await client.post("/webhooks/feedback", content=text, headers=headers)


# --- learners that fail


class Failing:
    """A learner that cannot decide for contexts whose first number is negative."""

    def __init__(self, learner: Any, how: str) -> None:
        self._learner = learner
        self._how = how

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def decide_unchecked(self, state: Any, contexts: Any, eligible: Any) -> Decisions:
        """Decide, wrongly for such contexts."""
        distributions, evidence = self._learner.decide_unchecked(state, contexts, eligible)
        bad = contexts.values.reshape(contexts.n, -1)[:, 0] < 0.0
        if self._how == "raises" and bad.any():
            raise FloatingPointError("cannot decide")
        if self._how == "nan":
            distributions = np.where(bad[:, None], np.nan, distributions)
        evidence = np.where(bad[:, None], np.inf, evidence) if self._how == "evidence" else evidence
        return Decisions(distributions, evidence)


@pytest.mark.parametrize("how", ["raises", "evidence", "nan"])
async def test_an_impossible_decision_fails_alone(
    store: RedisStore, name: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An impossible decision is logged and not stored; the other requests of its batch are answered."""
    model = await make_model(store, name, learner=LABEL_SET if how == "evidence" else SOBA_DIAGONAL)
    session = session_of(store, taught_by(model, Failing(model.learner, how)))
    contexts = [[-1.0, 0.0, 0.5] if i in {2, 5, 6} else context for i, context in enumerate(some_contexts(1, 9))]
    contexts = [[abs(row[0]), *row[1:]] if i not in {2, 5, 6} else row for i, row in enumerate(contexts)]
    requests = [PredictionRequest(context, None, include_distribution=False) for context in contexts]
    answers = await session.predictor.predict_all(requests)
    assert [i for i, each in enumerate(answers) if isinstance(each, LearnerFailedError)] == [2, 5, 6]
    assert sum(isinstance(each, PredictAnswer) for each in answers) == 6
    stored = await store.get_model(name)
    assert stored is not None
    assert stored.predictions == 6
    assert "failed for" in caplog.text
    futures = [session.predictor.predict(ask) for ask in requests]
    done = await asyncio.gather(*futures, return_exceptions=True)
    assert [i for i, each in enumerate(done) if isinstance(each, LearnerFailedError)] == [2, 5, 6]


class Silent(RedisStore):
    """A store that does not answer when predictions are stored."""

    async def add_predictions(self, key: ModelKey, *_: Any) -> Any:
        """See `Store.add_predictions`."""
        raise StoreUnavailableError(f"the store of {key.name}")


async def test_a_store_error_fails_the_whole_batch(store_url: str, name: str) -> None:
    """Each prediction of the batch gets the error, and none is retried alone."""
    store = Silent(store_url, timeout=5.0)
    session = session_of(store, await make_model(store, name))
    requests = [PredictionRequest(context, None, include_distribution=False) for context in some_contexts(1, 2)]
    first, second = await session.predictor.predict_all(requests)
    assert first is second
    assert isinstance(first, StoreUnavailableError)
    await store.close()


# --- damage is reported


async def test_damage_is_reported_everywhere(store: RedisStore, store_url: str, name: str) -> None:
    """The model, its log, readiness and metrics report damage until the model is deleted."""
    await store.command("DEL", keys.DAMAGED)  # other tests' damage
    model = await make_model(store, name)
    await play(store, model, 5)
    whole = await whole_log(store, model.key)
    await rewrite(store, model, [changed(e, 60, b"\xff" * 30) if e.last_round in {2, 3} else e for e in whole])
    async with worker(store_url, metrics_models=name) as client:
        before = (await client.get(f"/models/{name}")).json()
        assert (before["damaged_rounds"], before["damage"]) == (0, None)
        assert name not in str((await client.get("/readyz")).json()["warnings"])
        assert (await client.post("/predict", json={"model": name, "context": X})).status_code == 200
        after = (await client.get(f"/models/{name}")).json()
        assert after["damaged_rounds"] == 2
        assert [(each["what"], each["first"], each["last"]) for each in after["damage"]] == [
            ("rounds", 2, 2),
            ("rounds", 3, 3),
        ]
        lines = (await client.get(f"/models/{name}/rounds")).text.splitlines()
        assert [json.loads(line)["round"] for line in lines] == [1, 4, 5]
        page = (await client.get(f"/models/{name}/rounds", params={"after": 1, "limit": 1})).text.splitlines()
        assert [json.loads(line)["round"] for line in page] == [4]
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert name in str(ready.json()["warnings"])
        assert f'wager_damaged_rounds{{model="{name}"}} 2.0' in (await client.get("/metrics")).text
        assert (await client.delete(f"/models/{name}")).status_code == 204
        assert name not in str((await client.get("/readyz")).json()["warnings"])
        assert await store.command("EXISTS", keys.damage(*model.key)) == 0
