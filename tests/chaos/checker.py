"""An exact check of linearizability: is there one order of the requests that explains every reply?

Each prediction is an object of its own: asked for once and answered the same ever after; its first feedback wins,
an equal one is a duplicate, another one a conflict. The search is that of Wing and Gong (1993), with the visited
pairs of done operations and state remembered, as Lowe (2017) does.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tests.chaos.history import Answer, Life, Operation, Verdict


def unexplained(history: Iterable[Operation]) -> list[str]:
    """The prediction ids whose operations have no explaining order."""
    lives: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        lives[operation.prediction_id].append(operation)
    return [own for own, operations in lives.items() if not is_linearizable(operations)]


def is_linearizable(operations: Sequence[Operation]) -> bool:
    """Whether some order explains every reply; all operations are of one prediction.

    In that order an operation that ended before another began comes before it; one whose reply is unknown comes at
    any time after it began, or never.
    """
    operations = _without_repetitions(operations)
    known = {number for number, operation in enumerate(operations) if operation.reply is not None}
    stack = [(frozenset[int](), Life())]
    visited = set(stack)
    while stack:
        done, life = stack.pop()
        if known <= done:
            return True
        for number in _next(operations, known, done):
            after = step(life, operations[number])
            state = (done | {number}, after)
            if after is not None and state not in visited:
                visited.add((state[0], after))
                stack.append((state[0], after))
    return False


def _without_repetitions(operations: Sequence[Operation]) -> list[Operation]:
    """Of equal requests with unknown replies the first: whatever a later one may do, that one may do, once."""
    first: dict[bool | None, Operation] = {}
    for operation in sorted(operations, key=lambda each: each.begun):
        if operation.reply is None:
            first.setdefault(operation.correct, operation)
    return [each for each in operations if each.reply is not None or first[each.correct] is each]


def _next(operations: Sequence[Operation], known: set[int], done: frozenset[int]) -> list[int]:
    """The operations that may come next: begun before any waiting one ended."""
    earliest = min(operations[number].ended for number in known - done)
    waiting = (number for number in range(len(operations)) if number not in done)
    return [number for number in waiting if operations[number].begun <= earliest]


def step(life: Life, operation: Operation) -> Life | None:
    """The state after an operation; None where its reply is impossible."""
    if operation.correct is None:
        return _predict(life, operation.reply)
    return _judge(life, operation.correct, operation.reply)


def _predict(life: Life, reply: Answer | Verdict | None) -> Life | None:
    if isinstance(reply, Verdict) or (reply and life.answer and reply != life.answer):
        return None
    phase = "open" if life.phase == "absent" else life.phase
    return life._replace(phase=phase, answer=life.answer or reply)


def _judge(life: Life, correct: bool, reply: Answer | Verdict | None) -> Life | None:
    if isinstance(reply, Answer):
        return None
    if life.phase == "absent":
        return life if reply is None or reply.status == "not-found" else None
    if life.phase == "open":
        first = reply is None or (reply.status == "recorded" and reply.correct == correct)
        return life._replace(phase="closed", correct=correct, round=reply.round if reply else None) if first else None
    if reply is None:
        return life
    return _judge_again(life, correct, reply)


def _judge_again(life: Life, correct: bool, reply: Verdict) -> Life | None:
    if correct != life.correct:
        return life if reply.status == "conflict" else None
    same = reply.status == "duplicate" and reply.correct == correct and life.round in {None, reply.round}
    return life._replace(round=reply.round) if same else None
