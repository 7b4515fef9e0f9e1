"""Label sets given as a list, with the regularizer (λ/2)‖y‖² or with that of a conditional random field."""

import math
from functools import cached_property
from typing import Annotated

import numpy as np
import pydantic

from learners.base import BoolArray, FloatArray
from learners.hyperparameters import Magnitude, hyperparameters
from learners.kernels import compiled
from learners.mathematics.exploration import softmax
from learners.mathematics.linear_algebra import score
from learners.output_spaces.base import Constants
from learners.output_spaces.polytope import Polytope, steepness

MOST_SETS, MOST_DIGITS = 10_000, 1_000_000
_ROWS = 32  # the number of vectors compared with all others at once

Sets = Annotated[
    tuple[Annotated[str, pydantic.Field(pattern="^[01]*$")], ...],
    pydantic.Field(min_length=2, max_length=MOST_SETS, strict=False),
]
"""Different sets, each with one digit per label: 1 for a label in the set, 0 for the others."""


@hyperparameters
class Listed(Polytope):
    """Outputs are N listed vectors of D zeros and ones, with the Hamming loss / D and the regularizer (λ/2)‖y‖².

    Norm ℓ2; ν and the diameter are the least and greatest distances between two vectors. Let c be the number of
    coordinates that are not the same in all vectors. Then γ = √c/D, or 2√(m(c - m)/c)/D if every vector has exactly m
    ones among these coordinates.
    """

    name = "listed"
    sets: Sets
    """The vectors, as strings of digits."""
    regularization: Magnitude | None = None
    """λ of the regularizer (λ/2)‖y‖², greater than 4γ/ν; `null` for twice that."""

    def __post_init__(self) -> None:
        fault = fault_of(self.sets, len(self.sets[0]))
        if fault is not None:
            raise ValueError(fault)
        super().__post_init__()

    @property
    def dimension(self) -> int:
        return len(self.sets[0])

    @property
    def draw_cost(self) -> int:
        """The cost of two projections. Each takes about a step per vertex of the mean, at most min(N, D + 1)."""
        N, D = len(self.sets), self.dimension
        most = min(N, D + 1)
        return 2 * most * (N * D + most**2 * (D + most) // 8)

    @cached_property
    def constants(self) -> Constants:
        gamma = self._steepness
        least, greatest = np.sqrt(self.hamming_distances)
        strong_convexity = 8.0 * gamma / least if self.regularization is None else self.regularization
        return Constants(gamma, float(least), float(strong_convexity), 1.0, float(greatest))

    @cached_property
    def vertices(self) -> BoolArray:
        """The vectors (N, D)."""
        digits = np.frombuffer("".join(self.sets).encode(), np.uint8)
        return np.asarray(digits == ord("1")).reshape(len(self.sets), self.dimension)

    @cached_property
    def _columns(self) -> FloatArray:
        return np.ascontiguousarray(self.vertices.T, dtype=np.float64)

    @property
    def _steepness(self) -> float:
        free = self.vertices.any(axis=0) & ~self.vertices.all(axis=0)
        sizes = np.unique(self.vertices[:, free].sum(axis=1))
        return steepness(int(free.sum()), int(sizes[0]) if len(sizes) == 1 else None, self.dimension)

    @cached_property
    def hamming_distances(self) -> tuple[int, int]:
        """The least and the greatest number of coordinates in which two vectors differ."""
        packed = np.packbits(self.vertices, axis=1)
        words = np.ascontiguousarray(np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64).T)
        least, greatest = self.dimension, 0
        for start in range(0, len(self.sets), _ROWS):
            rows, others = words[:, start : start + _ROWS, np.newaxis], words[:, np.newaxis, start:]
            counts = np.zeros((rows.shape[1], others.shape[2]), np.int32)
            for some, more in zip(rows, others, strict=True):
                counts += np.bitwise_count(some ^ more)
            greatest = max(greatest, int(counts.max()))
            np.fill_diagonal(counts, self.dimension)  # a vector's distance from itself does not count
            least = min(least, int(counts.min()))
        return least, greatest

    def oracle(self, costs: FloatArray) -> FloatArray:
        """Return the listed vector of least cost, the first one of a tie."""
        return self._columns[:, int(np.argmin(self.products(costs)))].copy()

    def products(self, vector: FloatArray) -> FloatArray:
        """Return ⟨v, y⟩ for each of the N vectors y, without BLAS, whose order of summation may vary."""
        result = np.zeros(len(self.sets))
        score(self._columns, np.arange(self.dimension), vector, result)
        return result


@hyperparameters
class Crf(Listed):
    """The outputs and the target loss of `Listed`; the surrogate is that of a conditional random field.

    The surrogate is -ρ ln p(y), where p(y) ∝ exp(⟨θ, y⟩/ρ). The regularizer of a point is ρ times the least negative
    entropy of a distribution over the list with this mean. So ŷ is the mean of p, and ỹ is drawn from p (Sakaue et al.
    2024, Appendix B). Norm ℓ1, γ = 1/D, ν is the least distance between two vectors, κ = 1. λ = 4ρ/diameter²: the
    second derivative of ln Σ exp⟨θ, y⟩ in a direction u is the variance of ⟨u, y⟩, and a variance is at most a quarter
    of the squared length of the interval of its values, here ‖u‖_∞ times the diameter.
    """

    norm_order = 1
    name = "crf"
    regularization: Magnitude | None = None
    """ρ, greater than γ diameter²/ν; `null` for twice that."""

    @property
    def mean_size(self) -> int:
        """2D: ŷ, then θ."""
        return 2 * self.dimension

    @property
    def draw_cost(self) -> int:
        return 4 * len(self.sets) * (self.dimension + 10)

    @property
    def weight(self) -> float:
        """ρ."""
        least, greatest = self.hamming_distances
        return 2.0 * greatest**2 / (self.dimension * least) if self.regularization is None else self.regularization

    @cached_property
    def constants(self) -> Constants:
        least, greatest = map(float, self.hamming_distances)
        return Constants(1.0 / self.dimension, least, 4.0 * self.weight / greatest**2, 1.0, greatest)

    def decode(self, scores: FloatArray) -> FloatArray:
        """Return the mean of the law, followed by the scores."""
        result = np.concatenate([np.zeros(self.dimension), scores])
        _expect(self._law_of(scores), self.vertices, result)
        return result

    def law(self, mean: FloatArray) -> tuple[FloatArray, BoolArray]:
        return self._law_of(mean[self.dimension :]), self.vertices

    def surrogate(self, scores: FloatArray, truth: FloatArray) -> float:
        """Return ρ ln Σ exp(⟨θ, y'⟩/ρ) - ⟨θ, y⟩."""
        ahead = (self.products(scores) - scores @ truth) / self.weight
        top = float(ahead.max())
        return self.weight * max(0.0, top + math.log(float(np.exp(ahead - top).sum())))

    def _law_of(self, scores: FloatArray) -> FloatArray:
        result = np.empty(len(self.sets))
        softmax(self.products(scores) / self.weight, result)
        return result


@compiled
def _expect(probabilities: FloatArray, vertices: BoolArray, mean: FloatArray) -> None:
    """Add the mean of a law over N vertices (N, D) to the first D numbers of mean."""
    for i in range(len(probabilities)):
        for j in range(vertices.shape[1]):
            if vertices[i, j]:
                mean[j] += probabilities[i]


def fault_of(sets: tuple[str, ...], n_labels: int) -> str | None:
    """Return what is wrong with listed sets of n_labels digits each, or None."""
    if len(sets) * n_labels > MOST_DIGITS:
        return f"got {len(sets)} sets of {n_labels} digits; must have at most {MOST_DIGITS:,} digits in all"
    if (wrong := next((i for i, each in enumerate(sets) if len(each) != n_labels), None)) is not None:
        return f"set {wrong} has {len(sets[wrong])} digits; must have one for each of the {n_labels} labels"
    first = {each: i for i, each in reversed(list(enumerate(sets)))}
    if (twice := next((i for i, each in enumerate(sets) if first[each] < i), None)) is not None:
        return f"set {twice} is the same as set {first[sets[twice]]}; must be unique"
    return None
