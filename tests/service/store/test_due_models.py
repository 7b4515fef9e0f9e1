"""The laws of the list of models whose predictions are to be closed, in every store."""

from typing import Any

import pytest

from service.errors import StoreCorruptError
from service.store import keys
from service.store.capabilities import Store
from service.store.records.layout import VERSION
from service.store.stored_models import ModelKey
from service.store.values import Due, Feedback
from tests.servers import keys_like, raw
from tests.service.store.expiries import INCORRECT, LATE, WAITING, close, closing, outcomes, until
from tests.service.store.samples import NOW, WINDOW, id_of
from tests.service.store.scenario import Scenario


async def due_at(store: Store, now: float) -> list[ModelKey]:
    """Claim every model that is due."""
    return await store.claim(Due.CLOSING, until(now), 10_000, 2.0)


def scores(url: str) -> dict[str, float]:
    """Return when each model is due."""
    with raw(url) as client:
        found: Any = client.zrange(Due.CLOSING, 0, -1, withscores=True)
        return {member.decode(): score for member, score in found}


async def test_a_model_is_due_when_it_is_new_and_when_a_prediction_expires(scenario: Scenario) -> None:
    """Between, it is not: a prediction made after a call expires one window later at the earliest."""
    model = await closing(scenario, INCORRECT)
    assert model.key in await due_at(model.store, NOW)
    await close(model, NOW)
    assert model.key not in await due_at(model.store, NOW + WINDOW - 5.0)
    assert model.key in await due_at(model.store, NOW + WINDOW + 1.0)
    await close(model, NOW + WINDOW + 1.0)
    await model.predict("a")
    assert model.key not in await due_at(model.store, NOW + WINDOW + 1.5)
    assert model.key in await due_at(model.store, NOW + 2 * WINDOW + 2.0)


async def test_a_claimed_model_is_left_to_one_worker_for_a_while(scenario: Scenario) -> None:
    """Nobody else claims it during the lease; afterwards, as the worker may have died, anybody may."""
    model = await closing(scenario, INCORRECT)
    assert model.key in await due_at(model.store, NOW)
    assert model.key not in await due_at(model.store, NOW + 1.0)
    assert model.key in await due_at(model.store, NOW + 3.0)


async def test_a_model_with_more_to_close_queues_behind_the_others(scenario: Scenario, any_store_url: str) -> None:
    """It is due at once, but after the models that are due already."""
    model = await closing(scenario, INCORRECT)
    await model.predict(*(f"p{number}" for number in range(9)))
    assert await close(model, most_blocks=8)
    assert scores(any_store_url)[":".join(model.key)] == pytest.approx(LATE, abs=5.0)


async def test_only_models_that_close_predictions_are_listed(scenario: Scenario, any_store_url: str) -> None:
    """Without a rule, a model is not listed; a deleted one leaves nothing but predictions."""
    assert ":".join(scenario.key) not in scores(any_store_url)
    model = await closing(scenario, INCORRECT)
    await model.predict("a")
    assert ":".join(model.key) in scores(any_store_url)
    await model.store.delete_model(model.key.name)
    assert ":".join(model.key) not in scores(any_store_url)
    assert keys_like(any_store_url, model.key.name) == [keys.block(*model.key, "a")]


async def test_a_model_that_is_gone_leaves_the_list(scenario: Scenario, any_store_url: str) -> None:
    """A worker that still uses a deleted model may list it again; closing its predictions removes it."""
    gone = ModelKey(scenario.key.name, "gone")
    await scenario.store.watch(Due.CLOSING, [gone])
    assert ":".join(gone) in scores(any_store_url)
    assert not (await scenario.store.close_expired(gone, 0.0, 8)).more
    assert ":".join(gone) not in scores(any_store_url)


async def test_listing_a_model_again_changes_nothing(scenario: Scenario, any_store_url: str) -> None:
    """Workers list the models in use now and then; when they are due does not change."""
    model = await closing(scenario, INCORRECT)
    await close(model, NOW)
    before = scores(any_store_url)[":".join(model.key)]
    await model.store.watch(Due.CLOSING, [model.key])
    assert scores(any_store_url)[":".join(model.key)] == before


async def test_a_closed_block_leaves_the_deadlines(scenario: Scenario, any_store_url: str) -> None:
    """With all its feedback, a block has nothing to close, and is kept for an hour after its window."""
    model = await closing(scenario, INCORRECT)
    await model.predict("a", "b")
    await model.judge(Feedback(id_of("a"), True, None))
    with raw(any_store_url) as client:
        assert client.zrange(keys.deadlines(*model.key), 0, -1) == [b"b"]
        assert WINDOW + 3540.0 < client.ttl(keys.block(*model.key, "a")) <= WINDOW + 3600.0
    assert await model.predict("b") != [None]
    await close(model)
    with raw(any_store_url) as client:
        assert not client.exists(keys.deadlines(*model.key))


async def test_a_broken_block_does_not_block_the_others(scenario: Scenario, any_store_url: str) -> None:
    """Blocks that are damaged, gone or of a newer version are passed over, and all others are closed."""
    model = await closing(scenario, INCORRECT)
    await model.predict("a", "broken", "gone", "list", "newer", "z")
    with raw(any_store_url) as client:
        client.set(keys.block(*model.key, "broken"), b"nonsense")
        client.delete(keys.block(*model.key, "gone"), keys.block(*model.key, "list"))
        client.lpush(keys.block(*model.key, "list"), b"nonsense")
        client.setrange(keys.block(*model.key, "newer"), 0, bytes([VERSION + 1]))
    assert [await close(model, most_blocks=2) for _ in range(4)][-1] is False
    assert [entry.block for entry in (await model.store.read_tail(model.key, 0, 9)).entries] == ["a", "z"]
    with raw(any_store_url) as client:
        assert client.zrange(keys.deadlines(*model.key), 0, -1) == [b"newer"]
        client.setrange(keys.block(*model.key, "newer"), 0, bytes([VERSION]))
    await close(model, LATE + 100.0)
    assert len(await outcomes(model)) == 3


async def test_a_deadline_that_is_too_early_closes_nothing(scenario: Scenario, any_store_url: str) -> None:
    """The end of the window in the block counts; a damaged deadline is put right."""
    model = await closing(scenario, INCORRECT)
    await model.predict("a")
    with raw(any_store_url) as client:
        client.zadd(keys.deadlines(*model.key), {"a": NOW})
        await close(model, NOW + 10.0)
        assert client.zscore(keys.deadlines(*model.key), "a") == NOW + WINDOW
    assert await outcomes(model) == []
    await close(model)
    assert len(await outcomes(model)) == 1


@pytest.mark.parametrize("rule", [INCORRECT, WAITING])
@pytest.mark.parametrize("field", ["rounds", "closing"])
async def test_a_damaged_model_is_reported(scenario: Scenario, any_store_url: str, rule: str, field: str) -> None:
    """Its predictions stay open until it is repaired; the error names the damage."""
    model = await closing(scenario, rule)
    await model.predict("a")
    with raw(any_store_url) as client:
        before = client.hget(keys.model(model.key.name), field)
        client.hset(keys.model(model.key.name), field, "nonsense")
        with pytest.raises(StoreCorruptError):
            await close(model)
        client.hset(keys.model(model.key.name), field, before)
    await close(model)
    assert len(await outcomes(model)) == int(rule == INCORRECT)
