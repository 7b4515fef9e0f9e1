"""The laws of the checker: consistent histories are accepted, inconsistent ones refused."""

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from tests.chaos.checker import is_linearizable, step, unexplained
from tests.chaos.history import UNRECORDED, Answer, Life, Loss, Operation, Verdict

RED, BLUE = Answer("red", 0.25), Answer("blue", 0.5)
NOT_FOUND, CONFLICT = Verdict("not-found"), Verdict("conflict")


def predict(begun: float, ended: float, reply: Answer | None = RED) -> Operation:
    """Return a request for a prediction."""
    return Operation("p", None, begun, ended, reply)


def judge(begun: float, ended: float, correct: bool, reply: Verdict | None) -> Operation:
    """Return a request with feedback."""
    return Operation("p", correct, begun, ended, reply)


def recorded(correct: bool, number: int) -> Verdict:
    """Return the reply to the first feedback."""
    return Verdict("recorded", correct, number)


def duplicate(correct: bool, number: int) -> Verdict:
    """Return the reply to later, equal feedback."""
    return Verdict("duplicate", correct, number)


EXPLAINED = {
    "nothing": [],
    "one prediction": [
        predict(0, 1),
        judge(2, 3, True, recorded(True, 1)),
        judge(4, 5, True, duplicate(True, 1)),
        predict(6, 7),
    ],
    "a contradiction": [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(4, 5, False, CONFLICT)],
    "two concurrent predictions": [predict(0, 5), predict(1, 4)],
    "feedback before the prediction": [judge(0, 1, True, NOT_FOUND), predict(2, 3)],
    "feedback during the prediction": [predict(0, 9), judge(1, 2, True, recorded(True, 1))],
    "the duplicate replied later": [
        predict(0, 1),
        judge(2, 9, True, duplicate(True, 1)),
        judge(3, 4, True, recorded(True, 1)),
    ],
    "the conflict replied later": [predict(0, 1), judge(2, 9, True, CONFLICT), judge(3, 4, False, recorded(False, 1))],
    "unanswered feedback that took effect": [
        predict(0, 1),
        judge(2, 3, True, None),
        judge(4, 5, True, duplicate(True, 7)),
    ],
    "unanswered feedback without effect": [
        predict(0, 1),
        judge(2, 3, True, None),
        judge(4, 5, True, recorded(True, 7)),
    ],
    "unanswered feedback with a late effect": [
        predict(0, 1),
        judge(2, 3, False, None),
        predict(4, 5),
        judge(6, 7, True, CONFLICT),
    ],
    "unanswered prediction that took effect": [
        predict(0, 1, None),
        judge(2, 3, True, recorded(True, 1)),
        predict(4, 5),
    ],
    "unanswered prediction without effect": [predict(0, 1, None), judge(2, 3, True, NOT_FOUND), predict(4, 5)],
}
REFUSED = {
    "recorded twice": [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(4, 5, True, recorded(True, 2))],
    "recorded twice concurrently": [
        predict(0, 1),
        judge(2, 9, True, recorded(True, 1)),
        judge(2, 9, True, recorded(True, 1)),
    ],
    "a loss": [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(4, 5, True, NOT_FOUND)],
    "a lost prediction": [predict(0, 1), judge(2, 3, True, NOT_FOUND)],
    "a duplicate of nothing": [predict(0, 1), judge(2, 3, True, duplicate(True, 1))],
    "a conflict with nothing": [predict(0, 1), judge(2, 3, True, CONFLICT)],
    "a conflict with equal feedback": [
        predict(0, 1),
        judge(2, 3, True, recorded(True, 1)),
        judge(4, 5, True, CONFLICT),
    ],
    "a contradiction as a duplicate": [
        predict(0, 1),
        judge(2, 3, True, recorded(True, 1)),
        judge(4, 5, False, duplicate(True, 1)),
    ],
    "another round": [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(4, 5, True, duplicate(True, 2))],
    "another answer": [predict(0, 1), predict(2, 3, BLUE)],
    "another answer after an unanswered prediction": [predict(0, 1, None), predict(2, 3, BLUE), predict(4, 5, RED)],
    "recorded before the prediction": [judge(0, 1, True, recorded(True, 1)), predict(2, 3)],
    "a duplicate before the recorded one": [
        predict(0, 1),
        judge(2, 3, True, duplicate(True, 1)),
        judge(4, 5, True, recorded(True, 1)),
    ],
    "an effect before the request": [predict(0, 1), judge(2, 3, True, duplicate(True, 1)), judge(4, 5, True, None)],
}


RECORDED_AGAIN = [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(6, 7, True, recorded(True, 2))]
UNDONE = [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(6, 7, True, NOT_FOUND)]
UNLOGGED = [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(8, 9, True, UNRECORDED)]
ANSWERED_AGAIN = [predict(0, 1), predict(6, 7, BLUE)]
LOST = {
    "recorded again": RECORDED_AGAIN,
    "undone": UNDONE,
    "not in the log": UNLOGGED,
    "answered again": ANSWERED_AGAIN,
}


@pytest.mark.parametrize("history", LOST.values(), ids=LOST)
def test_a_loss_explains_undone_changes(history: list[Operation]) -> None:
    """A loss may undo what was done before it; a loss at another time explains nothing."""
    assert is_linearizable(history, [Loss(4, 5)])
    assert not is_linearizable(history)
    assert not is_linearizable(history, [Loss(-2, -1)])
    assert not is_linearizable(history, [Loss(10, 11)])


def test_a_loss_explains_nothing_else() -> None:
    """A loss may undo the latest changes; it neither duplicates nor alters anything."""
    changed = [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(6, 7, False, duplicate(True, 1))]
    feedback_kept_without_prediction = [predict(0, 1), predict(6, 7, BLUE), judge(8, 9, True, duplicate(True, 1))]
    undone_and_present = [*UNDONE, judge(8, 9, True, duplicate(True, 1))]
    for history in (changed, feedback_kept_without_prediction, undone_and_present):
        assert not is_linearizable(history, [Loss(4, 5)])


def test_an_unanswered_request_takes_effect_at_most_once() -> None:
    """Each time a loss undoes a change, another request is needed to repeat the change."""
    re_recorded = [predict(0, 1), judge(2, 3, True, recorded(True, 1)), judge(6, 7, True, duplicate(True, 2))]
    assert is_linearizable([*re_recorded, judge(2, 3, True, None)], [Loss(4, 5)])
    assert not is_linearizable(re_recorded, [Loss(4, 5)])
    twice_lost = [*re_recorded, judge(10, 11, True, duplicate(True, 3))]
    assert is_linearizable([*twice_lost, judge(2, 3, True, None), judge(2, 3, True, None)], [Loss(4, 5), Loss(8, 9)])
    assert not is_linearizable([*twice_lost, judge(2, 3, True, None)], [Loss(4, 5), Loss(8, 9)])


def test_unanswered_or_refused_feedback_may_be_missing_from_the_log() -> None:
    """The log may lack a round if its feedback was unanswered or refused."""
    assert is_linearizable([predict(0, 1), judge(2, 3, True, None), judge(4, 5, True, UNRECORDED)])
    assert is_linearizable([judge(0, 1, True, NOT_FOUND), judge(4, 5, True, UNRECORDED)])


def test_predictions_during_a_split_are_not_checked() -> None:
    """A prediction with an operation during a split is not checked."""
    bad = [predict(0, 1), predict(2, 3, BLUE)]
    assert unexplained(bad, [Loss(2.5, 4, split=True)]) == []
    assert unexplained(bad, [Loss(4, 5, split=True)]) == ["p"]


@pytest.mark.parametrize("end", [CONFLICT, recorded(False, 1)])
def test_many_unanswered_requests_are_decided_in_time(end: Verdict) -> None:
    """Histories with hundreds of unanswered requests and several losses are decided in time, consistent or not."""
    predictions = [predict(t, t + 0.5, None) for t in range(300)]
    feedback = [judge(t, t + 0.5, t % 2 == 0, None) for t in range(300)]
    losses = [Loss(t, t + 20) for t in range(0, 300, 30)]
    assert is_linearizable([*predictions, *feedback, judge(400, 401, False, end)], losses)
    assert not is_linearizable([*predictions, *feedback, judge(400, 401, False, duplicate(True, 1))], losses)


@pytest.mark.parametrize("history", EXPLAINED.values(), ids=EXPLAINED)
def test_consistent_histories_are_accepted(history: list[Operation]) -> None:
    """A history that a correct service may produce is accepted."""
    assert is_linearizable(history)


@pytest.mark.parametrize("history", REFUSED.values(), ids=REFUSED)
def test_inconsistent_histories_are_refused(history: list[Operation]) -> None:
    """A history that no correct service can produce is refused, in any listing order."""
    assert not is_linearizable(history)
    assert not is_linearizable(history[::-1])  # the order of the list is irrelevant


def test_each_prediction_is_checked_separately() -> None:
    """One inconsistent prediction among consistent ones is named."""
    good = [Operation(own, None, 0, 1, RED) for own in "ab"]
    bad = [Operation("c", None, 0, 1, RED), Operation("c", None, 2, 3, BLUE)]
    assert unexplained([*good, *bad]) == ["c"]


REPLIES: list[tuple[bool | None, Answer | Verdict | None]] = [
    *((None, reply) for reply in (RED, BLUE, None)),
    *((correct, reply) for correct in (True, False) for reply in (None, NOT_FOUND, CONFLICT, UNRECORDED)),
    *((correct, kind(correct, 1)) for correct in (True, False) for kind in (recorded, duplicate)),
]


def test_the_search_agrees_with_enumeration() -> None:
    """The search accepts a random history with losses exactly if some order explains it, as found by enumeration."""
    chance, accepted = random.Random(1), 0
    for _ in range(1500):
        history, losses = [], []
        for _ in range(chance.randint(2, 5)):
            begun = chance.uniform(0, 5)
            history.append(Operation("p", *_drawn(chance, begun)))
        if chance.random() < 0.6:
            begun = chance.uniform(0, 5)
            losses.append(Loss(begun, begun + chance.uniform(0, 2)))
        found = is_linearizable(history, losses)
        assert found == any(_explains(order) for order in _orders([*history, *losses]))
        accepted += found
    assert 200 < accepted < 1300


def _drawn(chance: random.Random, begun: float) -> tuple[bool | None, float, float, Answer | Verdict | None]:
    correct, reply = chance.choice(REPLIES)
    return correct, begun, begun + chance.uniform(0, 3), reply


def _orders(happenings: list[Operation | Loss]) -> Iterator[tuple[Operation | Loss, ...]]:
    """Yield all real-time-consistent orders of the certain events with every subset of the unanswered requests."""
    doubtful = [each for each in happenings if isinstance(each, Operation) and each.reply is None]
    certain = [each for each in happenings if each not in doubtful]
    for n in range(len(doubtful) + 1):
        for chosen in itertools.combinations(doubtful, n):
            for order in itertools.permutations([*certain, *chosen]):
                pairs = itertools.combinations(order, 2)
                if not any(later in certain and later.ended < earlier.begun for earlier, later in pairs):
                    yield order


def _explains(order: Sequence[Operation | Loss]) -> bool:
    """Check whether this order explains every reply, with some effect of each loss."""
    lives = {Life()}
    for each in order:
        if isinstance(each, Operation):
            lives = {after for life in lives if (after := step(life, each)) is not None}
        elif lives:
            lives |= {Life("open", life.answer) for life in lives if life.phase == "closed"} | {Life()}
    return bool(lives)
