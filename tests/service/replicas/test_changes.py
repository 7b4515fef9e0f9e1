"""The laws of log entries from later versions: this version folds none of them, and still records feedback."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from learners.codec import encode_state
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Seen, Snapshot, Tail
from tests.service.damaging import played
from tests.service.replicas.altering import write_history
from tests.service.sample_models import definition, whole_log
from tests.service.store.samples import WINDOW, digest_of, sample_predictions
from tests.service.workers import Clock, worker

X = [0.6, 0.8, 0.0]
NEWER: dict[str, list[Any]] = {
    "a change": ["t", "c", "v", 4, "k", "labels", "d", "x"],
    "a change like a round": ["t", "c", "v", 4, "p", "b", "d", "x"],
    "an unknown type": ["t", "z", "v", 4, "p", "b", "d", "x"],
    "a later version": ["t", "r", "v", 6, "p", "b", "d", "x"],
    "a further field": ["t", "r", "v", 4, "p", "b", "d", "x", "e", "y"],
    "an old entry with a further field": ["p", "b", "r", "x", "s", "z"],
    "another field": ["t", "r", "v", 4, "p", "b", "x", "x"],
}


async def add_newer_change(store: RedisStore, key: ModelKey, entry: str) -> None:
    """Add a change of a newer version to the log and to the history of a model."""
    await store.command("XADD", keys.log(*key), entry, *NEWER["a change"])
    await write_history(store, key.name, ['{"at":1.0,"later":1}'])


@pytest.fixture
def two(store_url: str, runner: asyncio.Runner) -> Iterator[list[httpx2.AsyncClient]]:
    """Start two workers on one store."""
    clock = Clock()
    contexts = [worker(store_url, clock), worker(store_url, clock)]
    yield [runner.run(context.__aenter__()) for context in contexts]
    for context in contexts:
        runner.run(context.__aexit__(None, None, None))


async def predict(client: httpx2.AsyncClient, name: str) -> httpx2.Response:
    """Request one prediction."""
    return await client.post("/predict", json={"model": name, "context": X})


async def judge(client: httpx2.AsyncClient, prediction: httpx2.Response) -> httpx2.Response:
    """Report that a prediction was right."""
    return await client.post("/feedback", json={"prediction_id": prediction.json()["prediction_id"], "correct": True})


@pytest.mark.parametrize("before", [0, 2])
async def test_a_change_stops_predictions_but_no_feedback(
    two: list[httpx2.AsyncClient], store: RedisStore, name: str, before: int
) -> None:
    """After a change, workers old and new refuse and do not store predictions; open predictions accept feedback."""
    await two[0].post("/models", json=definition(name))
    for _ in range(before):
        assert (await judge(two[0], await predict(two[0], name))).status_code == 200
    opened = [await predict(client, name) for client in two]
    stored = await store.get_model(name)
    assert stored is not None
    log = keys.log(*stored.key)
    await add_newer_change(store, stored.key, f"{before}-1")
    for client in two:
        refused = await predict(client, name)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:wager:problem:newer-version")
    for i, (client, prediction) in enumerate(zip(two, opened, strict=True), before + 1):
        answer = await judge(client, prediction)
        assert (answer.status_code, answer.json()["status"], answer.json()["round"]) == (200, "recorded", i)
        assert (await judge(client, prediction)).json()["status"] == "duplicate"
    for client in two:
        assert (await predict(client, name)).status_code == 503
    after = await store.get_model(name)
    assert after is not None
    assert (after.predictions, after.round_count) == (before + 2, before + 2)
    ids = [id_.decode() for id_, _ in await store.command("XRANGE", log, "-", "+")]
    assert ids == [*(f"{n}-0" for n in range(1, before + 1)), f"{before}-1", f"{before + 1}-1", f"{before + 2}-1"]
    assert (await store.read_damage(stored.key)).found == []


async def test_a_change_of_one_model_does_not_affect_others(
    two: list[httpx2.AsyncClient], store: RedisStore, name: str
) -> None:
    """A change in one model's log does not stop other models from predicting."""
    for each in (name, f"{name}-other"):
        await two[0].post("/models", json=definition(each))
    stored = await store.get_model(name)
    assert stored is not None
    await add_newer_change(store, stored.key, "0-1")
    assert (await predict(two[0], name)).status_code == 503
    assert (await predict(two[0], f"{name}-other")).status_code == 200


@pytest.mark.parametrize("what", NEWER)
async def test_an_entry_of_a_newer_version_stops_the_model(
    two: list[httpx2.AsyncClient], store: RedisStore, name: str, what: str
) -> None:
    """A newer entry stops predictions and is not recorded as damage; the earlier rounds can be read."""
    await two[0].post("/models", json=definition(name))
    assert (await judge(two[0], await predict(two[0], name))).status_code == 200
    stored = await store.get_model(name)
    assert stored is not None
    await store.command("XADD", keys.log(*stored.key), "2-0", *NEWER[what])
    await store.command("HINCRBY", keys.model(name), "rounds", 1)
    for client in two:
        refused = await predict(client, name)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:wager:problem:newer-version")
    assert (await store.read_damage(stored.key)).found == []
    lines = await two[0].get(f"/models/{name}/rounds", params={"limit": 1})
    assert (lines.status_code, len(lines.text.splitlines())) == (200, 1)


@pytest.mark.parametrize(
    "seen",
    [Seen(3, 10), Seen(0, 10), Seen(3, 10, newer=True), Seen(3, 10, change_count=1), Seen(3, 10, digest=b"lost")],
)
async def test_predictions_with_other_changes_get_the_tail(store: RedisStore, name: str, seen: Seen) -> None:
    """Predictions that miss a change, or have seen one that the log lacks or has replaced, are not stored."""
    model = await played(store, name, "dense", 3, None)
    given, is_lost = sample_predictions("a"), seen.digest == b"lost"
    if seen.change_count == 0 and not is_lost:
        await store.command("HSET", keys.model(name), "changes", 2)
    whole = seen if is_lost else seen._replace(digest=model.digest)
    tail = await store.add_predictions(model.key, given, WINDOW, whole)
    assert isinstance(tail, Tail)
    assert (tail.change_count, tail.digest) == (0 if is_lost or seen.change_count else 2, model.digest)
    assert tail.round_count == 3
    ids = [entry.last_round for entry in tail.entries]
    assert ids == ([3] if seen.round_count and not seen.change_count else [1, 2, 3] if not seen.round_count else [])
    right = Seen(3, 10, change_count=tail.change_count, digest=tail.digest)
    assert await store.add_predictions(model.key, given, WINDOW, right) == [None]
    assert len(await whole_log(store, model.key)) == 3


@pytest.mark.parametrize("value", [b"oops", b"", b"-1", b"1e5", b"9" * 16])
async def test_a_damaged_number_of_changes_is_corrupt(
    two: list[httpx2.AsyncClient], store: RedisStore, name: str, value: bytes
) -> None:
    """With a damaged number of changes, a model accepts neither predictions nor feedback."""
    await two[0].post("/models", json=definition(name))
    made = await predict(two[0], name)
    await store.command("HSET", keys.model(name), "changes", value)
    for answer in (await predict(two[0], name), await judge(two[0], made)):
        assert (answer.status_code, answer.json()["type"]) == (500, "urn:wager:problem:store-corrupt")


async def test_a_change_that_the_log_has_lost_is_corrupt(
    two: list[httpx2.AsyncClient], store: RedisStore, name: str
) -> None:
    """If the log has lost a change, no worker skips the change or retries forever."""
    await two[0].post("/models", json=definition(name))
    assert (await judge(two[0], await predict(two[0], name))).status_code == 200
    await store.command("HSET", keys.model(name), "changes", 1)
    for client in two:
        refused = await predict(client, name)
        assert (refused.status_code, refused.json()["type"]) == (500, "urn:wager:problem:store-corrupt")


async def test_a_snapshot_with_a_change_is_not_loaded(
    two: list[httpx2.AsyncClient], store: RedisStore, name: str
) -> None:
    """The snapshot is refused even if the log has lost the change, as this version cannot know its effect."""
    model = await played(store, name, "dense", 3, None)
    await add_newer_change(store, model.key, "3-1")
    state = bytes(encode_state(model.learner, model.learner.init()))
    assert (
        await store.save_snapshot(model.key, Snapshot(3, state, change_count=1, digest=await digest_of(store, name)), 0)
        == 3
    )
    await store.command("DEL", keys.log(*model.key))
    for client in two:
        refused = await predict(client, name)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:wager:problem:newer-version")
