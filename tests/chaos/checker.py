"""An exact check of linearizability: does some order of the requests explain every reply?

Each prediction is a separate object. It always has the same answer. Its first feedback is recorded, an equal one
is a duplicate, and a different one is a conflict. The search is that of Wing and Gong (1993), with memoized pairs
of completed operations and state, as in Lowe (2017).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.chaos.history import UNRECORDED, Answer, Life, Loss, Operation, Verdict


class _Point(NamedTuple):
    """A node of the search."""

    done: frozenset[int]  # indices of the certain events that are placed
    used: tuple[int, ...]  # number of unanswered requests placed, per kind
    life: Life


class _Case(NamedTuple):
    """The events of one prediction that an order must explain."""

    certain: Sequence[Operation | Loss]  # answered requests, and losses
    kinds: Sequence[Sequence[Operation]]  # equal unanswered requests, ordered by start


def _nothing(_: str) -> Sequence[Operation]:
    return ()


def unexplained(
    history: Iterable[Operation],
    losses: Sequence[Loss] = (),
    more: Callable[[str], Iterable[Operation]] = _nothing,
) -> list[str]:
    """Return the ids of predictions that no order explains, except those with an operation during a split.

    Args:
        history: operations of all predictions.
        losses: times at which something may have been undone.
        more: returns more operations of a prediction of the history.
    """
    lives: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        lives[operation.prediction_id].append(operation)
    return [own for own, operations in lives.items() if not _is_explained([*operations, *more(own)], losses)]


def _is_explained(operations: Sequence[Operation], losses: Sequence[Loss]) -> bool:
    return bool(losses and _met_split(operations, losses)) or is_linearizable(operations, losses)


def _met_split(operations: Sequence[Operation], losses: Sequence[Loss]) -> bool:
    splits = [loss for loss in losses if loss.split]
    return any(each.ended >= loss.begun and each.begun <= loss.ended for each in operations for loss in splits)


def is_linearizable(operations: Sequence[Operation], losses: Sequence[Loss] = ()) -> bool:
    """Check whether some order of one prediction's operations explains every reply.

    An operation that ended before another began comes before it. An unanswered operation takes effect at any time
    after it began, or never.
    """
    return _usual_order_explains(operations) or _some_order_explains(operations, losses)


def _usual_order_explains(operations: Sequence[Operation]) -> bool:
    """Try one order, which explains most histories: what made a change when it began, the rest when it ended.

    Each operation has its place between its begin and its end, so the order is one that the search would try.
    Unanswered requests and losses change nothing in it.
    """
    life: Life | None = Life()
    for operation in sorted((each for each in operations if each.reply is not None), key=_usual_moment):
        life = None if life is None else step(life, operation)
    return life is not None


def _usual_moment(operation: Operation) -> float:
    reply = operation.reply
    changes = isinstance(reply, Answer) or (reply is not None and reply.status == "recorded")
    return operation.begun if changes else operation.ended


def _some_order_explains(operations: Sequence[Operation], losses: Sequence[Loss]) -> bool:
    case = _case(operations, losses)
    stack = [_Point(frozenset(), (0,) * len(case.kinds), Life())]
    visited = set(stack)
    while stack:
        point = stack.pop()
        if len(point.done) == len(case.certain):
            return True
        for after in _after(point, case):
            if after not in visited:
                visited.add(after)
                stack.append(after)
    return False


def _case(operations: Sequence[Operation], losses: Sequence[Loss]) -> _Case:
    begun = min((each.begun for each in operations), default=0.0)
    answered = [each for each in operations if each.reply is not None]
    kinds: defaultdict[float | None, list[Operation]] = defaultdict(list)
    for operation in sorted(operations, key=lambda each: each.begun):
        if operation.reply is None:
            kinds[operation.correct].append(operation)
    return _Case([*answered, *(loss for loss in losses if loss.ended >= begun)], list(kinds.values()))


def _after(point: _Point, case: _Case) -> Iterator[_Point]:
    """Yield the next search nodes. A waiting event can come next unless another one ended before it began."""
    waiting = [number for number in range(len(case.certain)) if number not in point.done]
    earliest = min(case.certain[number].ended for number in waiting)
    yield from _after_doubtful(point, case, earliest)
    for number in waiting:
        if case.certain[number].begun <= earliest:
            for life in _outcomes(point.life, case.certain[number]):
                yield _Point(point.done | {number}, point.used, life)


def _after_doubtful(point: _Point, case: _Case, earliest: float) -> Iterator[_Point]:
    """Yield the nodes after an unanswered request that changes the state.

    Of equal requests only the earliest is tried, because it can take effect whenever a later one can.
    """
    for kind, requests in enumerate(case.kinds):
        used = point.used[kind]
        if used < len(requests) and requests[used].begun <= earliest:
            life = step(point.life, requests[used])
            if life is not None and life != point.life:
                yield _Point(point.done, (*point.used[:kind], used + 1, *point.used[kind + 1 :]), life)


def _outcomes(life: Life, happening: Operation | Loss) -> list[Life]:
    if isinstance(happening, Loss):
        return [life, Life("open", life.answer), Life()][:: 1 if life.phase == "closed" else 2]
    after = step(life, happening)
    return [] if after is None else [after]


def step(life: Life, operation: Operation) -> Life | None:
    """Return the state after an operation, or None if its reply is impossible."""
    if operation.correct is None:
        return _predict(life, operation.reply)
    return _judge(life, operation.correct, operation.reply)


def _predict(life: Life, reply: Answer | Verdict | None) -> Life | None:
    if isinstance(reply, Verdict) or (reply and life.answer and reply != life.answer):
        return None
    phase = "open" if life.phase == "absent" else life.phase
    return life._replace(phase=phase, answer=life.answer or reply)


def _judge(life: Life, correct: float, reply: Answer | Verdict | None) -> Life | None:
    if isinstance(reply, Answer):
        return None
    if reply == UNRECORDED:
        return None if life.phase == "closed" else life
    if life.phase == "absent":
        return life if reply is None or reply.status == "not-found" else None
    if life.phase == "open":
        first = reply is None or (reply.status == "recorded" and reply.correct == correct)
        return life._replace(phase="closed", correct=correct, round=reply.round if reply else None) if first else None
    if reply is None:
        return life
    return _judge_again(life, correct, reply)


def _judge_again(life: Life, correct: float, reply: Verdict) -> Life | None:
    if correct != life.correct:
        return life if reply.status == "conflict" else None
    same = reply.status == "duplicate" and reply.correct == correct and life.round in {None, reply.round}
    return life._replace(round=reply.round) if same else None
