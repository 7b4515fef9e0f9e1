"""The laws of damaged numbers outside a log: they are reported, and cause neither hangs nor endless retries."""

import asyncio

import httpx2
import pytest

from service.replicas.replica import Replica
from service.store import keys
from service.store.redis.redis_store import RedisStore
from tests.servers import raw
from tests.service.sample_models import COMPUTE, GAPTRON, bits, definition, make_model, play, sequential_fold, whole_log
from tests.service.workers import worker

X = [0.6, 0.8, 0.0]


@pytest.mark.parametrize("by", [-1, -1000])
async def test_a_snapshot_with_a_false_round_count_is_ignored(
    store: RedisStore, store_url: str, name: str, by: int
) -> None:
    """A snapshot with a false round count is ignored if the log has every round; the state is folded from the log."""
    model = await make_model(store, name, learner=GAPTRON, retain_rounds=100_000)
    await play(store, model, 1200)
    writer = Replica(model, store, COMPUTE)
    await writer.catch_up()
    await writer.snapshot()
    with raw(store_url) as client:
        client.hincrby(keys.snapshot(*model.key), "rounds", by)
    reader = Replica(model, store, COMPUTE)
    async with asyncio.timeout(30.0):
        await reader.catch_up()
    assert bits(reader.state) == bits(sequential_fold(model, await whole_log(store, model.key)))


@pytest.mark.parametrize("value", [b"oops", b"", b"-5", b"1e5", b"9223372036854775807"])
async def test_a_damaged_counter_of_rounds_is_corrupt(
    client: httpx2.AsyncClient, store_url: str, name: str, value: bytes
) -> None:
    """With a damaged counter of rounds, predictions and feedback get a status that does not suggest a retry."""
    await client.post("/models", json=definition(name))
    made = (await client.post("/predict", json={"model": name, "context": X})).json()
    with raw(store_url) as direct:
        direct.hset(keys.model(name), "rounds", value)
    prediction = await client.post("/predict", json={"model": name, "context": X})
    feedback = await client.post("/feedback", json={"prediction_id": made["prediction_id"], "correct": True})
    for answer in (prediction, feedback):
        assert (answer.status_code, answer.json()["type"]) == (500, "urn:wager:problem:store-corrupt")


@pytest.mark.parametrize("field", ["correct", "predictions"])
async def test_other_damaged_counters_stop_nothing(
    client: httpx2.AsyncClient, store_url: str, name: str, field: str
) -> None:
    """Damage to counters that are only displayed does not stop predictions or learning."""
    await client.post("/models", json=definition(name))
    await client.post("/predict", json={"model": name, "context": X})
    with raw(store_url) as direct:
        direct.hset(keys.model(name), field, b"oops")
    made = await client.post("/predict", json={"model": name, "context": X})
    assert made.status_code == 200
    feedback = await client.post("/feedback", json={"prediction_id": made.json()["prediction_id"], "correct": True})
    assert (feedback.status_code, feedback.json()["status"]) == (200, "recorded")


async def test_a_model_with_too_large_predictions_is_refused(store_url: str, name: str) -> None:
    """The error names the hyperparameter and value that store less evidence per prediction."""
    labels = [str(k) for k in range(10_000)]
    features = {"kind": "dense", "size": 2}
    async with worker(store_url) as client:
        body = {"name": name, "labels": labels, "features": features, "learner": {"algorithm": "gaptron"}}
        refused = await client.post("/models", json=body)
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:wager:problem:model-too-large")
        assert "delayed_update: recompute" in refused.json()["detail"]
        learner = {"algorithm": "gaptron", "delayed_update": "recompute"}
        assert (await client.post("/models", json=body | {"learner": learner})).status_code == 201


async def test_a_body_with_too_many_parts_is_refused(client: httpx2.AsyncClient) -> None:
    """The body is refused before parsing, as each object, list and member takes time to create and free."""
    for part in (b"[],", b"{},", b'{"a":1},'):
        content = b'{"model":"m","context":[' + part * 300_000 + b"1]}"
        answer = await client.post("/predict", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert "250,000" in answer.json()["detail"]
