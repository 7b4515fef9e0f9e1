"""The statistics of a comparison: errors of several learners on the same rounds, and intervals of differences.

Every learner plays the same seeds, which determine the order of the examples and the draws, so differences have less
variance than errors. Intervals are Student's over the seeds; they cover the variation of order and draws, for these
examples.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, median
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, IntArray

LEVEL = 0.95  # the confidence level of all intervals

_POINTS = 60


class Played(NamedTuple):
    """The result of one learner at one seed."""

    rounds: list[int]  # checkpoints, ascending, about evenly spaced on a logarithmic scale; the last is the final round
    mistakes: list[int]  # mistakes in the rounds up to each checkpoint
    seconds: float  # playing time
    preparation_seconds: float  # loading the kernels beforehand, or compiling them

    @property
    def error(self) -> float:
        """The share of mistakes in all rounds."""
        return self.mistakes[-1] / self.rounds[-1]

    @property
    def late_error(self) -> float:
        """The share of mistakes in the last quarter of the rounds."""
        start = three_quarters(self.rounds[-1])
        before = self.mistakes[self.rounds.index(start)]
        return (self.mistakes[-1] - before) / (self.rounds[-1] - start)


class Entrant(NamedTuple):
    """A learner with its settings, and its result at each seed."""

    name: str
    runs: tuple[Played, ...]
    needs_true_label: bool = False


class Estimate(NamedTuple):
    """A mean over seeds with its interval; error and interval are None with a single seed."""

    mean: float
    error: float | None  # standard error
    low: float | None
    high: float | None


class Standing(NamedTuple):
    """A learner in the table."""

    name: str
    error: Estimate  # in all rounds
    late_error: Estimate  # in the last quarter
    behind: Estimate | None  # its error minus the best learner's error; None for the best
    tied: bool  # whether it cannot be distinguished from the best one
    rounds_per_second: float  # the median over seeds
    needs_true_label: bool


def three_quarters(rounds: int) -> int:
    """Return the number of rounds before the last quarter."""
    return rounds - max(1, rounds // 4)


def checkpoints(rounds: int) -> list[int]:
    """Return checkpoints for T rounds, ascending: at most 60 from 1 to T, and `three_quarters(T)`, which may be 0."""
    spaced = np.unique(np.geomspace(1, rounds, _POINTS).round().astype(np.int64))
    found: list[int] = np.union1d(spaced, [three_quarters(rounds), rounds]).tolist()
    return found


def played(mistakes: BoolArray, seconds: float, preparation_seconds: float) -> Played:
    """Return the result of a run, given whether each round was a mistake, (T,)."""
    points = checkpoints(len(mistakes))
    totals: IntArray = np.concatenate([[0], np.cumsum(mistakes)]).astype(np.int64)
    return Played(points, totals[points].tolist(), seconds, preparation_seconds)


def estimate(values: Sequence[float], level: float = LEVEL, bounds: tuple[float, float] = (0.0, 1.0)) -> Estimate:
    """Return the mean of independent values, its standard error, and Student's interval, clipped to the bounds."""
    n, mean = len(values), math.fsum(values) / len(values)
    if n < 2:
        return Estimate(mean, None, None, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    error = math.sqrt(variance / n)
    reach = student_quantile(level, n - 1) * error
    return Estimate(mean, error, max(bounds[0], mean - reach), min(bounds[1], mean + reach))


def standings(entrants: Sequence[Entrant], among: Sequence[str] | None = None) -> list[Standing]:
    """Return the standings of learners that played the same seeds, ordered by error in all rounds.

    Only a learner that `among` names can be the best; None names all. The same runs select and measure the best. So the
    intervals of differences from the best have the level 1 - 0.05 / m for m pairs of learners (Bonferroni): they cover
    all pairs simultaneously with probability 95 %.
    """
    ordered = sorted(entrants, key=lambda each: math.fsum(run.error for run in each.runs) / len(each.runs))
    best = next((one for one in ordered if among is None or one.name in among), ordered[0])
    level = 1.0 - (1.0 - LEVEL) / max(1, len(entrants) * (len(entrants) - 1) // 2)
    return [_standing(one, best, level) for one in ordered]


def _standing(one: Entrant, best: Entrant, level: float) -> Standing:
    behind = None
    if one is not best:
        pairs = zip(one.runs, best.runs, strict=True)
        behind = estimate([run.error - other.error for run, other in pairs], level, (-1.0, 1.0))
    tied = behind is None or behind.low is None or behind.low <= 0.0 <= (behind.high or 0.0)
    speed = median(run.rounds[-1] / max(run.seconds, 1e-9) for run in one.runs)
    errors = estimate([run.error for run in one.runs]), estimate([run.late_error for run in one.runs])
    return Standing(one.name, *errors, behind, tied, speed, one.needs_true_label)


def curve(entrant: Entrant) -> list[tuple[int, Estimate]]:
    """Return the learning curve: at each checkpoint, the mean share of mistakes so far, over the seeds."""
    rounds = entrant.runs[0].rounds
    shares = [[run.mistakes[i] / max(t, 1) for run in entrant.runs] for i, t in enumerate(rounds)]
    return [(t, estimate(values)) for t, values in zip(rounds, shares, strict=True) if t > 0]


def student_quantile(level: float, degrees: int) -> float:
    """Return t such that [-t, t] covers `level` of Student's distribution, to a relative error below 1e-5.

    The degrees of freedom are n ≥ 1. G. W. Hill, "Algorithm 396: Student's t-quantiles", Communications of the ACM
    13(10), 1970.
    """
    P, n = 1.0 - level, float(degrees)
    if degrees == 1:
        return math.cos(P * math.pi / 2.0) / math.sin(P * math.pi / 2.0)
    if degrees == 2:
        return math.sqrt(2.0 / (P * (2.0 - P)) - 2.0)
    a = 1.0 / (n - 0.5)
    b = 48.0 / (a * a)
    c = ((20700.0 * a / b - 98.0) * a - 16.0) * a + 96.36
    d = ((94.5 / (b + c) - 3.0) / b + 1.0) * math.sqrt(a * math.pi / 2.0) * n
    y = (d * P) ** (2.0 / n)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(P / 2.0)
        y = x * x
        if degrees < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5.0) * x - 7.0) * x - 2.0) * x + b
        y = (((((0.4 * y + 6.3) * y + 36.0) * y + 94.5) / c - y - 3.0) / b + 1.0) * x
        y = math.expm1(a * y * y)
    else:
        y = ((1.0 / (((n + 6.0) / (n * y) - 0.089 * d - 0.822) * (n + 2.0) * 3.0) + 0.5 / (n + 4.0)) * y - 1.0) * (
            n + 1.0
        ) / (n + 2.0) + 1.0 / y
    return math.sqrt(n * y)
