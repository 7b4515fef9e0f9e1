"""Sets of exactly m labels: slates. Their hull is the hypersimplex, 0 ≤ y ≤ 1 with Σ y = m."""

import math
from typing import Annotated

import numpy as np
import pydantic

from learners.base import FloatArray, IntArray
from learners.hyperparameters import Magnitude, hyperparameters
from learners.output_spaces.base import Constants
from learners.output_spaces.binary import Binary
from learners.output_spaces.polytope import steepness

_UNIT = 2**42  # probabilities are whole multiples of 1/_UNIT, so that their sums are exact


@hyperparameters
class FixedSize(Binary):
    """Outputs are the vectors of D zeros and ones with m ones, 0 < m < D.

    The Hamming loss / D counts each mistake twice: a label included, and another left out. Norm ℓ2, ν = √2,
    γ = 2√(m(D - m)/D)/D. The mean is a clipped shift of θ/λ. A random vertex is drawn by systematic sampling (Madow
    1949): label i has the interval from ŷ_1 + … + ŷ_(i-1) to ŷ_1 + … + ŷ_i, and the set has those labels whose interval
    contains u, u + 1, …, or u + m - 1, for one uniform u. So the law has at most D vertices.
    """

    name = "fixed-size"
    n_uniforms = 2  # one to mix, one to draw
    n_labels: Annotated[int, pydantic.Field(ge=2, le=1_000_000)]
    """D."""
    size: Annotated[int, pydantic.Field(ge=1, le=999_999)]
    """m, less than D."""
    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4γ/ν; `null` for twice that."""

    def __post_init__(self) -> None:
        if self.size >= self.n_labels:
            raise ValueError(f"size: must be less than {self.n_labels}, the number of labels")
        super().__post_init__()

    @property
    def dimension(self) -> int:
        return self.n_labels

    @property
    def constants(self) -> Constants:
        D, m = self.n_labels, self.size
        gamma, nu = steepness(D, m, D), math.sqrt(2.0)
        strong_convexity = 8.0 * gamma / nu if self.regularization is None else self.regularization
        return Constants(gamma, nu, strong_convexity, 1.0, math.sqrt(2.0 * min(m, D - m)))

    def nearest(self, mean: FloatArray) -> FloatArray:
        """Return the set of the m labels with the largest entries of ŷ."""
        result = np.zeros(self.n_labels)
        result[np.argsort(-mean, kind="stable")[: self.size]] = 1.0
        return result

    def is_vertex(self, output: FloatArray) -> bool:
        return bool(np.isin(output, (0.0, 1.0)).all() and output.sum() == self.size)

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return θ/λ, shifted and clipped to [0, 1] so that it sums to m."""
        excess = scores / self.constants.strong_convexity
        # Entries that lie more than 1 above or below the m-th largest are 1 or 0 in the mean.
        near: FloatArray = np.clip(excess - np.sort(excess)[-self.size], -1.0, 1.0)
        mean: FloatArray = np.clip(near - _shift(near, self.size), 0.0, 1.0)
        return mean

    def random_vertex(self, mean: FloatArray, uniforms: FloatArray) -> FloatArray:
        """Draw a vertex by systematic sampling."""
        result, starts = np.zeros(self.n_labels), int(uniforms[0] * _UNIT) + np.arange(self.size) * _UNIT
        result[np.searchsorted(self._ends(mean), starts, side="right")] = 1.0
        return result

    def vertex_probability(self, mean: FloatArray, output: FloatArray) -> float:
        """Return the length of the interval of all u that select the vertex."""
        ends, members = self._ends(mean), np.flatnonzero(output)
        whole = np.arange(self.size) * _UNIT
        first = (np.append(0, ends)[members] - whole).max()
        last = (ends[members] - whole).min()
        return max(0, min(int(last), _UNIT) - max(int(first), 0)) / _UNIT

    def _ends(self, mean: FloatArray) -> IntArray:
        """Return the ends of the labels' intervals (D,), in multiples of 1/_UNIT; the last one is m."""
        lengths = np.rint(np.clip(mean, 0.0, 1.0) * _UNIT).astype(np.int64)
        missing = self.size * _UNIT - int(lengths.sum())
        free = np.flatnonzero((lengths > 0) & (lengths < _UNIT))
        if len(free):
            each, more = divmod(missing, len(free))
            lengths[free] += each
            lengths[free[:more]] += 1
        return np.cumsum(lengths)


def _shift(excess: FloatArray, size: int) -> float:
    """Return τ in [-1, 0] with Σ clip(e_i - τ, 0, 1) = m for entries in [-1, 1] whose m-th largest is 0.

    The sum falls as τ grows, linearly between the breakpoints e_i - 1 and e_i.
    """
    breaks = np.unique(np.clip(np.concatenate([excess - 1.0, excess, [-1.0, 0.0]]), -1.0, 0.0))
    above = np.sort(excess)[::-1]
    totals = np.append(0.0, np.cumsum(above))
    started, full = (np.searchsorted(-above, -at, side="left") for at in (breaks, breaks + 1.0))
    sums = (totals[started] - started * breaks) - (totals[full] - full * (breaks + 1.0))
    last = max(0, int(np.searchsorted(-sums, -float(size), side="right")) - 1)
    here, after = sums[last : last + 2]
    share = (here - size) / (here - after) if here > after else 0.0
    return float(breaks[last] + share * (breaks[last + 1] - breaks[last]))
