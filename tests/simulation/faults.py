"""The faults of a simulation, planned before it begins, so that a failing plan can be made smaller."""

import random
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What happens."""

    KILL = "kill a worker"
    CUT = "cut a worker's connections"
    LOSE_ANSWER = "lose an answer to a client"
    CANCEL = "let a client close its connection before the answer"
    RESTART = "restart the store"
    LOSE_COMMANDS = "restart the store without its last commands"
    LOSE_APPENDED = "restart the store without its last rounds or changes, and what came after them"
    FULL = "fill the store's memory"
    FREE = "free the store's memory"
    FULL_DISK = "fill the store's disk"
    FREE_DISK = "free the store's disk"
    WORKER_CLOCK = "let a worker's clock jump"
    STORE_CLOCK = "let the store's clock jump"
    SLEEP = "let time pass"
    PAUSE = "stop a worker for some steps"
    AVOID = "send a worker no requests for some steps"
    NO_REPLICA = "disconnect the replica"
    REPLICA = "connect the replica"


_SHARES = {
    Kind.KILL: 4,
    Kind.CUT: 4,
    Kind.LOSE_ANSWER: 12,
    Kind.CANCEL: 8,
    Kind.RESTART: 2,
    Kind.LOSE_COMMANDS: 4,
    Kind.LOSE_APPENDED: 4,
    Kind.FULL: 1,
    Kind.FREE: 3,
    Kind.FULL_DISK: 1,
    Kind.FREE_DISK: 4,
    Kind.WORKER_CLOCK: 2,
    Kind.STORE_CLOCK: 1,
    Kind.SLEEP: 2,
    Kind.PAUSE: 4,
    Kind.AVOID: 6,
    Kind.NO_REPLICA: 1,
    Kind.REPLICA: 3,
}

_MOST_LOST = (3, 30)  # commands
_MOST_LOST_APPENDED = (1, 4)  # rounds and changes
_FARTHEST = 5.0  # seconds of a jump, mostly; some are an hour
_HOUR = 3600.0
_LONGEST_PAUSE = 1500  # steps
_STEPS_BETWEEN = (40, 150, 600)  # mean steps between two faults
_SHARE_OF_KINDS = 0.7
"""Share of the kinds of faults that a run has: some errors need a fault without the others (Groce et al., 2012)."""


_REPAIRS = (Kind.FREE, Kind.FREE_DISK, Kind.REPLICA)
_FAVOURED = 8
"""How much more often one kind occurs in a run than its share says."""


class Fault(NamedTuple):
    """A fault before some step."""

    step: int
    kind: Kind
    choice: float  # in [0, 1): which worker, or which answer
    size: float  # seconds, commands, rounds or steps

    def __str__(self) -> str:
        """Return a line of a schedule."""
        return f"step {self.step}: {self.kind} ({self.choice:.3f}, {self.size:.3f})"


def plan(seed: int, steps: int) -> list[Fault]:
    """Return the faults of a run."""
    rng, found, step = random.Random(f"faults {seed}"), list[Fault](), 0
    mean = rng.choice(_STEPS_BETWEEN)
    kinds = [kind for kind in _SHARES if kind in _REPAIRS or rng.random() < _SHARE_OF_KINDS]
    favourite = rng.choice(kinds)
    weights = [_SHARES[kind] * (_FAVOURED if kind == favourite else 1) for kind in kinds]
    while (step := step + 1 + int(rng.expovariate(1 / mean))) < steps:
        (kind,) = rng.choices(kinds, weights)
        found.append(Fault(step, kind, rng.random(), _size(rng, kind)))
    return found


def _size(rng: random.Random, kind: Kind) -> float:
    match kind:
        case Kind.LOSE_COMMANDS:
            return float(rng.randrange(1, rng.choice(_MOST_LOST)))
        case Kind.LOSE_APPENDED:
            return float(rng.randrange(1, rng.choice(_MOST_LOST_APPENDED) + 1))
        case Kind.WORKER_CLOCK | Kind.STORE_CLOCK:
            farthest = _HOUR if rng.random() < 0.05 else _FARTHEST
            return rng.uniform(-farthest, farthest)
        case Kind.SLEEP:
            return rng.expovariate(1 / 10)
        case Kind.PAUSE | Kind.AVOID:
            return float(rng.randrange(_LONGEST_PAUSE))
        case _:
            return 0.0
