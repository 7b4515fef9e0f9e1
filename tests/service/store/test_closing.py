"""The laws of expired predictions in every store: each is closed once, by the store's clock."""

import asyncio

import pytest

from service.errors import ModelNotFoundError
from service.store.log_entries import mark_of
from service.store.records.layout import EXPIRED, FEEDBACK
from service.store.values import Feedback, FeedbackStatus
from tests.service.store.expiries import INCORRECT, LATE, WAITING, activate, close, closing, inactive, outcomes
from tests.service.store.samples import (
    FORMAT,
    NOW,
    STRICT,
    WINDOW,
    id_of,
    sample_block,
    sample_ids,
    sample_predictions,
    sample_seen,
)
from tests.service.store.scenario import Scenario

RECORDED, DUPLICATE, CONFLICT = FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE, FeedbackStatus.CONFLICT


def rewarded(own: str, reward: float) -> Feedback:
    """Return feedback with a reward."""
    return Feedback(id_of(own), None, None, reward)


# --- rewards


async def test_a_reward_is_recorded_and_compared(scenario: Scenario) -> None:
    """Equal rewards are duplicates, others conflicts; rewards of 0 and 1 mean wrong and correct."""
    await scenario.predict("a", "b", "c")
    statuses = await scenario.judge(*(rewarded("a", reward) for reward in (0.25, 0.25, 0.5, 0.0)))
    assert statuses == [RECORDED, DUPLICATE, CONFLICT, CONFLICT]
    correct, wrong = Feedback(id_of("b"), True, None), Feedback(id_of("c"), False, None)
    assert await scenario.judge(rewarded("b", 1.0), correct, wrong, rewarded("c", 0.0)) == [RECORDED, DUPLICATE] * 2
    assert [reward for _, _, reward in await outcomes(scenario)] == [0.25, 1.0, 0.0]
    model = await scenario.store.get_model(scenario.key.name)
    assert model is not None
    assert (model.correct, model.partial) == (1, 0.25)


# --- predictions without feedback


@pytest.mark.parametrize("reward", [0.0, 0.5, 1.0])
async def test_an_expired_prediction_becomes_one_round(scenario: Scenario, reward: float) -> None:
    """Without feedback, the rule's reward closes it; with feedback, nothing happens at the end of the window."""
    model = await closing(scenario, f"{WINDOW} on_arrival {reward}")
    await model.predict("a", "b", "c")
    assert await model.judge(Feedback(id_of("b"), True, None)) == [RECORDED]
    for _ in range(3):
        assert not await close(model)
    assert await outcomes(model) == [(1, FEEDBACK, 1.0), (2, EXPIRED, reward), (3, EXPIRED, reward)]
    assert await model.counters() == (3, 3, 1 + 2 * int(reward == 1.0))


async def test_nothing_is_closed_before_the_window_ends(scenario: Scenario) -> None:
    """Until then a prediction takes feedback; afterwards, feedback has expired by any worker's clock."""
    model = await closing(scenario, INCORRECT)
    await model.predict("a", "b")
    await close(model, NOW + WINDOW - 10.0)
    assert await model.judge(Feedback(id_of("a"), True, None)) == [RECORDED]
    await close(model)
    given = [Feedback(id_of(own), True, None) for own in ("b", "a")]
    assert await model.judge(*given) == [FeedbackStatus.EXPIRED, DUPLICATE]
    assert await outcomes(model) == [(1, FEEDBACK, 1.0), (2, EXPIRED, 0.0)]


async def test_workers_that_close_together_make_one_round_each(scenario: Scenario) -> None:
    """Concurrent calls, and feedback at the same time, make one round per prediction."""
    model = await closing(scenario, INCORRECT)
    ids = [f"p{number}" for number in range(30)]
    await model.predict(*ids)
    given = [Feedback(id_of(own), True, None) for own in ids[:10]]
    await asyncio.gather(*(close(model, most_blocks=7) for _ in range(8)), model.judge(*given))
    assert [await close(model, most_blocks=7) for _ in range(6)][-1] is False
    assert await model.numbers() == list(range(1, 31))
    assert {entry.block for entry in (await model.store.read_tail(model.key, 0, 99)).entries} == set(ids)


async def test_a_call_closes_a_limited_number_of_blocks(scenario: Scenario) -> None:
    """One model with many expired predictions leaves turns to others, and goes on later."""
    model = await closing(scenario, INCORRECT)
    await model.predict(*(f"p{number}" for number in range(20)))
    for closed in (8, 16):
        assert await close(model, most_blocks=8)
        assert len(await model.numbers()) == closed
    assert not await close(model, most_blocks=8)
    assert len(await model.numbers()) == 20


async def test_the_predictions_of_a_block_are_closed_together(scenario: Scenario) -> None:
    """The open ones of a batch become rounds in one entry; recorded feedback stays."""
    model = await closing(scenario, INCORRECT)
    assert await model.store.add_predictions(model.key, [sample_block("many", 5)], WINDOW, None) == [None]
    second = sample_ids("many", 5)[1]
    assert await model.judge(Feedback(second, True, None)) == [RECORDED]
    await close(model)
    assert [kind for _, kind, _ in await outcomes(model)] == [FEEDBACK, *[EXPIRED] * 4]
    assert len((await model.store.read_tail(model.key, 0, 9)).entries) == 2
    assert await model.judge(Feedback(second, True, None)) == [DUPLICATE]


# --- learning at the end of the window


async def test_feedback_waits_for_the_end_of_the_window(scenario: Scenario) -> None:
    """It is compared at once, but makes its round only when the window closes."""
    model = await closing(scenario, WAITING)
    await model.predict("a", "b", label=2)
    items = [rewarded("a", 0.25), rewarded("a", 0.25), Feedback(id_of("a"), True, None)]
    results = await model.store.add_feedback(model.key, items, STRICT, NOW + 1)
    assert [result.status for result in results] == [RECORDED, DUPLICATE, CONFLICT]
    assert {result.outcome and result.outcome[:3] for result in results} == {(0.25, NOW + 1, 0)}
    assert await model.counters() == (0, 2, 0)
    for _ in range(2):
        await close(model)
    assert await outcomes(model) == [(1, FEEDBACK, 0.25)]
    (late,) = await model.store.add_feedback(model.key, items[:1], STRICT, LATE)
    assert (late.status, late.outcome and late.outcome[:3]) == (DUPLICATE, (0.25, NOW + 1, 1))
    assert await model.judge(Feedback(id_of("b"), True, None)) == [FeedbackStatus.EXPIRED]


async def test_feedback_that_waits_wins_over_the_rule(scenario: Scenario) -> None:
    """At the end of the window, only a prediction without feedback follows the rule."""
    model = await closing(scenario, f"{WINDOW} at_window_close 0.0")
    await model.predict("a", "b")
    assert await model.judge(Feedback(id_of("b"), True, None)) == [RECORDED]
    await close(model)
    assert sorted(each[1:] for each in await outcomes(model)) == [(FEEDBACK, 1.0), (EXPIRED, 0.0)]


async def test_the_log_continues_after_closing(scenario: Scenario) -> None:
    """Predictions that have seen every closed round are stored: the model knows the moment of its last round."""
    model = await closing(scenario, f"{WINDOW} at_window_close 0.0")
    await model.predict("a", "b")
    await model.judge(Feedback(id_of("a"), True, None), now=NOW + 3)
    await close(model)
    (*_, last) = (await model.store.read_tail(model.key, 0, 9)).entries
    for own, seen in (("c", sample_seen(2, 9, mark_of(last))), ("d", sample_seen(2, 9))):
        assert await model.store.add_predictions(model.key, sample_predictions(own), WINDOW, seen) == [None]


# --- activation


async def test_an_inactive_prediction_takes_feedback_once_activated(scenario: Scenario) -> None:
    """Before its activation, feedback is refused and changes nothing; activating again changes nothing."""
    await scenario.store.add_predictions(scenario.key, inactive("a"), WINDOW, None)
    assert await scenario.judge(Feedback(id_of("a"), True, None)) == [FeedbackStatus.ACTIVATION_NEEDED]
    assert await scenario.counters() == (0, 1, 0)
    assert [await activate(scenario, "a") for _ in range(2)] == [RECORDED, DUPLICATE]
    assert await scenario.judge(Feedback(id_of("a"), True, None)) == [RECORDED]
    assert await activate(scenario, "a") is DUPLICATE
    assert await scenario.counters() == (1, 1, 1)


async def test_an_inactive_prediction_expires_without_a_round(scenario: Scenario) -> None:
    """Its window runs from the prediction, and no rule makes it a round."""
    model = await closing(scenario, INCORRECT)
    for block in ("a", "b"):
        await model.store.add_predictions(model.key, inactive(block), WINDOW, None)
    assert await activate(model, "b") is RECORDED
    assert await activate(model, "a", LATE) is FeedbackStatus.EXPIRED
    await close(model)
    assert [entry.block for entry in (await model.store.read_tail(model.key, 0, 9)).entries] == ["b"]
    assert await activate(model, "a") is FeedbackStatus.EXPIRED
    assert await model.judge(Feedback(id_of("a"), True, None)) == [FeedbackStatus.EXPIRED]


async def test_late_feedback_needs_an_activation_within_the_window(scenario: Scenario) -> None:
    """A model that accepts late feedback does not accept it for a prediction that was never activated."""
    await scenario.store.add_predictions(scenario.key, inactive("a"), WINDOW, None)
    rules = STRICT._replace(accept_late=True)
    assert await scenario.judge(Feedback(id_of("a"), True, None), now=LATE, rules=rules) == [FeedbackStatus.EXPIRED]


async def test_an_unknown_prediction_is_not_activated(scenario: Scenario) -> None:
    """An unused id stays unknown, and a deleted model has no predictions."""
    assert await activate(scenario, "never") is FeedbackStatus.UNKNOWN
    await scenario.store.delete_model(scenario.key.name)
    with pytest.raises(ModelNotFoundError):
        await activate(scenario, "never")


async def test_predictions_that_wait_are_whole(scenario: Scenario) -> None:
    """A repair finds no damage in feedback that waits, nor in predictions that were not activated or were dropped."""
    model = await closing(scenario, WAITING)
    await model.store.add_predictions(model.key, inactive("a"), WINDOW, None)
    await model.predict("b", "c")
    assert await model.judge(rewarded("b", 1.0)) == [RECORDED]
    for _ in range(2):
        blocks = await model.blocks()
        assert len(blocks) == 3
        for block in blocks:
            FORMAT.waiting(block.record)
        await close(model)
