"""A test for changes: restarts a learner once its mistakes are too many for a stationary stream.

The test is a cumulative sum (Page 1954) of the likelihood ratio of two error rates: the share of mistakes since the
last restart, and a rate halfway between that share and the error of uniform answers. A restart also waits until the
excess mistakes since the sum was last zero have paid for a part of what relearning costs.

The sum's exponential is at most the statistic of Shiryaev and Roberts. If the probability of a mistake never exceeds
the share of mistakes so far, that statistic minus the number of rounds is a supermartingale. So a restart within n
rounds has probability at most n α for the threshold -ln α, and the mean time to a false restart is at least 1/α
(Lorden 1971).
"""

import math
from typing import NamedTuple

from learners.base import FloatArray
from learners.kernels import compiled

_EVIDENCE, _RECENT, _EXCESS = range(3)
"""The test's numbers: evidence in nats, the recent share of mistakes, and excess mistakes minus costs to be paid."""

_LEAST_RATE = 0.1
"""The smallest error rate to test: rare mistakes carry little evidence each."""

_SHARE_TO_PAY = 1.0 / 3.0
"""The part of a restart's costs, in mistakes, that excess mistakes must pay before it."""

_LEAST_COST = 10.0
"""The least costs of a restart, in mistakes for each label."""

_DECAY = 3.0
"""The recent share weighs the t-th round by about t³: it covers about the last quarter of the rounds."""


class Past(NamedTuple):
    """The rounds since the last restart, before the one to be tested."""

    rounds: int
    mistakes: int


@compiled
def detect_change(test: FloatArray, past: Past, wrong: bool, threshold: float, n_labels: int) -> bool:
    """Take one round into account; return whether to restart before folding it.

    Args:
        test: (3,), changed; the caller resets it to zero at a restart.
        past: the rounds before this one.
        wrong: whether this round's answer was wrong.
        threshold: -ln α > 0, the evidence for a restart.
        n_labels: K.
    """
    uniform = 1.0 - 1.0 / n_labels
    usual = max(_LEAST_RATE, (past.mistakes + 2.0 * uniform) / (past.rounds + 2.0))
    if past.rounds == 0 or usual >= uniform:
        return False
    changed = 0.5 * (usual + uniform)
    test[_EVIDENCE] += math.log(changed / usual) if wrong else math.log((1.0 - changed) / (1.0 - usual))
    test[_EXCESS] += (1.0 if wrong else 0.0) - usual
    if test[_EVIDENCE] <= 0.0:
        test[_EVIDENCE] = 0.0
        costs = max(_LEAST_COST * n_labels, past.mistakes - past.rounds * test[_RECENT])
        test[_EXCESS] = -_SHARE_TO_PAY * costs
    return bool(test[_EVIDENCE] > threshold and test[_EXCESS] > 0.0)


@compiled
def note_round(test: FloatArray, rounds: int, wrong: bool) -> None:
    """Update the recent share of mistakes; `rounds` counts this one."""
    rate = min(1.0, (_DECAY + 1.0) / (rounds + _DECAY))
    test[_RECENT] += ((1.0 if wrong else 0.0) - test[_RECENT]) * rate
