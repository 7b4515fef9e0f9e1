"""The laws of feedback in every store: the first is recorded, and later feedback is compared with it."""

import asyncio
from typing import Any

import numpy as np
import pytest

from learners.base import Contexts
from service.prediction_id import SINGLE
from service.store.records.codecs import AnswerCodec, DenseCodec, label_set_codec, ranking_codec
from service.store.records.new_predictions import NewPredictions
from service.store.records.outcomes import Outcome
from service.store.records.records import RecordFormat
from service.store.values import Block, Feedback, FeedbackResult, FeedbackStatus
from tests.service.store.samples import (
    FORMAT,
    NEW,
    NOW,
    STRICT,
    WINDOW,
    as_bytes,
    feedback_for,
    id_of,
    without_bodies,
)
from tests.service.store.scenario import Scenario

RECORDED, DUPLICATE, CONFLICT = FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE, FeedbackStatus.CONFLICT


def labelled(own_id: str, correct: bool | None, true_label: int | None) -> Feedback:
    """Return feedback on one of four labels."""
    return Feedback(id_of(own_id), correct, None if true_label is None else as_bytes(true_label))


async def test_feedback_is_recorded_once_and_confirmed_again(scenario: Scenario) -> None:
    """The first feedback makes a round; the same feedback again is a duplicate with the same outcome."""
    await scenario.predict("a")
    (first,) = await scenario.store.add_feedback(scenario.key, [Feedback(id_of("a"), True, None)], STRICT, NOW + 1)
    assert first == FeedbackResult(RECORDED, Outcome(True, NOW + 1, 1, as_bytes(2)))
    (again,) = await scenario.store.add_feedback(scenario.key, [Feedback(id_of("a"), True, None)], STRICT, NOW + 2)
    assert again == (DUPLICATE, first.outcome)
    assert await scenario.counters() == (1, 1, 1)
    assert await scenario.numbers() == [1]


async def test_duplicates_in_one_call_make_one_round(scenario: Scenario) -> None:
    """Repeated or contradicting feedback within a call is processed in order."""
    await scenario.predict("a")
    items = [Feedback(id_of("a"), False, None), Feedback(id_of("a"), False, None), Feedback(id_of("a"), True, None)]
    assert await scenario.judge(*items) == [RECORDED, DUPLICATE, CONFLICT]
    assert await scenario.counters() == (1, 1, 0)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((False, None), (True, None), CONFLICT),
        ((True, None), (False, None), CONFLICT),
        ((False, None), (None, 2), CONFLICT),
        ((True, None), (None, 3), CONFLICT),
        ((None, 1), (None, 3), CONFLICT),
        ((None, 1), (None, 1), DUPLICATE),
        ((None, 1), (False, None), DUPLICATE),
        ((False, None), (None, 1), DUPLICATE),
        ((None, 2), (True, None), DUPLICATE),
        ((True, None), (None, 2), DUPLICATE),
        ((False, 1), (False, 1), DUPLICATE),
    ],
)
async def test_second_feedback_agrees_or_contradicts(
    scenario: Scenario, first: Any, second: Any, expected: FeedbackStatus
) -> None:
    """The facts that both feedbacks give are compared; the first outcome is returned and stays."""
    await scenario.predict("a", label=2)
    (recorded,) = await scenario.store.add_feedback(scenario.key, [labelled("a", *first)], STRICT, NOW)
    (judged,) = await scenario.store.add_feedback(scenario.key, [labelled("a", *second)], STRICT, NOW)
    assert judged == (expected, recorded.outcome)
    assert await scenario.counters() == (1, 1, int(recorded.outcome is not None and recorded.outcome.reward))


@pytest.mark.parametrize(("correct", "true_label"), [(True, 1), (False, 2)])
async def test_feedback_that_contradicts_itself_is_refused(scenario: Scenario, correct: bool, true_label: int) -> None:
    """Feedback whose `correct` contradicts its label is inconsistent, before and after the round; nothing changes."""
    await scenario.predict("a", label=2)
    assert await scenario.judge(labelled("a", correct, true_label)) == [FeedbackStatus.INCONSISTENT]
    assert await scenario.counters() == (0, 1, 0)
    assert await scenario.judge(Feedback(id_of("a"), True, None)) == [RECORDED]
    assert await scenario.judge(labelled("a", correct, true_label)) == [FeedbackStatus.INCONSISTENT]


async def test_feedback_for_an_unknown_prediction_is_unknown(scenario: Scenario) -> None:
    """An unused id makes no round."""
    assert await scenario.judge(Feedback(id_of("never"), True, None)) == [FeedbackStatus.UNKNOWN]
    assert await scenario.counters() == (0, 0, 0)


async def test_the_window_includes_its_last_moment(scenario: Scenario) -> None:
    """Feedback at the end of the window is in time; later feedback has expired."""
    await scenario.predict("a", "b")
    assert await scenario.judge(labelled("b", None, 1), now=NOW + WINDOW + 0.001) == [FeedbackStatus.EXPIRED]
    assert await scenario.judge(Feedback(id_of("a"), True, None), now=NOW + WINDOW) == [RECORDED]
    assert await scenario.counters() == (1, 2, 1)


async def test_late_feedback_is_recorded_if_the_model_accepts_it(scenario: Scenario) -> None:
    """With `accept_late` the window does not matter while the prediction is stored."""
    await scenario.predict("a")
    late = STRICT._replace(accept_late=True)
    assert await scenario.judge(Feedback(id_of("a"), False, None), now=NOW + 10 * WINDOW, rules=late) == [RECORDED]


async def test_a_duplicate_after_the_window_is_a_duplicate(scenario: Scenario) -> None:
    """Feedback recorded in time is confirmed while the prediction is stored."""
    await scenario.play(1)
    assert await scenario.judge(Feedback(id_of("p0"), True, None), now=NOW + 10 * WINDOW) == [DUPLICATE]


async def test_a_needed_true_label_is_required(scenario: Scenario) -> None:
    """With `label_needed`, `correct: false` alone is refused; `correct: true` implies the label."""
    await scenario.predict("a", "b", label=2)
    needed = STRICT._replace(label_needed=True)
    items = [Feedback(id_of("a"), False, None), labelled("a", None, 0), Feedback(id_of("b"), True, None)]
    expected = [FeedbackStatus.LABEL_NEEDED, RECORDED, RECORDED]
    assert await scenario.judge(*items, rules=needed) == expected
    table = FORMAT.table([entry.payload for entry in (await scenario.store.read_tail(scenario.key, 0, 9)).entries])
    assert table["truth"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("form", "rows"),
    [
        (label_set_codec(2), [[0, 0], [0, 1], [1, 1]]),
        (label_set_codec(300), [[0] * 298 + end for end in ([0, 0], [0, 1], [1, 1])]),
        (ranking_codec(5), [[0, 1, *end] for end in ([2, 3, 4], [2, 4, 3], [3, 4, 2])]),
    ],
    ids=["2", "300", "20"],
)
async def test_answers_of_any_length_are_compared_as_bytes(scenario: Scenario, form: AnswerCodec, rows: Any) -> None:
    """An answer of any length round-trips, and is right if and only if the truth equals it."""
    answer, other, third = form.encode(np.array(rows))
    shape = RecordFormat(form, 1, DenseCodec(1))
    numbers, half, outputs = np.ones((3, 1)), np.full(3, 0.5), form.rows(np.array(rows[:1] * 3))
    made = NewPredictions(outputs, half, half, numbers, Contexts.dense(numbers), NOW, NOW + WINDOW, 7, 0, NEW)
    records = shape.encode_blocks(made, range(4), [SINGLE] * 3, [bytes(16)] * 3)
    for expected in (None, without_bodies(records[0])):
        heads = await scenario.store.add_predictions(scenario.key, list(map(Block, "abc", records)), WINDOW, None)
        assert heads == [expected] * 3
    rules = STRICT._replace(label_needed=True)
    a, b, c = map(id_of, "abc")
    items = [Feedback(a, None, answer), Feedback(a, True, None), Feedback(b, None, other), Feedback(b, False, other)]
    items += [Feedback(b, None, third), Feedback(a, False, answer), Feedback(c, False, None), Feedback(c, True, None)]
    results = await scenario.store.add_feedback(scenario.key, items, rules, NOW)
    statuses = [RECORDED, DUPLICATE, RECORDED, DUPLICATE, CONFLICT]
    statuses += [FeedbackStatus.INCONSISTENT, FeedbackStatus.LABEL_NEEDED, RECORDED]
    assert [result.status for result in results] == statuses
    entries = (await scenario.store.read_tail(scenario.key, 0, 9)).entries
    rounds = shape.decode_rounds([entry.payload for entry in entries])
    assert rounds.correct.tolist() == [True, False, True]
    assert form.encode(rounds.labels) == [answer] * 3
    assert form.encode(rounds.true_labels) == [answer, other, answer]


async def test_items_of_one_call_are_independent(scenario: Scenario) -> None:
    """A refused item does not affect the other items."""
    await scenario.predict("a", "b", label=2)
    items = [
        Feedback(id_of("x"), True, None),
        Feedback(id_of("a"), True, None),
        labelled("b", True, 1),
        labelled("b", None, 1),
    ]
    expected = [FeedbackStatus.UNKNOWN, RECORDED, FeedbackStatus.INCONSISTENT, RECORDED]
    assert await scenario.judge(*items) == expected
    assert await scenario.numbers() == [1, 2]


async def test_racing_feedback_makes_one_round_each(scenario: Scenario) -> None:
    """Concurrent, contradicting feedback makes one round per id, numbered without a gap."""
    ids = [f"r{number}" for number in range(40)]
    await scenario.predict(*ids)
    calls = [scenario.judge(*feedback_for(list(map(id_of, ids)), seed)) for seed in range(12)]
    statuses = [status for call in await asyncio.gather(*calls) for status in call]
    assert statuses.count(RECORDED) == 40
    assert set(statuses) == {RECORDED, DUPLICATE, CONFLICT}
    assert await scenario.numbers() == list(range(1, 41))
