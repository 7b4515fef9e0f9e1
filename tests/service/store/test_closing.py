"""The laws of expired predictions in every store: each is closed once, by the store's clock, and activation."""

import asyncio
from typing import Any

import pytest

from service.errors import ModelNotFoundError, StoreCorruptError
from service.store import keys
from service.store.capabilities import Store
from service.store.log_entries import mark_of
from service.store.records.layout import EXPIRED, FEEDBACK, VERSION
from service.store.stored_models import ModelKey, StoredPolicies
from service.store.values import Due, Feedback, FeedbackStatus
from tests.servers import keys_like, raw
from tests.service.store.samples import (
    FORMAT,
    NOW,
    STRICT,
    WINDOW,
    digest_of,
    id_of,
    sample_block,
    sample_ids,
    sample_predictions,
    sample_seen,
)
from tests.service.store.scenario import (
    CONFLICT,
    DUPLICATE,
    INCORRECT,
    LATE,
    RECORDED,
    WAITING,
    Scenario,
    right,
    until,
)

LEARN_LATER = StoredPolicies(f"{WINDOW} at_window_close 0.0")


def rewarded(own: str, reward: float) -> Feedback:
    return Feedback(id_of(own), None, None, reward)


async def test_a_reward_is_recorded_and_compared(scenario: Scenario) -> None:
    await scenario.predict("a", "b", "c")
    statuses = await scenario.judge(*(rewarded("a", reward) for reward in (0.25, 0.25, 0.5, 0.0)))
    assert statuses == [RECORDED, DUPLICATE, CONFLICT, CONFLICT]
    given = rewarded("b", 1.0), right("b"), Feedback(id_of("c"), False, None), rewarded("c", 0.0)
    assert await scenario.judge(*given) == [RECORDED, DUPLICATE] * 2
    assert [reward for _, _, reward in await scenario.outcomes()] == [0.25, 1.0, 0.0]
    model = await scenario.model()
    assert (model.correct, model.partial) == (1, 0.25)


# --- predictions without feedback


@pytest.mark.parametrize("reward", [0.0, 0.5, 1.0])
async def test_an_expired_prediction_becomes_one_round(scenario: Scenario, reward: float) -> None:
    model = await scenario.replaced(StoredPolicies(f"{WINDOW} on_arrival {reward}"))
    await model.predict("a", "b", "c")
    assert await model.confirm("b") == [RECORDED]
    for _ in range(3):
        assert not await model.close()
    assert await model.outcomes() == [(1, FEEDBACK, 1.0), (2, EXPIRED, reward), (3, EXPIRED, reward)]
    assert await model.counters() == (3, 3, 1 + 2 * int(reward == 1.0))


async def test_nothing_is_closed_before_the_window_ends(scenario: Scenario) -> None:
    model = await scenario.replaced(INCORRECT)
    await model.predict("a", "b")
    await model.close(NOW + WINDOW - 10.0)
    assert await model.confirm("a") == [RECORDED]
    await model.close()
    assert await model.confirm("b", "a") == [FeedbackStatus.EXPIRED, DUPLICATE]
    assert await model.outcomes() == [(1, FEEDBACK, 1.0), (2, EXPIRED, 0.0)]


async def test_workers_that_close_together_make_one_round_each(scenario: Scenario) -> None:
    model = await scenario.replaced(INCORRECT)
    ids = [f"p{number}" for number in range(30)]
    await model.predict(*ids)
    await asyncio.gather(*(model.close(most_blocks=7) for _ in range(8)), model.confirm(*ids[:10]))
    assert [await model.close(most_blocks=7) for _ in range(6)][-1] is False
    assert await model.numbers() == list(range(1, 31))
    assert {entry.block for entry in await model.entries()} == set(ids)


async def test_a_call_closes_a_limited_number_of_blocks(scenario: Scenario, any_store_url: str) -> None:
    model = await scenario.replaced(INCORRECT)
    await model.predict(*(f"p{number}" for number in range(20)))
    for closed in (8, 16):
        assert await model.close(most_blocks=8)
        assert len(await model.numbers()) == closed
        assert scores(any_store_url)[":".join(model.key)] == pytest.approx(LATE, abs=5.0)  # after what is due already
    assert not await model.close(most_blocks=8)
    assert len(await model.numbers()) == 20


async def test_the_predictions_of_a_block_are_closed_together(scenario: Scenario) -> None:
    model = await scenario.replaced(INCORRECT)
    assert await model.store.add_predictions(model.key, [sample_block("many", 5)], WINDOW, None) == [None]
    second = Feedback(sample_ids("many", 5)[1], True, None)
    assert await model.judge(second) == [RECORDED]
    await model.close()
    assert [kind for _, kind, _ in await model.outcomes()] == [FEEDBACK, *[EXPIRED] * 4]
    assert len(await model.entries()) == 2
    assert await model.judge(second) == [DUPLICATE]


# --- learning at the end of the window


async def test_feedback_waits_for_the_end_of_the_window(scenario: Scenario) -> None:
    model = await scenario.replaced(WAITING)
    await model.predict("a", "b", label=2)
    items = [rewarded("a", 0.25), rewarded("a", 0.25), right("a")]
    results = await model.store.add_feedback(model.key, items, STRICT, NOW + 1)
    assert [result.status for result in results] == [RECORDED, DUPLICATE, CONFLICT]
    assert {result.outcome and result.outcome[:3] for result in results} == {(0.25, NOW + 1, 0)}
    assert await model.counters() == (0, 2, 0)
    for _ in range(2):
        await model.close()
    assert await model.outcomes() == [(1, FEEDBACK, 0.25)]
    (late,) = await model.store.add_feedback(model.key, items[:1], STRICT, LATE)
    assert (late.status, late.outcome and late.outcome[:3]) == (DUPLICATE, (0.25, NOW + 1, 1))
    assert await model.confirm("b") == [FeedbackStatus.EXPIRED]


async def test_the_log_continues_after_closing(scenario: Scenario) -> None:
    model = await scenario.replaced(LEARN_LATER)
    await model.predict("a", "b")
    await model.confirm("a", now=NOW + 3)
    await model.close()
    assert sorted(each[1:] for each in await model.outcomes()) == [(FEEDBACK, 1.0), (EXPIRED, 0.0)]
    (*_, last) = await model.entries()
    for own, seen in (("c", sample_seen(2, 9, mark_of(last))), ("d", sample_seen(2, 9))):
        assert await model.store.add_predictions(model.key, sample_predictions(own), WINDOW, seen) == [None]


# --- activation


async def test_an_inactive_prediction_takes_feedback_once_activated(scenario: Scenario) -> None:
    await scenario.predict_inactive("a")
    assert await scenario.confirm("a") == [FeedbackStatus.ACTIVATION_NEEDED]
    assert await scenario.counters() == (0, 1, 0)
    assert [await scenario.activate("a") for _ in range(2)] == [RECORDED, DUPLICATE]
    assert await scenario.confirm("a") == [RECORDED]
    assert await scenario.activate("a") is DUPLICATE
    assert await scenario.counters() == (1, 1, 1)
    assert await scenario.activate("never") is FeedbackStatus.UNKNOWN
    await scenario.store.delete_model(scenario.key.name)
    with pytest.raises(ModelNotFoundError):
        await scenario.activate("never")


async def test_an_inactive_prediction_expires_without_a_round(scenario: Scenario) -> None:
    model = await scenario.replaced(INCORRECT)
    await model.predict_inactive("a", "b")
    assert await model.activate("b") is RECORDED
    assert await model.activate("a", LATE) is FeedbackStatus.EXPIRED
    accepting = STRICT._replace(accept_late=True)
    assert await model.confirm("a", now=LATE, rules=accepting) == [FeedbackStatus.EXPIRED]
    await model.close()
    assert [entry.block for entry in await model.entries()] == ["b"]
    assert await model.activate("a") is FeedbackStatus.EXPIRED
    assert await model.confirm("a") == [FeedbackStatus.EXPIRED]


async def test_predictions_that_wait_are_no_damage(scenario: Scenario) -> None:
    model = await scenario.replaced(WAITING)
    await model.predict_inactive("a")
    await model.predict("b", "c")
    assert await model.judge(rewarded("b", 1.0)) == [RECORDED]
    for _ in range(2):
        blocks = await model.blocks()
        assert len(blocks) == 3
        for block in blocks:
            FORMAT.waiting(block.record)
        await model.close()


# --- the list of models that are due


async def due_at(store: Store, now: float) -> list[ModelKey]:
    return await store.claim(Due.CLOSING, until(now), 10_000, 2.0)


def scores(url: str) -> dict[str, float]:
    with raw(url) as client:
        found: Any = client.zrange(Due.CLOSING, 0, -1, withscores=True)
        return {member.decode(): score for member, score in found}


async def test_a_model_is_due_when_it_is_new_and_when_a_prediction_expires(scenario: Scenario) -> None:
    model = await scenario.replaced(INCORRECT)
    assert model.key in await due_at(model.store, NOW)
    await model.close(NOW)
    assert model.key not in await due_at(model.store, NOW + WINDOW - 5.0)
    await model.store.watch(Due.CLOSING, [model.key])  # as workers do now and then: changes nothing
    assert model.key not in await due_at(model.store, NOW + WINDOW)
    assert model.key in await due_at(model.store, NOW + WINDOW + 2.0)
    await model.close(NOW + WINDOW + 2.0)
    await model.predict("a")
    assert model.key not in await due_at(model.store, NOW + WINDOW + 2.5)
    assert model.key in await due_at(model.store, NOW + 2 * WINDOW + 4.0)


async def test_feedback_for_a_prediction_older_than_the_rule_makes_the_model_due_in_time(scenario: Scenario) -> None:
    await scenario.predict("a")
    digest, changed = await digest_of(scenario.store, scenario.key.name), NOW + WINDOW / 2
    assert await scenario.store.change_model(scenario.key, digest, "{}", "{}", LEARN_LATER)
    await scenario.close(changed)
    assert await scenario.confirm("a", now=changed) == [RECORDED]
    assert scenario.key not in await due_at(scenario.store, NOW + WINDOW - 5.0)
    assert scenario.key in await due_at(scenario.store, NOW + WINDOW + 1.0)


async def test_a_claimed_model_is_left_to_one_worker_for_a_while(scenario: Scenario) -> None:
    model = await scenario.replaced(INCORRECT)
    assert model.key in await due_at(model.store, NOW)
    assert model.key not in await due_at(model.store, NOW + 1.0)
    assert model.key in await due_at(model.store, NOW + 3.0)


async def test_only_models_that_close_predictions_are_listed(scenario: Scenario, any_store_url: str) -> None:
    assert ":".join(scenario.key) not in scores(any_store_url)
    model = await scenario.replaced(INCORRECT)
    await model.predict("a")
    assert ":".join(model.key) in scores(any_store_url)
    await model.store.delete_model(model.key.name)
    assert ":".join(model.key) not in scores(any_store_url)
    assert keys_like(any_store_url, model.key.name) == [keys.block(*model.key, "a")]
    await model.store.watch(Due.CLOSING, [model.key])  # by a worker that still uses it
    assert ":".join(model.key) in scores(any_store_url)
    assert not await model.close(0.0)
    assert ":".join(model.key) not in scores(any_store_url)


async def test_a_closed_block_leaves_the_deadlines(scenario: Scenario, any_store_url: str) -> None:
    model = await scenario.replaced(INCORRECT)
    await model.predict("a", "b")
    await model.confirm("a")
    with raw(any_store_url) as client:
        assert client.zrange(keys.deadlines(*model.key), 0, -1) == [b"b"]
        assert WINDOW + 3540.0 < client.ttl(keys.block(*model.key, "a")) <= WINDOW + 3600.0
    assert await model.predict("b") != [None]
    await model.close()
    with raw(any_store_url) as client:
        assert not client.exists(keys.deadlines(*model.key))


async def test_a_broken_block_does_not_block_the_others(scenario: Scenario, any_store_url: str) -> None:
    model = await scenario.replaced(INCORRECT)
    await model.predict("a", "broken", "gone", "list", "newer", "z")
    with raw(any_store_url) as client:
        client.set(keys.block(*model.key, "broken"), b"nonsense")
        client.delete(keys.block(*model.key, "gone"), keys.block(*model.key, "list"))
        client.lpush(keys.block(*model.key, "list"), b"nonsense")
        client.setrange(keys.block(*model.key, "newer"), 0, bytes([VERSION + 1]))
    closed = [await model.store.close_expired(model.key, until(LATE), 2) for _ in range(4)]
    assert (closed[-1].more, sum(each.is_newer for each in closed)) == (False, 1)
    assert [entry.block for entry in await model.entries()] == ["a", "z"]
    with raw(any_store_url) as client:
        assert client.zrange(keys.deadlines(*model.key), 0, -1) == [b"newer"]
        client.setrange(keys.block(*model.key, "newer"), 0, bytes([VERSION]))
    await model.close(LATE + 2.0)  # a worker that can read it does not wait long for one that cannot
    assert len(await model.outcomes()) == 3


async def test_a_deadline_that_is_too_early_closes_nothing(scenario: Scenario, any_store_url: str) -> None:
    model = await scenario.replaced(INCORRECT)
    await model.predict("a")
    with raw(any_store_url) as client:
        client.zadd(keys.deadlines(*model.key), {"a": NOW})
        await model.close(NOW + 10.0)
        assert client.zscore(keys.deadlines(*model.key), "a") == NOW + WINDOW
    assert await model.outcomes() == []
    await model.close()
    assert len(await model.outcomes()) == 1


@pytest.mark.parametrize("rule", [INCORRECT, WAITING])
@pytest.mark.parametrize("field", ["rounds", "closing"])
async def test_predictions_of_a_damaged_model_stay_open(
    scenario: Scenario, any_store_url: str, rule: StoredPolicies, field: str
) -> None:
    model = await scenario.replaced(rule)
    await model.predict("a")
    with raw(any_store_url) as client:
        before = client.hget(keys.model(model.key.name), field)
        client.hset(keys.model(model.key.name), field, "nonsense")
        with pytest.raises(StoreCorruptError):
            await model.close()
        client.hset(keys.model(model.key.name), field, before)
    await model.close()
    assert len(await model.outcomes()) == int(rule == INCORRECT)
