"""Confidence intervals of means, with plain floats: Wilson's for shares, and the empirical Bernstein bound."""

from math import isfinite, log, sqrt
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of the share of successes: within [0, 1], and [0, 1] if n is 0.

    Edwin B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927. Successes may be
    a sum of n rewards in [0, 1]; the interval is conservative then: for any mean, rewards of 0 or 1 have the largest
    variance. The level is in (0, 1). Raises `ValueError` if an argument is out of its range.
    """
    _check_level(level)
    if not 0.0 <= successes <= n:
        raise ValueError(f"successes must be from 0 to n = {n}, not {successes}")
    if n == 0:
        return Interval(0.0, 1.0)
    z, share = NormalDist().inv_cdf(0.5 + level / 2.0), successes / n
    centre = share + z * z / (2.0 * n)
    margin = z * sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    scale = 1.0 + z * z / n
    low = 0.0 if successes == 0 else max(0.0, (centre - margin) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + margin) / scale)
    return Interval(low, high)


def empirical_bernstein(
    total: float, total_of_squares: float, n: int, low: float, high: float, level: float = 0.95
) -> Interval:
    """Return the two-sided empirical Bernstein interval of the mean of n independent variables in [low, high].

    Andreas Maurer, Massimiliano Pontil, "Empirical Bernstein bounds and sample variance penalization", COLT 2009,
    Theorem 4, for both sides at once (a union bound, so ln(4 / (1 - level)) instead of ln(2 / δ)). It holds for every
    n, but is wider than a bootstrap interval; with fewer than two variables it is [low, high]. Raises `ValueError` if
    the level, a bound or the mean is out of range, or one of them or the total of squares is not finite.
    """
    _check_level(level)
    if not low < high < float("inf") or low == -float("inf"):
        raise ValueError(f"low and high must be finite, and low less than high, not {low} and {high}")
    if n < 2:
        return Interval(low, high)
    mean, width = total / n, high - low
    if not low - 1e-9 * width <= mean <= high + 1e-9 * width:
        raise ValueError(f"the mean {mean} is not from low = {low} to high = {high}")
    if not isfinite(total_of_squares):
        raise ValueError(f"total_of_squares must be finite, not {total_of_squares}")
    variance = max(0.0, (total_of_squares - n * mean * mean) / (n - 1))
    terms = log(4.0 / (1.0 - level))
    margin = sqrt(2.0 * variance * terms / n) + 7.0 * width * terms / (3.0 * (n - 1))
    return Interval(max(low, mean - margin), min(high, mean + margin))


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, not {level}")
