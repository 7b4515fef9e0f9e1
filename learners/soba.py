"""SOBA: a second-order perceptron for bandit multiclass classification.

Alina Beygelzimer, Francesco Orabona, Chicheng Zhang, "Efficient Online Bandit Multiclass Learning with
Õ(√T) Regret", ICML 2017, Algorithm 1, Theorems 2 and 5. Signs and constants as corrected in the proofs:
only accepted rounds count in the sums of Theorems 2, 4 and 5.

The matrix A is never formed. With u = (e_ȳ - e_y) ⊗ x, c = 1/p and q = c u'A⁻¹u, an accepted round does
A⁻¹ -= c/(1+q) v v' and W -= c(1+δ)/(1+q) mat(v), where v = A⁻¹u: one product and one rank-one update.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pydantic

from learners.base import (
    Contexts,
    Count,
    FloatArray,
    IntArray,
    Layout,
    NonNegativeScalar,
    Problem,
    Rounds,
    hyperparameters,
    zero_state,
)
from learners.compiled_learner import CompiledLearner
from learners.exploration import adaptive_rate, decide_greedily, leader_except
from learners.kernels import Kernels, compiled, row
from learners.linear_algebra import (
    densify,
    packed_blocks_quadratic,
    packed_identity,
    packed_rank_one,
    packed_sparse_blocks_quadratic,
    packed_times_blocks,
    score,
)
from learners.soba_guarantee import soba_guarantee

_LEAST_RELATIVE_REGULARIZATION = 1e-9  # a / X²; the inverse is exact to about 1e-16 X² K / (γ a)

Exploration = Literal["anytime", "adaptive"] | Annotated[float, pydantic.Field(ge=1e-6, le=1)]

_ANYTIME, _ADAPTIVE = -1.0, 0.0  # stand for γ in the kernels where it is no fixed number


class SobaState(NamedTuple):
    """Everything SOBA remembers; A⁻¹ has its rows ordered by label, then feature."""

    inverse: Annotated[FloatArray, Layout("float64", ("P",))]  # A⁻¹, n by n, a packed lower triangle
    weights: Annotated[FloatArray, Layout("float64", ("d", "K"))]  # W = mat(A⁻¹ θ)
    margin_sum: NonNegativeScalar  # Σ, the sum of m over accepted rounds, never negative
    quadratic_sum: NonNegativeScalar  # Q, the sum of z'A_t⁻¹z = q / (1 + q) over accepted rounds
    rounds: Count  # rounds folded so far, t - 1
    updates: Count  # rounds accepted so far


@hyperparameters
class Soba(CompiledLearner[SobaState]):
    """SOBA with its full matrix: O((K·d)²) time per accepted update and (K·d)² / 2 numbers of memory.

    A prediction takes O(K·nnz) and a refused round O(nnz²), nnz being the non-zeros of a sparse context.

    Answers the leader of the scores, with a share γ of uniform exploration. Updates on correct answers
    only, and only where the running sum of m stays non-negative. Late feedback is applied to the present
    matrix with the stored propensity, as Lemma 2 requires.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range.
    """

    algorithm: ClassVar[str] = "soba"
    smaller: ClassVar[str] = "soba-low-rank"
    state_type: ClassVar[type[Any]] = SobaState

    problem: Problem
    regularization: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] = 1.0
    """a > 0, A starts as a·I; X² in the theorems, 1 in the paper's experiments."""
    exploration: Exploration = "anytime"
    """γ, `anytime` for γ_t = min(1, sqrt(K/t)), or `adaptive` for Theorem 5's min(1, sqrt(K(1 + Q)/t)), far slower."""

    def __post_init__(self) -> None:
        """Refuses a matrix whose inverse would lose its digits."""
        check_regularization(self.regularization, self.problem)

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        return soba_guarantee(self.exploration, self.regularization, self.problem)

    @property
    def evidence_size(self) -> int:
        """Nothing: the update needs the present matrix."""
        return 0

    @property
    def fold_cost(self) -> int:
        """A rank-one update of the packed triangle and the product before it."""
        n = self.problem.n_labels * self.problem.n_features
        return n * n // 2 + 2 * self.problem.n_features * n

    @property
    def kernels(self) -> Kernels:
        """Answers (1 - γ) e_ŷ + (γ/K) 1; learns from the correct rounds that pass the margin test."""
        return Kernels((exploration_code(self.exploration),), _decide, _fold)

    def init(self) -> SobaState:
        """A = a·I, W = 0."""
        state: SobaState = zero_state(self)
        n = self.problem.n_labels * self.problem.n_features
        packed_identity(state.inverse, 1.0 / self.regularization, n)
        return state


def check_regularization(regularization: float, problem: Problem) -> None:
    """Refuses an a so small that A⁻¹ would lose its digits.

    Raises:
        ValueError: for one below 1e-9 X².
    """
    if regularization < _LEAST_RELATIVE_REGULARIZATION * problem.norm_bound**2:
        raise ValueError("regularization must be at least 1e-9 times the squared norm bound of the contexts")


def exploration_code(exploration: Exploration) -> float:
    """γ, or what stands for a schedule in the kernels."""
    if isinstance(exploration, str):
        return _ANYTIME if exploration == "anytime" else _ADAPTIVE
    return exploration


@compiled
def exploration_rate(code: float, n_labels: int, quadratic_sum: FloatArray, rounds: IntArray) -> float:
    """γ for the next decision: the fixed one, Theorem 5's from the state's sums, or the same as if those were zero."""
    if code > 0.0:
        return code
    return adaptive_rate(n_labels, quadratic_sum.item() if code == _ADAPTIVE else 0.0, rounds.item())


@compiled
def _decide(
    parameters: tuple[float], state: SobaState, contexts: Contexts, distributions: FloatArray, _: FloatArray
) -> None:
    rate = exploration_rate(parameters[0], distributions.shape[1], state.quadratic_sum, state.rounds)
    decide_greedily(state.weights, rate, contexts, distributions)


@compiled
def margin_gain(weight: float, delta: float, q: float) -> float:
    """The gain m = (c δ² + 2 c δ) / (1 + q): what an accepted round adds to Σ."""
    return (weight * delta * delta + 2.0 * weight * delta) / (1.0 + q)


@compiled
def _fold(_: tuple[float], state: SobaState, rounds: Rounds) -> None:
    d, K = state.weights.shape
    x, s, v = np.empty(d), np.empty(K), np.empty(K * d)
    for t in range(len(rounds.labels)):
        if rounds.correct[t]:
            _update(state, rounds.contexts, t, rounds.labels[t], 1.0 / rounds.propensities[t], x, s, v)
        state.rounds[()] += 1


@compiled
def _update(
    state: SobaState, contexts: Contexts, t: int, y: int, c: float, x: FloatArray, s: FloatArray, v: FloatArray
) -> None:
    indices, values = row(contexts, t)
    s[:] = 0.0
    score(state.weights, indices, values, s)
    rival = leader_except(s, y)
    low, high = min(rival, y), max(rival, y)
    delta = s[rival] - s[y]
    if contexts.shared:
        q = c * packed_blocks_quadratic(state.inverse, values, low, high)
    else:
        q = c * packed_sparse_blocks_quadratic(state.inverse, len(x), indices, values, low, high)
    m = margin_gain(c, delta, q)
    if state.margin_sum.item() + m < 0.0:
        return
    densify(contexts, t, x)
    packed_times_blocks(state.inverse, x, low, high, 1.0 if rival < y else -1.0, v)
    packed_rank_one(state.inverse, v, -c / (1.0 + q))
    _subtract(state.weights, v, c * (1.0 + delta) / (1.0 + q))
    state.margin_sum[()] += m
    state.quadratic_sum[()] += q / (1.0 + q)
    state.updates[()] += 1


@compiled
def _subtract(weights: FloatArray, v: FloatArray, factor: float) -> None:
    d, K = weights.shape
    for i in range(d):
        for k in range(K):
            weights[i, k] -= factor * v[k * d + i]
