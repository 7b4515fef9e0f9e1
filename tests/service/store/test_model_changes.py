"""The laws of every store's changes of models."""

import contextlib

import pytest

from service.errors import ModelNotFoundError, StoreCorruptError
from service.store import keys
from service.store.log_entries import mark_of
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, digests_of
from service.store.values import ChangeEntry, Seen, Snapshot, Tail
from tests.service.store.samples import NEW, WINDOW, digest_of, sample_predictions, sample_seen
from tests.service.store.scenario import Scenario


async def change(scenario: Scenario, line: str) -> None:
    store, key = scenario.store, scenario.key
    assert await store.change_model(key, await digest_of(store, key.name), line, "{}")


async def test_a_change_is_in_the_log_and_in_the_history(scenario: Scenario) -> None:
    await scenario.play(2)
    await change(scenario, '{"at":1}')
    await change(scenario, '{"at":2}')
    await scenario.predict("a", "b")
    await scenario.confirm("a")
    await change(scenario, '{"at":3}')
    await scenario.confirm("b")
    tail = await scenario.store.read_tail(scenario.key, 0, 100)
    places = [(2, 1, b'{"at":1}'), (2, 2, b'{"at":2}'), (3, 3, b'{"at":3}')]
    assert (tail.round_count, tail.change_count) == (4, 3)
    assert list(tail.changes) == [ChangeEntry(*place) for place in places]
    assert [entry.last_round for entry in tail.entries] == [1, 2, 3, 4]
    model = await scenario.model()
    assert (model.history, model.round_count) == (('{"at":1}', '{"at":2}', '{"at":3}'), 4)


async def test_a_repeated_change_is_made_once(scenario: Scenario) -> None:
    store, key, first = scenario.store, scenario.key, digests_of(["{}", '{"at":1}'])[-8:]
    for _ in range(3):
        assert await store.change_model(key, NEW, '{"at":1}', "{}")
    for digest, line in ((NEW, '{"at":2}'), (NEW, ":1}"), (b"12345678", '{"at":2}')):
        assert not await store.change_model(key, digest, line, "{}")
    assert await store.change_model(key, first, '{"at":2}', "{}")
    assert not await store.change_model(key, NEW, '{"at":1}', "{}")
    model = await scenario.model()
    assert model.history == ('{"at":1}', '{"at":2}')
    assert model.digests == digests_of(["{}", *model.history])
    assert len((await store.read_tail(key, 0, 10)).changes) == 2


async def test_a_model_that_is_gone_does_not_change(scenario: Scenario) -> None:
    store, key = scenario.store, scenario.key
    with pytest.raises(ModelNotFoundError):
        await store.change_model(ModelKey(key.name, "other"), NEW, "{}", "{}")
    await store.delete_model(key.name)
    with pytest.raises(ModelNotFoundError):
        await store.change_model(key, NEW, "{}", "{}")
    assert await store.get_model(key.name) is None


async def test_predictions_that_miss_a_change_get_the_tail(scenario: Scenario) -> None:
    store, key = scenario.store, scenario.key
    await scenario.play(3)
    await change(scenario, '{"at":1}')
    tail = await store.add_predictions(key, sample_predictions("x"), WINDOW, sample_seen(3, 10))
    assert isinstance(tail, Tail)
    assert [entry.last_round for entry in tail.entries] == [3]
    (made,) = tail.changes
    seen = Seen(3, 10, mark_of(made), change_count=1, digest=await digest_of(store, key.name))
    assert await store.add_predictions(key, sample_predictions("x"), WINDOW, seen) == [None]
    await scenario.play(5)
    newer = seen._replace(allow_newer=True)
    assert await store.add_predictions(key, sample_predictions("y"), WINDOW, newer) == [None]
    others = {"last_at": b"00000000"}, {"change_count": 0}, {"digest": NEW}, {"allow_newer": False}
    for other in others:
        wrong = newer._replace(**other)
        assert isinstance(await store.add_predictions(key, sample_predictions("z"), WINDOW, wrong), Tail)


@pytest.mark.parametrize("mark", ["same", "other", "unknown"])
async def test_a_snapshot_after_a_change_belongs_to_its_log(scenario: Scenario, mark: str) -> None:
    await scenario.play(3)
    await change(scenario, '{"at":1}')
    marks = {"same": mark_of(ChangeEntry(3, 1, b'{"at":1}')), "other": b"00000000", "unknown": None}
    given = Snapshot(3, b"state", marks[mark], change_count=1)
    assert await scenario.store.save_snapshot(scenario.key, given, 0) == (0 if mark == "other" else 3)
    loaded = await scenario.store.load_snapshot(scenario.key)
    assert loaded == (None if mark == "other" else Snapshot(3, b"state", change_count=1))


@pytest.mark.parametrize(("changes", "history"), [(0, b"{}\n"), (2, b"{}\n"), (1, b"{}"), (1, b"{}\n{}\n")])
async def test_a_history_of_another_length_cannot_be_read(
    store: RedisStore, name: str, changes: int, history: bytes
) -> None:
    assert await store.create_model(ModelKey(name, "first"), "{}", 1.0)
    await store.command("HSET", keys.model(name), "changes", changes, "history", history)
    with pytest.raises(StoreCorruptError, match="history"):
        await store.get_model(name)


@pytest.mark.parametrize(("field", "value"), [("changes", b"x"), ("changes", b"2"), ("rounds", b"x")])
async def test_a_damaged_model_does_not_change(store: RedisStore, name: str, field: str, value: bytes) -> None:
    key = ModelKey(name, "first")
    assert await store.create_model(key, "{}", 1.0)
    await store.command("HSET", keys.model(name), field, value)
    before = await store.command("HGETALL", keys.model(name))
    for digest in (NEW, b"12345678"):
        with contextlib.suppress(StoreCorruptError):
            assert not await store.change_model(key, digest, "{}", "{}")
    assert await store.command("HGETALL", keys.model(name)) == before
    assert await store.command("EXISTS", keys.log(*key)) == 0
