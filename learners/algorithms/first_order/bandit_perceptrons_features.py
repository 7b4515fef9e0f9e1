"""Bandit perceptrons on the rational kernel's feature map, for few features and data that are not linearly separable.

Beygelzimer, Pál, Szörényi, Thiruvenkatachari, Wei, Zhang, "Bandit Multiclass Linear Classification: Efficient
Algorithms for the Separable Case", ICML 2019, Algorithm 2. The kernel is the power series 1 / (1 - ⟨x, x'⟩/2) =
Σ_n 2⁻ⁿ ⟨x, x'⟩ⁿ = Σ_α 2^-|α| (|α|! / α!) x^α x'^α, so the monomials √(2^-|α| |α|! / α!) x^α are its feature map. The
C(d + D, D) monomials with |α| ≤ D reproduce the kernel with an error of at most 2^-D on the unit ball.
"""

import functools
import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.algorithms.first_order.bandit_perceptrons import claim, corrections
from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds
from learners.hyperparameters import hyperparameters, refusal
from learners.kernels import Kernels, compiled
from learners.layouts import Count, Layout
from learners.learner import CompiledLearner
from learners.mathematics.guarantees import strong_margin
from learners.mathematics.linear_algebra import add_outer, densify, score, squared_norm

_EXACT = 40  # at this degree, the kernel's error is at most 2⁻⁴⁰ < 10⁻¹²
_DEFAULT_FEATURES, _MOST_FEATURES = 20_000, 1_000_000


class BanditPerceptronsFeaturesState(NamedTuple):
    """One weight vector per label, over the monomials."""

    weights: Annotated[FloatArray, Layout("float64", ("features", "K"))]  # one column per label
    rounds: Count  # rounds folded so far
    updates: Count  # corrections of binary perceptrons so far, over all labels


@hyperparameters
class BanditPerceptronsFeatures(CompiledLearner[BanditPerceptronsFeaturesState]):
    """Bandit perceptrons over the monomials of a context, for few features and data that are not linearly separable.

    At degree 40, it answers like `bandit-perceptrons-kernel` with the rational kernel and unlimited support, up to
    rounding. Its time and memory do not grow with the number of rounds. A lower degree D replaces the kernel by the
    first terms of its power series, with an error of at most 2^-D. Raises `pydantic.ValidationError` if a
    hyperparameter is out of range, if the norm bound is not 1, or if the degree gives more than a million monomials.
    """

    algorithm = "bandit-perceptrons-features"
    smaller = "a lower degree"
    labels_grow: ClassVar[bool] = True
    state_type = BanditPerceptronsFeaturesState
    evidence_size = 1  # whether no label claimed the context

    degree: Annotated[int, pydantic.Field(ge=1, le=_EXACT)] | None = None
    """D, the largest degree of a monomial. By default 40, or as large as 20,000 monomials permit."""
    use_known_label: bool = False
    """Whether a right answer, which reveals the true label, corrects all perceptrons. Algorithm 1 does not do so, the
    authors' code does, and the guarantee covers both.
    """

    def __post_init__(self) -> None:
        if self.problem.norm_bound != 1.0:
            raise ValueError("the rational kernel is defined on the unit ball: scale contexts to a norm bound of 1")
        d = self.problem.n_features
        if self.features > _MOST_FEATURES:
            advice = f"use at most {_largest_degree(d, _MOST_FEATURES)}" if d < _MOST_FEATURES else "use fewer features"
            monomials = f"{d:,} features have more than {_MOST_FEATURES:,} monomials of at most this degree"
            raise refusal("degree", f"{monomials}; {advice}")

    @property
    def highest(self) -> int:
        """D, the degree in use."""
        return self.degree or _largest_degree(self.problem.n_features, _DEFAULT_FEATURES)

    @property
    def features(self) -> int:
        """The number of monomials, C(d + D, D)."""
        return math.comb(self.problem.n_features + self.highest, self.highest)

    @property
    def guarantee(self) -> str:
        return strong_margin(
            f", in the space of the monomials of degree at most {self.highest} with R² = 2 (Beygelzimer et al. 2019, "
            f"Algorithm 2; the kernel's error is at most 2^-{self.highest})",
            "‖x‖ ≤ 1",
        )

    def decide_cost(self, _: int) -> int:
        return self.features * (self.problem.n_labels + 4)

    def fold_cost(self, _: int) -> int:
        return 2 * self.features * (self.problem.n_labels + 2)

    @property
    def kernels(self) -> Kernels:
        return Kernels(_Parameters(self.use_known_label, self.highest, self.problem.n_features), _decide, _fold)


@functools.cache
def _largest_degree(d: int, most: int) -> int:
    """Return the largest degree, up to 40, with at most `most` monomials in d variables; 1 if there is none."""
    return max((n for n in range(2, _EXACT + 1) if math.comb(d + n, n) <= most), default=1)


class _Parameters(NamedTuple):
    known: bool
    degree: int
    n_features: int  # d


class _Scratch(NamedTuple):
    dense: FloatArray  # (d,)
    roots: FloatArray  # (D + 1,): 1/√n at index n, and 1 at index 0
    exponents: IntArray  # (features,): the exponent of each monomial's last variable
    indices: IntArray  # (features,): 0, 1, 2, …
    result: FloatArray  # (features,), the monomials


@compiled
def _scratch(parameters: _Parameters, features: int) -> _Scratch:
    roots = 1.0 / np.sqrt(np.maximum(1.0, np.arange(parameters.degree + 1)))
    exponents, indices = np.empty(features, np.int64), np.arange(features)
    return _Scratch(np.empty(parameters.n_features), roots, exponents, indices, np.empty(features))


@compiled
def _decide(
    parameters: _Parameters,
    state: BanditPerceptronsFeaturesState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    s, scratch = np.empty(state.weights.shape[1]), _scratch(parameters, len(state.weights))
    for i in range(len(distributions)):
        _score_monomials(state.weights, contexts, i, scratch, s)
        evidence[i, 0] = claim(eligible, i, s, distributions[i])


@compiled
def _score_monomials(weights: FloatArray, contexts: Contexts, i: int, scratch: _Scratch, s: FloatArray) -> None:
    densify(contexts, i, scratch.dense)
    expand(scratch.dense, scratch.roots, scratch.exponents, scratch.result)
    s[:] = 0.0
    score(weights, scratch.indices, scratch.result, s)


@compiled
def expand(x: FloatArray, roots: FloatArray, exponents: IntArray, result: FloatArray) -> None:
    """Write the monomials √(2^-|α| |α|! / α!) x^α with |α| ≤ D to result; if ‖x‖ > 1, of x / ‖x‖ instead.

    Monomials are sorted by degree, then by their last variable. So the monomials of one degree in the variables 0 … i
    precede the other monomials of that degree. Multiplied by x_i, they are the monomials of the next degree with last
    variable i. `roots` (D + 1,) contains 1/√n at index n; `exponents` (C(d + D, D),) receives the exponent of each
    monomial's last variable.
    """
    scale = 1.0 / math.sqrt(max(1.0, squared_norm(x)))
    result[0], exponents[0] = 1.0, 0
    start, end = 0, 1
    for n in range(1, len(roots)):
        place, before, count = end, 0, 1
        for i in range(len(x)):
            if i > 0:
                count = count * (n - 1 + i) // i  # C(n - 1 + i, i) monomials have degree n - 1 in the variables 0 … i
            factor = scale * x[i] * math.sqrt(0.5 * n)
            for j in range(count):
                exponent = exponents[start + j] + 1 if j >= before else 1  # from `before` on, x_i is a factor
                exponents[place] = exponent
                result[place] = factor * roots[exponent] * result[start + j]
                place += 1
            before = count
        start, end = end, place


@compiled
def _fold(parameters: _Parameters, state: BanditPerceptronsFeaturesState, rounds: Rounds) -> None:
    K = state.weights.shape[1]
    s, coefficients, scratch = np.empty(K), np.empty(K), _scratch(parameters, len(state.weights))
    for t in range(len(rounds.labels)):
        _score_monomials(state.weights, rounds.contexts, t, scratch, s)
        updates = corrections(parameters.known, s, rounds, t, coefficients)
        if updates > 0:
            add_outer(state.weights, coefficients, scratch.indices, scratch.result)
            state.updates[()] += updates
        state.rounds[()] += 1
