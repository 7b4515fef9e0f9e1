"""The laws of a log whose last round differs from its counter: it accepts no feedback, and is reported."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from service.errors import StoreCorruptError
from service.models.model import Model
from service.prediction_id import PredictionId
from service.registry.round_log import LogReader
from service.rounds.feedback import feedback_rules
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Feedback
from tests.service.damaging import played, predicted, session_of
from tests.service.sample_models import COMPUTE
from tests.service.workers import START
from toolkit.repair import search

N = 5

Damage = Callable[[RedisStore, Model], Awaitable[object]]


async def copy_last(store: RedisStore, model: Model) -> None:
    """Append the last entry again, under the id of a change."""
    ((_, fields),) = await store.command("XRANGE", keys.log(*model.key), f"{N}-0", "+")
    pairs = [part for pair in dict(fields).items() for part in pair]
    await store.command("XADD", keys.log(*model.key), f"{N}-1", *pairs)


DAMAGE: dict[str, Damage] = {
    "counter too low": lambda store, model: store.command("HSET", keys.model(model.name), "rounds", N - 2),
    "counter of zero": lambda store, model: store.command("HSET", keys.model(model.name), "rounds", 0),
    "counter too high": lambda store, model: store.command("HINCRBY", keys.model(model.name), "rounds", 3),
    "counter with a zero before": lambda store, model: store.command("HSET", keys.model(model.name), "rounds", f"0{N}"),
    "no log": lambda store, model: store.command("DEL", keys.log(*model.key)),
    "no last entry": lambda store, model: store.command("XDEL", keys.log(*model.key), f"{N}-0"),
    "the last entry twice": copy_last,
}
EACH = pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))


async def damaged(store: RedisStore, name: str, damage: Damage) -> tuple[Model, PredictionId]:
    """Create a damaged model with N rounds; return it with an open prediction."""
    model = await played(store, name, "dense", N, None)
    (answer,) = await predicted(session_of(store, model), 1)
    await damage(store, model)
    return model, PredictionId.parse(answer.prediction_id)


@EACH
async def test_a_log_that_differs_from_its_counter_accepts_no_feedback(
    store: RedisStore, name: str, damage: Damage
) -> None:
    """Feedback is refused, because its round could never be folded; the log stays unchanged."""
    model, id_ = await damaged(store, name, damage)
    before = await store.command("XLEN", keys.log(*model.key))
    with pytest.raises(StoreCorruptError):
        await store.add_feedback(model.key, [Feedback(id_, True, None)], feedback_rules(model), START)
    assert await store.command("XLEN", keys.log(*model.key)) == before


@EACH
async def test_a_log_that_differs_from_its_counter_is_listed_as_damage(
    store: RedisStore, name: str, damage: Damage
) -> None:
    """The search for damage ends and lists the model."""
    await damaged(store, name, damage)
    async with asyncio.timeout(20.0):
        assert any(finding.damaged for finding in [each async for each in search(store, name)])


@EACH
async def test_reading_a_log_that_differs_from_its_counter_ends(store: RedisStore, name: str, damage: Damage) -> None:
    """Reading such a log ends, and returns every readable round once."""
    model, _ = await damaged(store, name, damage)
    async with asyncio.timeout(20.0):
        parts = [part async for part in await LogReader(model, store, COMPUTE).read(0, 1000)]
    numbers = [line.round for part in parts for line in part]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("rounds", [0, N - 2])
async def test_a_log_beyond_its_counter_is_not_predicted_from(store: RedisStore, name: str, rounds: int) -> None:
    """A new worker does not answer from an older state, and does not mark a snapshot as damaged."""
    model = await played(store, name, "dense", N, None)
    await store.command("HSET", keys.model(name), "rounds", rounds)
    with pytest.raises(StoreCorruptError):
        await predicted(session_of(store, model))
    assert (await store.read_damage(model.key)).found == []
