"""Compares a shadow with the served policy, from sums over the rounds."""

import dataclasses
import json
import math
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray
from learners.evaluation.intervals import Interval, empirical_bernstein
from learners.evaluation.weights import weighable
from service.errors import NewerVersionError

LARGEST = 100.0
"""The bound at which weights are clipped for the Bernstein interval, which is only valid for bounded weights."""

_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Sums:
    """Sums over n rounds with the served label a, its propensity p, and the reward r.

    The weight w is π(a)/p, where π(a) is the shadow's own probability of the label.
    """

    rounds: int = 0
    since_round: int = 1  # number of the first round that these sums may include
    skipped: int = 0  # rounds from which the shadow did not learn, or which have no weight
    reward: float = 0.0  # Σ r
    squared_reward: float = 0.0  # Σ r²
    weight: float = 0.0  # Σ w
    squared_weight: float = 0.0  # Σ w²
    weighted_reward: float = 0.0  # Σ w r
    squared_weighted_reward: float = 0.0  # Σ (w r)²
    weight_by_weighted_reward: float = 0.0  # Σ w² r
    squared_difference: float = 0.0  # Σ (w r - r)²
    clipped: int = 0  # number of weights above LARGEST
    clipped_difference: float = 0.0  # Σ (v r - r), where v = min(w, LARGEST)
    squared_clipped_difference: float = 0.0  # Σ (v r - r)²
    clipped_reward: float = 0.0  # Σ v r
    largest_weight: float = 0.0

    def plus(
        self, probabilities: FloatArray, propensities: FloatArray, rewards: FloatArray, learnt: BoolArray
    ) -> "Sums":
        """Return the sums with n more rounds. The result does not depend on batches.

        Args:
            probabilities: (n,), the shadow's probabilities of the served labels.
            propensities: (n,), the probabilities with which the model drew these labels.
            rewards: (n,), in [0, 1].
            learnt: (n,), whether the shadow learned from each round. `skipped` counts the other rounds, which are still
                compared, and the rounds without a weight (p too small), which are not.
        """
        known = weighable(propensities)
        w, r = probabilities[known] / propensities[known], rewards[known]
        v = np.minimum(w, LARGEST)
        return dataclasses.replace(
            self,
            rounds=self.rounds + len(r),
            skipped=self.skipped + int((~(known & learnt)).sum()),
            reward=_added(self.reward, r),
            squared_reward=_added(self.squared_reward, r * r),
            weight=_added(self.weight, w),
            squared_weight=_added(self.squared_weight, w * w),
            weighted_reward=_added(self.weighted_reward, w * r),
            squared_weighted_reward=_added(self.squared_weighted_reward, (w * r) ** 2),
            weight_by_weighted_reward=_added(self.weight_by_weighted_reward, w * w * r),
            squared_difference=_added(self.squared_difference, (w * r - r) ** 2),
            clipped=self.clipped + int((w > LARGEST).sum()),
            clipped_difference=_added(self.clipped_difference, v * r - r),
            squared_clipped_difference=_added(self.squared_clipped_difference, (v * r - r) ** 2),
            clipped_reward=_added(self.clipped_reward, v * r),
            largest_weight=max(self.largest_weight, float(w.max(initial=0.0))),
        )

    def plus_skipped(self) -> "Sums":
        """Return the sums with one more skipped round, which was neither learned nor compared."""
        return dataclasses.replace(self, skipped=self.skipped + 1)

    def encode(self) -> bytes:
        """Encode as JSON, with the version. Decoding restores every bit of each number."""
        return json.dumps({"version": _VERSION, **dataclasses.asdict(self)}, separators=(",", ":")).encode()


def decode_sums(data: bytes) -> Sums:
    """Decode sums.

    Raises:
        NewerVersionError: if a newer version encoded them.
        ValueError: if the bytes are not valid sums.
    """
    try:
        fields = dict(json.loads(data))
        if fields.pop("version") > _VERSION:
            raise NewerVersionError("a newer version wrote the comparison of a shadow")
        sums = Sums(**fields)
        if not all(math.isfinite(number) and number >= 0 for name, number in fields.items() if "diff" not in name):
            raise ValueError("a sum is negative or not finite")
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"invalid sums: {error}") from error
    return sums


def _added(total: float, terms: FloatArray) -> float:
    """Add terms one by one, so that the result does not depend on batches."""
    return float(np.add.accumulate(np.concatenate(([total], terms)))[-1])


LEVEL = 0.95
"""The confidence level of all intervals."""

_FEW_ROUNDS = 100  # fewer cause a warning
_FEW_EFFECTIVE = 100.0  # a smaller effective sample size causes a warning
_LARGE_SHARE = 0.1  # share of all weight above which a single round causes a warning
_DEVIATIONS = 4.0  # standard errors by which the mean weight may differ from 1 without a warning

Verdict = Literal["better", "worse", "undecided"]


class Compared(NamedTuple):
    """The mean rewards of the two policies, their difference, and its uncertainty."""

    served: float  # mean reward of the served policy
    ips: float  # mean reward of the shadow by inverse propensity scoring
    snips: float | None  # the same with normalized weights; None if every weight is 0
    difference: float  # ips - served
    normal: Interval  # interval of the difference by the normal approximation
    bernstein: Interval  # empirical Bernstein interval of the difference with clipped weights
    effective_sample_size: float  # (Σ w)² / Σ w²
    mean_weight: float  # 1 in expectation
    verdict: Verdict
    warnings: list[str]


def compare(sums: Sums) -> Compared | None:
    """Compare a shadow with the served policy; return None if no rounds were compared."""
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
    """Return the interval of a mean by the normal approximation; all possible values if there is a single round."""
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
        found.append(
            f"the effective sample size is only {effective:.0f}; wait until it is at least {_FEW_EFFECTIVE:.0f}"
        )
    if sums.largest_weight > _LARGE_SHARE * sums.weight > 0.0 and n >= _FEW_ROUNDS:
        share = sums.largest_weight / sums.weight
        found.append(f"one round has {share:.0%} of all weight, so the estimate depends on it")
    if n >= _FEW_ROUNDS and abs(mean - 1.0) > max(_DEVIATIONS * error, 1e-3):
        found.append(
            f"the mean weight is {mean:.3g}, not 1: the model rarely or never answers labels that the shadow prefers"
        )
    return found
