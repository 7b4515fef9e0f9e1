"""The laws of feedback in every store: the first is recorded, and later feedback is compared with it."""

import asyncio
from typing import Any

import numpy as np
import pytest

from learners.base import Contexts
from service.prediction_id import SINGLE
from service.store.records.codecs import AnswerCodec, DenseCodec, label_set_codec, ranking_codec
from service.store.records.outcomes import Outcome
from service.store.records.records import RecordFormat
from service.store.values import Block, Feedback, FeedbackResult, FeedbackStatus
from tests.service.store.samples import (
    FORMAT,
    NOW,
    STRICT,
    WINDOW,
    as_bytes,
    feedback_for,
    id_of,
    new_predictions,
    sample_block,
    sample_ids,
    without_bodies,
)
from tests.service.store.scenario import CONFLICT, DUPLICATE, RECORDED, Scenario, right

INCONSISTENT = FeedbackStatus.INCONSISTENT


def given(own_id: str, correct: bool | None, true_label: int | None) -> Feedback:
    return Feedback(id_of(own_id), correct, None if true_label is None else as_bytes(true_label))


async def test_feedback_is_recorded_once_and_confirmed_again(scenario: Scenario) -> None:
    await scenario.predict("a")
    (first,) = await scenario.store.add_feedback(scenario.key, [right("a")], STRICT, NOW + 1)
    assert first == FeedbackResult(RECORDED, Outcome(True, NOW + 1, 1, as_bytes(2)))
    (again,) = await scenario.store.add_feedback(scenario.key, [right("a")], STRICT, NOW + 20 * WINDOW)
    assert again == (DUPLICATE, first.outcome)
    assert await scenario.counters() == (1, 1, 1)
    assert await scenario.numbers() == [1]


async def test_duplicates_in_one_call_make_one_round(scenario: Scenario) -> None:
    await scenario.predict("a")
    items = [Feedback(id_of("a"), correct, None) for correct in (False, False, True)]
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
        ((True, None), (True, 1), INCONSISTENT),
        ((None, 1), (False, 2), INCONSISTENT),
    ],
)
async def test_second_feedback_agrees_or_contradicts(
    scenario: Scenario, first: Any, second: Any, expected: FeedbackStatus
) -> None:
    await scenario.predict("a", label=2)
    (recorded,) = await scenario.store.add_feedback(scenario.key, [given("a", *first)], STRICT, NOW)
    (judged,) = await scenario.store.add_feedback(scenario.key, [given("a", *second)], STRICT, NOW)
    assert judged.status == expected
    assert judged.outcome == (None if expected is INCONSISTENT else recorded.outcome)
    assert await scenario.counters() == (1, 1, int(recorded.outcome is not None and recorded.outcome.reward))


async def test_a_refused_item_changes_nothing_and_does_not_affect_the_others(scenario: Scenario) -> None:
    await scenario.predict("a", "b", label=2)
    items = [right("x"), right("a"), given("b", True, 1), given("b", False, 2), given("b", None, 1)]
    expected = [FeedbackStatus.UNKNOWN, RECORDED, INCONSISTENT, INCONSISTENT, RECORDED]
    assert await scenario.judge(*items) == expected
    assert await scenario.numbers() == [1, 2]


async def test_the_window_includes_its_last_moment(scenario: Scenario) -> None:
    await scenario.predict("a", "b", "c")
    assert await scenario.judge(given("b", None, 1), now=NOW + WINDOW + 0.001) == [FeedbackStatus.EXPIRED]
    assert await scenario.confirm("a", now=NOW + WINDOW) == [RECORDED]
    assert await scenario.counters() == (1, 3, 1)
    late = STRICT._replace(accept_late=True)
    assert await scenario.confirm("c", now=NOW + 10 * WINDOW, rules=late) == [RECORDED]


async def test_a_needed_true_label_is_required(scenario: Scenario) -> None:
    await scenario.predict("a", "b", label=2)
    items = [Feedback(id_of("a"), False, None), given("a", None, 0), right("b")]
    statuses = await scenario.judge(*items, rules=STRICT._replace(label_needed=True))
    assert statuses == [FeedbackStatus.LABEL_NEEDED, RECORDED, RECORDED]
    table = FORMAT.table([entry.payload for entry in await scenario.entries()])
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
    answer, other, third = form.encode(np.array(rows))
    shape = RecordFormat(form, 1, DenseCodec(1))
    made = new_predictions(form, rows[:1] * 3, Contexts.dense(np.ones((3, 1))), np.ones((3, 1)))
    records = shape.encode_blocks(made, range(4), [SINGLE] * 3, [bytes(16)] * 3)
    for expected in (None, without_bodies(records[0])):
        heads = await scenario.store.add_predictions(scenario.key, list(map(Block, "abc", records)), WINDOW, None)
        assert heads == [expected] * 3
    a, b, c = map(id_of, "abc")
    items = [Feedback(a, None, answer), Feedback(a, True, None), Feedback(b, None, other), Feedback(b, False, other)]
    items += [Feedback(b, None, third), Feedback(a, False, answer), Feedback(c, False, None), Feedback(c, True, None)]
    statuses = [RECORDED, DUPLICATE, RECORDED, DUPLICATE, CONFLICT, INCONSISTENT, FeedbackStatus.LABEL_NEEDED, RECORDED]
    assert await scenario.judge(*items, rules=STRICT._replace(label_needed=True)) == statuses
    rounds = shape.decode_rounds([entry.payload for entry in await scenario.entries()])
    assert rounds.correct.tolist() == [True, False, True]
    assert form.encode(rounds.labels) == [answer] * 3
    assert form.encode(rounds.true_labels) == [answer, other, answer]


@pytest.mark.parametrize("together", [False, True])
async def test_racing_feedback_makes_one_round_each(scenario: Scenario, together: bool) -> None:
    names = [f"r{number}" for number in range(40)]
    ids = sample_ids("large", 40) if together else list(map(id_of, names))
    if together:
        await scenario.store.add_predictions(scenario.key, [sample_block("large", 40)], WINDOW, None)
    else:
        await scenario.predict(*names)
    calls = [scenario.judge(*feedback_for(ids, seed)) for seed in range(12)]
    statuses = [status for call in await asyncio.gather(*calls) for status in call]
    assert statuses.count(RECORDED) == 40
    assert set(statuses) == {RECORDED, DUPLICATE, CONFLICT}
    assert await scenario.numbers() == list(range(1, 41))
