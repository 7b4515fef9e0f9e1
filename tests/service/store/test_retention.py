"""The laws of `retain_seconds` in every store: what is too old goes, as far as the snapshot includes it."""

import pytest

from service.store import keys
from service.store.log_entries import mark_of
from service.store.records.layout import VERSION
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, StoredPolicies
from service.store.values import Due, Feedback, Snapshot
from tests.service.store.expiries import until
from tests.service.store.samples import NEW, NOW, STRICT, id_of
from tests.service.store.scenario import Scenario

RETAIN = 600.0
ANY_TIME = STRICT._replace(accept_late=True)


async def retained(scenario: Scenario, rounds: int, every: float = 100.0) -> Scenario:
    """Create a model with retention, and rounds whose feedback came at NOW, NOW + every, and so on."""
    await scenario.store.delete_model(scenario.key.name)
    key = ModelKey(scenario.key.name, "retained")
    assert await scenario.store.create_model(key, "{}", NOW, "", StoredPolicies(retention=repr(RETAIN)))
    model = Scenario(scenario.store, key)
    for i in range(rounds):
        await model.predict(f"p{i}")
        await model.store.add_feedback(key, [Feedback(id_of(f"p{i}"), True, None)], ANY_TIME, NOW + every * i)
    return model


async def snapshot(model: Scenario, rounds: int) -> None:
    """Store a snapshot of the first rounds."""
    entries = (await model.store.read_tail(model.key, 0, 1000)).entries
    (last,) = [entry for entry in entries if entry.last_round == rounds]
    assert await model.store.save_snapshot(model.key, Snapshot(rounds, b"state", mark_of(last)), 1000) == rounds


async def is_due(model: Scenario, now: float) -> bool:
    """Claim all models that are due; return whether the model is one of them."""
    return model.key in await model.store.claim(Due.RETENTION, until(now), 100_000, 5.0)


async def numbers(model: Scenario) -> list[int]:
    """Return the numbers of the rounds in the log."""
    return [entry.last_round for entry in (await model.store.read_tail(model.key, 0, 1000)).entries]


@pytest.mark.parametrize(("now", "first"), [(0.0, 1), (RETAIN - 9.0, 1), (RETAIN + 250.0, 4), (RETAIN + 450.0, 6)])
async def test_old_rounds_go(scenario: Scenario, now: float, first: int) -> None:
    """A round goes when it is older than the retention, and no sooner."""
    model = await retained(scenario, 8)
    await snapshot(model, 8)
    assert not await model.store.forget_old(model.key, until(NOW + now))
    assert await numbers(model) == list(range(first, 9))


async def test_the_last_round_of_the_snapshot_stays(scenario: Scenario) -> None:
    """Readers recognize the log by it; later rounds are not in the snapshot, so the caller must write another."""
    model = await retained(scenario, 8)
    late = until(NOW + 10 * RETAIN)
    assert await model.store.forget_old(model.key, late)
    assert await numbers(model) == list(range(1, 9))
    await snapshot(model, 5)
    assert await model.store.forget_old(model.key, late)
    assert await numbers(model) == [5, 6, 7, 8]
    await snapshot(model, 8)
    assert not await model.store.forget_old(model.key, late)
    assert await numbers(model) == [8]
    await model.predict("another")
    await model.judge(Feedback(id_of("another"), True, None))
    assert await numbers(model) == [8, 9]


async def test_a_long_log_goes_over_several_calls(scenario: Scenario) -> None:
    """Pages of the log do not end a call, and a log without old rounds stays as it is."""
    model = await retained(scenario, 150, every=0.001)
    await snapshot(model, 150)
    assert not await model.store.forget_old(model.key, until(NOW + RETAIN - 60.0))
    assert len(await numbers(model)) == 150
    assert not await model.store.forget_old(model.key, until(NOW + RETAIN + 60.0))
    assert await numbers(model) == [150]


async def test_models_are_claimed_when_a_round_may_be_too_old(scenario: Scenario) -> None:
    """A new model is due at once, then when its first round is too old; a deleted one is no longer listed."""
    model = await retained(scenario, 3)
    await snapshot(model, 3)
    assert await is_due(model, NOW)
    assert not await is_due(model, NOW)
    await model.store.forget_old(model.key, until(NOW + 1.0))
    assert not await is_due(model, NOW + RETAIN - 1.0)
    assert await is_due(model, NOW + RETAIN + 1.0)
    await model.store.delete_model(model.key.name)
    assert not await model.store.forget_old(model.key, until(NOW))
    assert not await is_due(model, NOW + 99 * RETAIN)


async def test_a_model_without_retention_keeps_its_rounds(scenario: Scenario) -> None:
    """The command changes nothing then."""
    await scenario.predict("a")
    await scenario.judge(Feedback(id_of("a"), True, None))
    assert not await scenario.store.forget_old(scenario.key, until(NOW + 1e9))
    assert await numbers(scenario) == [1]


async def test_a_damaged_moment_counts_as_old(scenario: Scenario) -> None:
    """Damage must not keep personal data in the log."""
    model = await retained(scenario, 3)
    await snapshot(model, 3)
    entries = (await model.store.read_tail(model.key, 0, 10)).entries
    store = model.store
    assert isinstance(store, RedisStore)
    await store.command("DEL", keys.log(*model.key))
    for i, entry in enumerate(entries):
        payload = b"noise" if i == 0 else entry.payload
        fields = ("t", "r", "v", VERSION, "p", entry.block, "d", payload)
        await store.command("XADD", keys.log(*model.key), f"{entry.last_round}-0", *fields)
    assert not await model.store.forget_old(model.key, until(NOW + 1.0))
    assert [entry.last_round for entry in (await model.store.read_tail(model.key, 1, 10)).entries] == [2, 3]
    assert (await store.command("XLEN", keys.log(*model.key))) == 2


async def test_a_promotion_holds_old_rounds_until_a_snapshot_has_it(scenario: Scenario) -> None:
    """Without them, no other worker could make the change; the caller must write a snapshot that has it."""
    model = await retained(scenario, 8)
    await snapshot(model, 8)
    late = until(NOW + 10 * RETAIN)
    await model.store.hold_rounds(model.key, 5, 1)
    assert await model.store.forget_old(model.key, late)
    assert await numbers(model) == [5, 6, 7, 8]
    assert await model.store.change_model(model.key, NEW, "{}", "", StoredPolicies(retention=repr(RETAIN)))
    assert await model.store.forget_old(model.key, late)
    assert await numbers(model) == [5, 6, 7, 8]
    change = (await model.store.read_tail(model.key, 0, 1000)).changes[-1]
    made = Snapshot(8, b"state", mark_of(change), change_count=1)
    assert await model.store.save_snapshot(model.key, made, 1000) == 8
    assert not await model.store.forget_old(model.key, late)
    assert await numbers(model) == [8]


async def test_a_promotion_that_is_never_made_holds_nothing(scenario: Scenario) -> None:
    """What must be forgotten is forgotten, ten minutes after the promotion was cut short."""
    model = await retained(scenario, 8)
    await snapshot(model, 8)
    await model.store.hold_rounds(model.key, 5, 1)
    assert isinstance(model.store, RedisStore)
    begun = int(await model.store.command("HGET", keys.shadows(*model.key), ":promotion:at"))
    await model.store.command("HSET", keys.shadows(*model.key), ":promotion:at", begun - 601)
    assert not await model.store.forget_old(model.key, until(NOW + 10 * RETAIN))
    assert await numbers(model) == [8]
