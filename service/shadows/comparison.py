"""The comparison of a shadow with the policy that the model served, from sums over the rounds."""

import math
from statistics import NormalDist
from typing import Literal, NamedTuple

from learners.evaluation.intervals import Interval, empirical_bernstein
from service.shadows.sums import LARGEST, Sums

LEVEL = 0.95
"""The level of all intervals."""

_FEW_ROUNDS = 100
_FEW_EFFECTIVE = 100.0
_LARGE_SHARE = 0.1
_DEVIATIONS = 4.0

Verdict = Literal["better", "worse", "undecided"]


class Compared(NamedTuple):
    """Values of the two policies per round, their difference, and what limits it."""

    served: float  # mean reward of the served policy
    ips: float  # mean reward of the shadow by inverse propensity scoring
    snips: float | None  # the same with normalized weights; None if every weight is 0
    difference: float  # ips - served
    normal: Interval  # of the difference
    bernstein: Interval  # of the difference with clipped weights
    effective_sample_size: float
    mean_weight: float  # 1 in expectation
    verdict: Verdict
    warnings: list[str]


def compare(sums: Sums) -> Compared | None:
    """Compare a shadow with the served policy; return None without rounds."""
    n = sums.rounds
    if n == 0:
        return None
    served, ips = sums.reward / n, sums.weighted_reward / n
    difference = ips - served
    normal = _normal(sums.weighted_reward - sums.reward, sums.squared_difference, n)
    bernstein = empirical_bernstein(
        sums.clipped_difference, sums.squared_clipped_difference, n, -1.0, LARGEST - 1.0, LEVEL
    )
    warnings = _warnings(sums)
    verdict: Verdict = "undecided"
    if not warnings and (normal.low > 0.0 or normal.high < 0.0):
        verdict = "better" if normal.low > 0.0 else "worse"
    return Compared(
        served,
        ips,
        sums.weighted_reward / sums.weight if sums.weight > 0.0 else None,
        difference,
        normal,
        bernstein,
        _effective(sums),
        sums.weight / n,
        verdict,
        warnings,
    )


def _normal(total: float, total_of_squares: float, n: int) -> Interval:
    """Return the interval of a mean by the normal approximation; everything possible for a single round."""
    if n < 2:
        return Interval(-1.0, math.inf)
    mean = total / n
    variance = max(0.0, (total_of_squares - n * mean * mean) / (n - 1))
    margin = NormalDist().inv_cdf(0.5 + LEVEL / 2.0) * math.sqrt(variance / n)
    return Interval(mean - margin, mean + margin)


def _effective(sums: Sums) -> float:
    return sums.weight * sums.weight / sums.squared_weight if sums.squared_weight > 0.0 else 0.0


def _warnings(sums: Sums) -> list[str]:
    """Return one sentence for each reason not to trust the comparison."""
    n, effective, found = sums.rounds, _effective(sums), list[str]()
    mean = sums.weight / n
    error = math.sqrt(max(0.0, sums.squared_weight / n - mean * mean) / n)
    if n < _FEW_ROUNDS:
        found.append(f"there are only {n} rounds; compare after at least {_FEW_ROUNDS}")
    elif effective < _FEW_EFFECTIVE:
        found.append(f"the effective sample size is {effective:.0f}; compare after at least {_FEW_EFFECTIVE:.0f}")
    if sums.largest_weight > _LARGE_SHARE * sums.weight > 0.0 and n >= _FEW_ROUNDS:
        share = sums.largest_weight / sums.weight
        found.append(f"one round has {share:.0%} of all weight, so the estimate depends on it")
    if n >= _FEW_ROUNDS and abs(mean - 1.0) > max(_DEVIATIONS * error, 1e-3):
        found.append(
            f"the mean weight is {mean:.3g}, not 1: the model rarely or never answers labels that the shadow prefers"
        )
    return found
