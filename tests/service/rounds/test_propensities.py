"""True propensities: the stored number is the probability that the label was drawn with."""

import asyncio
import json
from collections import Counter
from typing import Any

import httpx2
import numpy as np
import pytest
from scipy import stats

from service.choice.requests import PredictionRequest
from service.errors import StoreUnavailableError
from service.store import keys
from service.store.redis.redis_store import RedisStore
from tests.service.rounds.sessions import judge, predict, session_cache, settled
from tests.service.sample_models import (
    LEARNER_CHOICES,
    UNIFORM,
    definition,
    make_model,
    play,
    post,
    replay,
    some_contexts,
    whole_log,
)

DRAWS = 20_000
BATCH = 1000
MORE_CHOICES = [
    *LEARNER_CHOICES,
    {"algorithm": "gaptron", "loss": "hinge", "exploration": 0.3},
    {"algorithm": "soba-diagonal", "exploration": "adaptive"},
]


def spelled(choice: dict[str, Any]) -> str:
    return "-".join(str(value) for value in choice.values())


async def batch(client: httpx2.AsyncClient, name: str, contexts: list[list[float]], **options: Any) -> Any:
    return (await post(client, "/predict/batch", model=name, contexts=contexts, **options))["predictions"]


@pytest.mark.parametrize("choice", LEARNER_CHOICES, ids=spelled)
async def test_labels_are_drawn_with_their_propensities(
    client: httpx2.AsyncClient, name: str, choice: dict[str, Any]
) -> None:
    """Over many draws each label's frequency matches its propensity, which never varies."""
    await post(client, "/models", **definition(name, learner=choice))
    contexts = some_contexts(3, 400)
    truths = ["green" if row[0] > 0 else "blue" for row in contexts]
    pairs = zip(await batch(client, name, contexts), truths, strict=True)
    feedback = [{"prediction_id": item["prediction_id"], "true_label": truth} for item, truth in pairs]
    await post(client, "/feedback/batch", feedback=feedback)
    context, counts = [1.0, -0.5, 0.2], Counter[tuple[str, float]]()
    answer = await post(client, "/predict", model=name, context=context, include_distribution=True)
    distribution = {label: chance for label, chance in answer["distribution"].items() if chance > 0}
    for _ in range(DRAWS // BATCH):
        items = await batch(client, name, [context] * BATCH)
        counts.update((item["label"], item["propensity"]) for item in items)
    assert counts.keys() <= set(distribution.items())
    likely = {each: DRAWS * chance for each, chance in ((pair, pair[1]) for pair in distribution.items())}
    assert all(counts[each] for each, times in likely.items() if times > 20)
    expected, observed = list(likely.values()), [counts[each] for each in likely]
    assert stats.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("choice", MORE_CHOICES, ids=spelled)
async def test_the_log_has_the_propensity_that_was_answered(
    client: httpx2.AsyncClient, name: str, choice: dict[str, Any]
) -> None:
    """Answer, distribution and log have the same number, to the bit, and a replay of the log reproduces it."""
    model, answers = await post(client, "/models", **definition(name, learner=choice)), {}
    for seed in range(10):
        items = await batch(client, name, some_contexts(seed, 20), include_distribution=True)
        for item in items:
            assert item["distribution"][item["label"]] == item["propensity"]
            answers[item["prediction_id"]] = (item["label"], item["propensity"], item["rounds_seen"])
        given = [{"prediction_id": item["prediction_id"], "correct": i % 3 == 0} for i, item in enumerate(items)]
        await post(client, "/feedback/batch", feedback=given)
    log = (await client.get(f"/models/{name}/rounds")).text
    lines = map(json.loads, log.splitlines())
    logged = {line["prediction_id"]: (line["label"], line["propensity"], line["rounds_seen"]) for line in lines}
    assert logged == answers
    replay(model, log, tolerance=1e-9)


async def test_draws_of_a_batch_are_independent(client: httpx2.AsyncClient, name: str) -> None:
    """Neighbouring labels of a batch form every pair equally often."""
    await post(client, "/models", **definition(name, learner=UNIFORM))
    pairs: Counter[tuple[str, str]] = Counter()
    for _ in range(8):
        labels = [item["label"] for item in await batch(client, name, [[1.0, 0.0, 0.0]] * BATCH)]
        pairs.update(zip(labels[::2], labels[1::2], strict=True))
    assert len(pairs) == 16
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3


async def test_draws_of_coalesced_requests_are_independent(client: httpx2.AsyncClient, name: str) -> None:
    await post(client, "/models", **definition(name, learner=UNIFORM))
    asked = [post(client, "/predict", model=name, context=[1.0, 0.0, 0.0]) for _ in range(800)]
    counts = Counter(answer["label"] for answer in await asyncio.gather(*asked))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


# --- the draw is kept, and a prediction has seen only rounds of the log


async def test_a_round_keeps_its_residual_uniform(store: RedisStore, name: str) -> None:
    model = await make_model(store, name, learner=UNIFORM)
    session = await session_cache(store).find(name, "model")
    await judge(session, await predict(session, 8))
    rounds = model.rounds_of(model.choice.records.rows([entry.payload for entry in await whole_log(store, model.key)]))
    numbers = 4.0 * np.random.default_rng(1).random(8)
    assert (rounds.labels == numbers.astype(int)).all()
    np.testing.assert_allclose(rounds.residual_uniforms, numbers % 1.0, atol=1e-12)


@pytest.mark.parametrize("lag", [0.0, 60.0])
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_prediction_has_seen_only_rounds_of_the_log(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch, times: int, lag: float
) -> None:
    """A log that has shrunk just before a prediction is stored is accepted; one that keeps shrinking is an error."""
    model = await make_model(store, name, freshness={"max_lag_seconds": lag})
    await play(store, model, 6)
    session, left, add = await session_cache(store).find(name, "model"), iter(range(times)), store.add_predictions
    await predict(session, 1)

    async def forgetful(*args: Any) -> Any:
        if next(left, None) is not None:
            rounds = (await store.read_tail(model.key, 0, 1)).round_count
            await store.command("XDEL", keys.log(*model.key), f"{rounds}-0")
            await store.command("HINCRBY", keys.model(name), "rounds", -1)
        return await add(*args)

    monkeypatch.setattr(store, "add_predictions", forgetful)
    ask = PredictionRequest(some_contexts(1, 1)[0], None, include_distribution=False)
    if times == 3:
        with pytest.raises(StoreUnavailableError, match="repeatedly lost rounds"):
            await session.predictor.predict(ask)
    else:
        assert (await session.predictor.predict(ask)).rounds_seen == 6 - times
    await settled(session)
