"""A test for changes: restarts a learner that makes more mistakes than a stationary stream explains.

The test is a cumulative sum (Page 1954) of the log likelihood ratio of two error rates. The first is the share of
mistakes since the last restart, computed as if two more rounds had had the error of uniform answers, and at least 0.1.
The second is halfway between the first and the error of uniform answers. Nothing is tested unless the first is below
that error. A restart also waits until the excess mistakes since the sum was last zero exceed a third of the restart's
cost. This cost is 10 mistakes per label or, if it is more, the mistakes since the last restart minus those that the
recent share would have given.

The exponential of a positive sum is at most the statistic of Shiryaev and Roberts. If the probability of a mistake
never exceeds the first rate, that statistic minus the number of rounds is a supermartingale. So a restart within n
rounds has probability at most n α for the threshold -ln α, and the mean time to a false restart is at least 1/α, as in
Lorden 1971; waiting only delays restarts. A loss in [0, 1] counts as a fraction of a mistake: the exponential of an
average is at most the average of the exponentials.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from learners.base import FloatArray
from learners.kernels import compiled
from learners.layouts import Layout

ChangeTest: TypeAlias = Annotated[FloatArray, Layout("float64", ("3",))]
"""The sum in nats, the recent share of mistakes, and the excess mistakes minus a third of a restart's cost."""

_SUM, _RECENT, _EXCESS = range(3)

_LEAST_RATE = 0.1
"""The minimum of the first rate. It limits how much one mistake of a nearly perfect learner counts."""

_FRACTION_TO_PAY = 1.0 / 3.0  # fraction of a restart's cost that excess mistakes must reach first
_LEAST_COST = 10.0  # minimum cost of a restart, in mistakes per label
_DECAY = 3.0  # the recent share weighs the t-th round by about t³: it covers about the last quarter of the rounds


class Past(NamedTuple):
    """The rounds since the last restart, without the round to test."""

    rounds: int
    mistakes: float  # the sum of 1 - reward


@compiled
def detect_change(test: FloatArray, past: Past, loss: float, threshold: float, n_labels: int) -> bool:
    """Test a round with a loss in [0, 1]; return whether to restart before it. A restart must also zero `test` (3,)."""
    uniform = 1.0 - 1.0 / n_labels
    before = max(_LEAST_RATE, (past.mistakes + 2.0 * uniform) / (past.rounds + 2.0))
    if past.rounds == 0 or before >= uniform:
        return False
    after = 0.5 * (before + uniform)
    if test[_SUM] <= 0.0:
        cost = max(_LEAST_COST * n_labels, past.mistakes - past.rounds * test[_RECENT])
        test[_SUM], test[_EXCESS] = 0.0, -_FRACTION_TO_PAY * cost
    test[_SUM] += loss * math.log(after / before) + (1.0 - loss) * math.log((1.0 - after) / (1.0 - before))
    test[_EXCESS] += loss - before
    return bool(test[_SUM] > threshold and test[_EXCESS] > 0.0)


@compiled
def note_round(test: FloatArray, rounds: int, loss: float) -> None:
    """Update the recent share of mistakes by the loss of a round; `rounds` includes this round."""
    rate = min(1.0, (_DECAY + 1.0) / (rounds + _DECAY))
    test[_RECENT] += (loss - test[_RECENT]) * rate
