"""The laws of `retain_seconds` in every store: what is too old goes, as far as the snapshot includes it."""

import pytest

from service.store import keys
from service.store.log_entries import mark_of
from service.store.records.layout import VERSION
from service.store.redis import redis_store
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import StoredPolicies
from service.store.values import Due, Snapshot
from tests.service.store.samples import NEW, NOW, STRICT
from tests.service.store.scenario import Scenario, until

RETAIN = 600.0
POLICIES = StoredPolicies(retention=repr(RETAIN))
LATE = NOW + 10 * RETAIN


async def retained(scenario: Scenario, rounds: int, every: float = 100.0) -> Scenario:
    """Create a model with retention, and rounds whose feedback came at NOW, NOW + every, and so on."""
    model = await scenario.replaced(POLICIES)
    for i in range(rounds):
        await model.predict(f"p{i}")
        await model.confirm(f"p{i}", now=NOW + every * i, rules=STRICT._replace(accept_late=True))
    return model


async def snapshot(model: Scenario, rounds: int) -> None:
    (last,) = [entry for entry in await model.entries() if entry.last_round == rounds]
    assert await model.store.save_snapshot(model.key, Snapshot(rounds, b"state", mark_of(last)), 1000) == rounds


async def is_due(model: Scenario, now: float) -> bool:
    return model.key in await model.store.claim(Due.RETENTION, until(now), 100_000, 5.0)


async def forget(model: Scenario, now: float = LATE) -> bool:
    return await model.store.forget_old(model.key, until(now))


async def numbers(model: Scenario) -> list[int]:
    return [entry.last_round for entry in await model.entries()]


@pytest.mark.parametrize(("now", "first"), [(0.0, 1), (RETAIN - 9.0, 1), (RETAIN + 250.0, 4), (RETAIN + 450.0, 6)])
async def test_old_rounds_go(scenario: Scenario, now: float, first: int) -> None:
    model = await retained(scenario, 8)
    await snapshot(model, 8)
    assert not await forget(model, NOW + now)
    assert await numbers(model) == list(range(first, 9))


async def test_only_rounds_of_the_snapshot_go_and_its_last_one_stays(scenario: Scenario) -> None:
    model = await retained(scenario, 8)
    assert await forget(model)
    assert await numbers(model) == list(range(1, 9))
    await snapshot(model, 5)
    assert await forget(model)
    assert await numbers(model) == [5, 6, 7, 8]
    await snapshot(model, 8)
    assert not await forget(model)
    assert await numbers(model) == [8]
    await model.predict("another")
    await model.confirm("another")
    assert await numbers(model) == [8, 9]


async def test_a_long_log_goes_over_several_pages(scenario: Scenario) -> None:
    model = await retained(scenario, 150, every=0.001)
    await snapshot(model, 150)
    assert not await forget(model, NOW + RETAIN - 60.0)
    assert len(await numbers(model)) == 150
    assert not await forget(model, NOW + RETAIN + 60.0)
    assert await numbers(model) == [150]


async def test_a_backlog_beyond_one_call_is_due_at_once(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "_ENTRIES_AT_ONCE", 64)
    model = await retained(scenario, 150, every=0.001)
    await snapshot(model, 150)
    for first in (64, 127, 150):
        assert await is_due(model, LATE + 1.0)
        assert not await forget(model)
        assert await numbers(model) == list(range(first, 151))
    assert not await is_due(model, LATE + 1.0)


async def test_models_are_claimed_when_a_round_may_be_too_old(scenario: Scenario) -> None:
    model = await retained(scenario, 3)
    await snapshot(model, 3)
    assert [await is_due(model, NOW) for _ in range(2)] == [True, False]
    await forget(model, NOW + 1.0)
    assert [await is_due(model, NOW + RETAIN + more) for more in (-1.0, 1.0)] == [False, True]
    await model.store.delete_model(model.key.name)
    assert not await is_due(model, NOW + 99 * RETAIN)
    assert not await forget(model, NOW)


async def test_a_model_without_retention_keeps_its_rounds(scenario: Scenario) -> None:
    await scenario.play(1)
    assert not await forget(scenario, NOW + 1e9)
    assert await numbers(scenario) == [1]


async def test_a_damaged_moment_counts_as_old(scenario: Scenario) -> None:
    """Damage must not keep personal data in the log."""
    model = await retained(scenario, 3)
    await snapshot(model, 3)
    entries, store = await model.entries(), model.store
    assert isinstance(store, RedisStore)
    await store.command("DEL", keys.log(*model.key))
    for i, entry in enumerate(entries):
        fields = ("t", "r", "v", VERSION, "p", entry.block, "d", entry.payload if i else b"noise")
        await store.command("XADD", keys.log(*model.key), f"{entry.last_round}-0", *fields)
    assert not await forget(model, NOW + 1.0)
    assert [entry.last_round for entry in (await store.read_tail(model.key, 1, 10)).entries] == [2, 3]
    assert (await store.command("XLEN", keys.log(*model.key))) == 2


async def test_a_promotion_holds_old_rounds_until_a_snapshot_has_it(scenario: Scenario) -> None:
    """Without them, no other worker could make the change; the caller must write a snapshot that has it."""
    model = await retained(scenario, 8)
    await snapshot(model, 8)
    await model.store.hold_rounds(model.key, 5, 1)
    assert await forget(model)
    assert await numbers(model) == [5, 6, 7, 8]
    assert await model.store.change_model(model.key, NEW, "{}", "", POLICIES)
    assert await forget(model)
    assert await numbers(model) == [5, 6, 7, 8]
    change = (await model.store.read_tail(model.key, 0, 1000)).changes[-1]
    made = Snapshot(8, b"state", mark_of(change), change_count=1)
    assert await model.store.save_snapshot(model.key, made, 1000) == 8
    assert not await forget(model)
    assert await numbers(model) == [8]


async def test_a_promotion_that_is_never_made_holds_nothing(scenario: Scenario) -> None:
    model = await retained(scenario, 8)
    await snapshot(model, 8)
    await model.store.hold_rounds(model.key, 5, 1)
    assert isinstance(model.store, RedisStore)
    begun = int(await model.store.command("HGET", keys.shadows(*model.key), ":promotion:at"))
    await model.store.command("HSET", keys.shadows(*model.key), ":promotion:at", begun - 601)  # ten minutes ago
    assert not await forget(model)
    assert await numbers(model) == [8]
