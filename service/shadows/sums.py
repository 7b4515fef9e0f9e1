"""Sums over the rounds that a shadow decided before it learned them. They are equal in every worker, to the bit."""

import dataclasses
import json
import math

import numpy as np

from learners.base import FloatArray
from learners.evaluation.weights import weighable
from service.errors import NewerVersionError

LARGEST = 100.0
"""The weight above which weights are clipped, for the interval that needs a bound."""

_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Sums:
    """Sums over n rounds with the served label a, its propensity p, and the reward r.

    The weight w is π(a)/p, for the shadow's own probability π(a) of the label.
    """

    rounds: int = 0
    since_round: int = 1  # the first round of the fold
    skipped: int = 0  # rounds that the shadow could not learn from
    reward: float = 0.0  # Σ r
    squared_reward: float = 0.0  # Σ r²
    weight: float = 0.0  # Σ w
    squared_weight: float = 0.0  # Σ w²
    weighted_reward: float = 0.0  # Σ w r
    squared_weighted_reward: float = 0.0  # Σ (w r)²
    weight_by_weighted_reward: float = 0.0  # Σ w² r
    squared_difference: float = 0.0  # Σ (w r - r)²
    clipped: int = 0  # weights above LARGEST
    clipped_difference: float = 0.0  # Σ (v r - r), where v = min(w, LARGEST)
    squared_clipped_difference: float = 0.0  # Σ (v r - r)²
    clipped_reward: float = 0.0  # Σ v r
    largest_weight: float = 0.0

    def plus(self, probabilities: FloatArray, propensities: FloatArray, rewards: FloatArray, skipped: int) -> "Sums":
        """Return the sums with n further rounds, which may be given in any number of parts.

        Args:
            probabilities: (n,), of the served labels, from the shadow.
            propensities: (n,), of the served labels, from the model.
            rewards: (n,), in [0, 1].
            skipped: how many of them the shadow could not learn from. Those without a weight are added.
        """
        known = weighable(propensities)
        w, r = probabilities[known] / propensities[known], rewards[known]
        v = np.minimum(w, LARGEST)
        return dataclasses.replace(
            self,
            rounds=self.rounds + len(r),
            skipped=self.skipped + skipped + int((~known).sum()),
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
        """Return the sums with a round that was neither learnt nor compared."""
        return dataclasses.replace(self, skipped=self.skipped + 1)

    def encode(self) -> bytes:
        """Encode as JSON, with the version. Decoding restores every number to the bit."""
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
            raise ValueError("a sum is impossible")
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"invalid sums: {error}") from error
    return sums


def _added(total: float, terms: FloatArray) -> float:
    """Add terms one by one, so that the result does not depend on how they are batched."""
    return float(np.add.accumulate(np.concatenate(([total], terms)))[-1])
