"""The laws of the checker: histories that must be explained, and histories that must be refused."""

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from tests.chaos.checker import is_linearizable, step, unexplained
from tests.chaos.history import UNRECORDED, Answer, Life, Loss, Operation, Verdict

RED, BLUE = Answer("red", 0.25), Answer("blue", 0.5)
NOT_FOUND, CONFLICT = Verdict("not-found"), Verdict("conflict")


def ask(begun: float, ended: float, reply: Answer | None = RED) -> Operation:
    """A prediction."""
    return Operation("p", None, begun, ended, reply)


def tell(begun: float, ended: float, correct: bool, reply: Verdict | None) -> Operation:
    """A feedback."""
    return Operation("p", correct, begun, ended, reply)


def recorded(correct: bool, number: int) -> Verdict:
    """The first feedback's reply."""
    return Verdict("recorded", correct, number)


def duplicate(correct: bool, number: int) -> Verdict:
    """A later one's reply."""
    return Verdict("duplicate", correct, number)


EXPLAINED = {
    "nothing": [],
    "a life": [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(4, 5, True, duplicate(True, 1)), ask(6, 7)],
    "a contradiction": [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(4, 5, False, CONFLICT)],
    "asked twice at once": [ask(0, 5), ask(1, 4)],
    "told before it was asked": [tell(0, 1, True, NOT_FOUND), ask(2, 3)],
    "told while it was asked": [ask(0, 9), tell(1, 2, True, recorded(True, 1))],
    "a duplicate that overtook": [ask(0, 1), tell(2, 9, True, duplicate(True, 1)), tell(3, 4, True, recorded(True, 1))],
    "a conflict that overtook": [ask(0, 1), tell(2, 9, True, CONFLICT), tell(3, 4, False, recorded(False, 1))],
    "a lost reply that was done": [ask(0, 1), tell(2, 3, True, None), tell(4, 5, True, duplicate(True, 7))],
    "a lost reply that was not done": [ask(0, 1), tell(2, 3, True, None), tell(4, 5, True, recorded(True, 7))],
    "a lost reply, done late": [ask(0, 1), tell(2, 3, False, None), ask(4, 5), tell(6, 7, True, CONFLICT)],
    "a lost prediction that was made": [ask(0, 1, None), tell(2, 3, True, recorded(True, 1)), ask(4, 5)],
    "a lost prediction that was not made": [ask(0, 1, None), tell(2, 3, True, NOT_FOUND), ask(4, 5)],
}
REFUSED = {
    "two first ones": [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(4, 5, True, recorded(True, 2))],
    "two first ones at once": [ask(0, 1), tell(2, 9, True, recorded(True, 1)), tell(2, 9, True, recorded(True, 1))],
    "a loss": [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(4, 5, True, NOT_FOUND)],
    "a lost prediction": [ask(0, 1), tell(2, 3, True, NOT_FOUND)],
    "a duplicate of nothing": [ask(0, 1), tell(2, 3, True, duplicate(True, 1))],
    "a conflict with nothing": [ask(0, 1), tell(2, 3, True, CONFLICT)],
    "a conflict with the same": [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(4, 5, True, CONFLICT)],
    "a contradiction swallowed": [
        ask(0, 1),
        tell(2, 3, True, recorded(True, 1)),
        tell(4, 5, False, duplicate(True, 1)),
    ],
    "another round": [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(4, 5, True, duplicate(True, 2))],
    "another answer": [ask(0, 1), ask(2, 3, BLUE)],
    "another answer after a lost one": [ask(0, 1, None), ask(2, 3, BLUE), ask(4, 5, RED)],
    "feedback before the question": [tell(0, 1, True, recorded(True, 1)), ask(2, 3)],
    "a duplicate before the first": [
        ask(0, 1),
        tell(2, 3, True, duplicate(True, 1)),
        tell(4, 5, True, recorded(True, 1)),
    ],
    "done before it began": [ask(0, 1), tell(2, 3, True, duplicate(True, 1)), tell(4, 5, True, None)],
}


RETOLD = [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(6, 7, True, recorded(True, 2))]
UNDONE = [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(6, 7, True, NOT_FOUND)]
UNLOGGED = [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(8, 9, True, UNRECORDED)]
REASKED = [ask(0, 1), ask(6, 7, BLUE)]
LOSSES = {"told again": RETOLD, "undone": UNDONE, "not in the log": UNLOGGED, "asked again": REASKED}


@pytest.mark.parametrize("history", LOSSES.values(), ids=LOSSES)
def test_a_loss_explains_what_else_cannot_be(history: list[Operation]) -> None:
    """What was done before the loss may be undone by it; a loss at another time explains nothing."""
    assert is_linearizable(history, [Loss(4, 5)])
    assert not is_linearizable(history)
    assert not is_linearizable(history, [Loss(-2, -1)])
    assert not is_linearizable(history, [Loss(10, 11)])


def test_a_loss_excuses_nothing_else() -> None:
    """A loss undoes the last that was done; it doubles nothing and changes nothing."""
    changed = [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(6, 7, False, duplicate(True, 1))]
    kept_without_question = [ask(0, 1), ask(6, 7, BLUE), tell(8, 9, True, duplicate(True, 1))]
    undone_and_there = [*UNDONE, tell(8, 9, True, duplicate(True, 1))]
    for history in (changed, kept_without_question, undone_and_there):
        assert not is_linearizable(history, [Loss(4, 5)])


def test_a_request_without_reply_is_done_once_at_most() -> None:
    """What a loss has undone needs another request to be done again."""
    recorded_anew = [ask(0, 1), tell(2, 3, True, recorded(True, 1)), tell(6, 7, True, duplicate(True, 2))]
    assert is_linearizable([*recorded_anew, tell(2, 3, True, None)], [Loss(4, 5)])
    assert not is_linearizable(recorded_anew, [Loss(4, 5)])
    twice_lost = [*recorded_anew, tell(10, 11, True, duplicate(True, 3))]
    assert is_linearizable([*twice_lost, tell(2, 3, True, None), tell(2, 3, True, None)], [Loss(4, 5), Loss(8, 9)])
    assert not is_linearizable([*twice_lost, tell(2, 3, True, None)], [Loss(4, 5), Loss(8, 9)])


def test_the_log_is_read_as_a_reply() -> None:
    """A round that is not in the log was never recorded, or was lost."""
    assert is_linearizable([ask(0, 1), tell(2, 3, True, None), tell(4, 5, True, UNRECORDED)])
    assert is_linearizable([tell(0, 1, True, NOT_FOUND), tell(4, 5, True, UNRECORDED)])


def test_what_met_a_split_is_not_judged() -> None:
    """Only what was asked and told outside of it is."""
    bad = [ask(0, 1), ask(2, 3, BLUE)]
    assert unexplained(bad, [Loss(2.5, 4, split=True)]) == []
    assert unexplained(bad, [Loss(4, 5, split=True)]) == ["p"]


@pytest.mark.parametrize("end", [CONFLICT, recorded(False, 1)])
def test_many_requests_without_reply_take_no_longer(end: Verdict) -> None:
    """Hundreds of repetitions in several losses are judged, whether they can be explained or not."""
    asked = [ask(t, t + 0.5, None) for t in range(300)]
    told = [tell(t, t + 0.5, t % 2 == 0, None) for t in range(300)]
    losses = [Loss(t, t + 20) for t in range(0, 300, 30)]
    assert is_linearizable([*asked, *told, tell(400, 401, False, end)], losses)
    assert not is_linearizable([*asked, *told, tell(400, 401, False, duplicate(True, 1))], losses)


@pytest.mark.parametrize("history", EXPLAINED.values(), ids=EXPLAINED)
def test_what_can_be_explained_is_accepted(history: list[Operation]) -> None:
    """There is an order of these that an honest service may have followed."""
    assert is_linearizable(history)


@pytest.mark.parametrize("history", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_explained_is_refused(history: list[Operation]) -> None:
    """No honest service answers like this, in whatever order it is asked."""
    assert not is_linearizable(history)
    assert not is_linearizable(history[::-1])  # the order of the list says nothing


def test_every_prediction_is_checked_by_itself() -> None:
    """One bad life among good ones is named."""
    good = [Operation(own, None, 0, 1, RED) for own in "ab"]
    bad = [Operation("c", None, 0, 1, RED), Operation("c", None, 2, 3, BLUE)]
    assert unexplained([*good, *bad]) == ["c"]


REPLIES: list[tuple[bool | None, Answer | Verdict | None]] = [
    *((None, reply) for reply in (RED, BLUE, None)),
    *((correct, reply) for correct in (True, False) for reply in (None, NOT_FOUND, CONFLICT, UNRECORDED)),
    *((correct, kind(correct, 1)) for correct in (True, False) for kind in (recorded, duplicate)),
]


def test_the_search_finds_what_trying_every_order_finds() -> None:
    """Random histories with losses: accepted if and only if one of all orders explains them."""
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
    """All orders of all choices of the doubtful, that respect what ended before another began."""
    doubtful = [each for each in happenings if isinstance(each, Operation) and each.reply is None]
    certain = [each for each in happenings if each not in doubtful]
    for n in range(len(doubtful) + 1):
        for chosen in itertools.combinations(doubtful, n):
            for order in itertools.permutations([*certain, *chosen]):
                pairs = itertools.combinations(order, 2)
                if not any(later in certain and later.ended < earlier.begun for earlier, later in pairs):
                    yield order


def _explains(order: Sequence[Operation | Loss]) -> bool:
    """Whether every reply of this order is right, whatever a loss undoes."""
    lives = {Life()}
    for each in order:
        if isinstance(each, Operation):
            lives = {after for life in lives if (after := step(life, each)) is not None}
        elif lives:
            lives |= {Life("open", life.answer) for life in lives if life.phase == "closed"} | {Life()}
    return bool(lives)
