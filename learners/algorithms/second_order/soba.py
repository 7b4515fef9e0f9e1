"""SOBA: a second-order perceptron for bandit multiclass classification.

Alina Beygelzimer, Francesco Orabona, Chicheng Zhang, "Efficient Online Bandit Multiclass Learning with Õ(√T) Regret",
ICML 2017, Algorithm 1, Theorems 2, 4 and 5. Signs and constants follow the proofs where the statements differ, and
only accepted rounds count in the theorems' sums. Theorem 4 leaves its constants open; they follow from Theorem 2. A
hinge loss h is at most 1 + 2XM for M = max‖U_k‖, and the η-loss is (2(1 - η)h + ηh²)/(2 - η) ≤ h + 2ηXM h/(2 - η). With
G = d K² ln(1 + 2TX²/(a d K)), the excess over the hinge loss L is at most η(2XML + a‖U‖²) + G/(γη) + γT.

Let y be the served label, which was right, ȳ the highest-scoring other label, δ = s_ȳ - s_y the difference of their
scores and p the propensity. With u = (e_ȳ - e_y) ⊗ x, c = 1/p and q = c u'A⁻¹u, an accepted round performs
A⁻¹ -= c/(1+q) v v' and W -= c(1+δ)/(1+q) mat(v), where v = A⁻¹u: one product and one rank-one update. The state also
has A and θ, with A += c u u', which changes the blocks of two labels, and θ -= c u. Every 500 updates, A⁻¹ and W are
checked against A and θ (`learners.mathematics.inverse`).
"""

import math
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import pydantic

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds, State, StateT
from learners.hyperparameters import ExplorationRate, Horizon, Magnitude, check_horizon, hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, LabelVectors, NonNegativeScalar, Triangle, zero_state
from learners.learner import CompiledLearner, WithoutEvidence
from learners.mathematics.exploration import adaptive_rate, decide_greedily, leading_rival
from learners.mathematics.guarantees import AT_ONCE, counted, uncovered
from learners.mathematics.inverse import (
    CHECK_EVERY,
    add_blocks,
    check_conditioning,
    check_regularization,
    maintain,
    rebuild,
    upkeep_cost,
)
from learners.mathematics.linear_algebra import (
    add_to_label,
    densify,
    packed_blocks_quadratic,
    packed_identity,
    packed_rank_one,
    packed_sparse_blocks_quadratic,
    packed_times_blocks,
    score_row,
)

Exploration: TypeAlias = Annotated[
    Literal["anytime", "adaptive"] | ExplorationRate,
    pydantic.Field(
        description="γ, `anytime` for γ_t = min(1, sqrt(K/t)), or `adaptive` for Theorem 5's min(1, sqrt(K(1 + Q)/t)), "
        "which falls far more slowly."
    ),
]

TheoremExploration: TypeAlias = Annotated[
    Literal["anytime", "adaptive", "theorem"] | ExplorationRate,
    pydantic.Field(
        description="γ, `anytime` for γ_t = min(1, sqrt(K/t)), `adaptive` for Theorem 5's min(1, sqrt(K(1 + Q)/t)), "
        "which falls far more slowly, or `theorem` for the fixed γ that Theorem 2 tunes for the horizon."
    ),
]

ComparatorBound: TypeAlias = Annotated[
    Magnitude,
    pydantic.Field(
        description="B: exploration `theorem` takes the largest η that Theorem 2 allows for any U with norm at most B."
    ),
]

_ANYTIME, _ADAPTIVE = -1.0, 0.0  # encode the schedules in the kernels, where a fixed γ is positive


def exploration_code(exploration: Exploration) -> float:
    """Return γ, or the number that encodes a schedule in the kernels."""
    if isinstance(exploration, str):
        return _ANYTIME if exploration == "anytime" else _ADAPTIVE
    return exploration


@compiled
def exploration_rate(code: float, n_labels: int, quadratic_sum: FloatArray, rounds: IntArray) -> float:
    """Return γ for the next decision: the fixed one, or Theorem 5's with the state's Q, or with Q = 0 if `anytime`."""
    if code > 0.0:
        return code
    return adaptive_rate(n_labels, quadratic_sum.item() if code == _ADAPTIVE else 0.0, rounds.item())


_LOSS = (
    "Expected mistakes exceed the η-loss of any U, an interpolation of hinge and squared hinge, for every "
    "0 < η ≤ min(1, 2/(2X max‖U_k‖ + 1)), by at most"
)
_SOURCE = "Beygelzimer, Orabona and Zhang 2017"


Regularization: TypeAlias = Annotated[
    Magnitude, pydantic.Field(description="a > 0: A starts as a·I. Theorem 5 uses X²; the paper's experiments use 1.")
]

_LARGEST_DELTA = 1e60  # never exceeded with an exact A⁻¹
_SOONEST = 50  # minimum updates between a check and an early rebuild of A⁻¹, when q or δ shows lost precision


class SobaState(NamedTuple):
    """The state of SOBA; the rows of A and A⁻¹ are ordered by label, then feature."""

    inverse: Triangle  # A⁻¹, n by n for n = K·d, a packed lower triangle
    weights: LabelVectors  # W = mat(A⁻¹ θ)
    margin_sum: NonNegativeScalar  # Σ, the sum of m (`margin_gain`) over accepted rounds
    quadratic_sum: NonNegativeScalar  # Q, the sum of q / (1 + q) over accepted rounds
    rounds: Count  # rounds folded so far, t - 1
    updates: Count  # rounds accepted so far
    matrix: Triangle  # A, packed like A⁻¹
    theta: LabelVectors  # θ
    unchecked: Count  # updates since the last check of A⁻¹


class Parameters(NamedTuple):
    """The hyperparameters, encoded for the kernels."""

    exploration: float
    regularization: float


@hyperparameters
class ExactSoba(WithoutEvidence, CompiledLearner[StateT]):
    """The base class of the SOBA learners that use the exact A, in any representation."""

    labels_grow: ClassVar[bool] = True
    linear = True

    regularization: Regularization = 1.0
    exploration: TheoremExploration = "anytime"
    horizon: Annotated[Horizon, pydantic.Field(description="The number of rounds T, for exploration `theorem`.")] = None
    comparator_bound: ComparatorBound = 1.0

    def __post_init__(self) -> None:
        check_horizon(self.horizon, self.exploration)
        check_regularization(self.regularization, self.problem)

    @property
    def parameters(self) -> Parameters:
        """The hyperparameters, encoded for the kernels."""
        return Parameters(exploration_code(self.rate), self.regularization)

    @property
    def rate(self) -> Literal["anytime", "adaptive"] | float:
        """γ, or the name of its schedule; for exploration `theorem`, the γ that Theorem 2 tunes for the horizon."""
        if self.exploration != "theorem":
            return self.exploration
        assert self.horizon is not None
        eta = self.eta
        return min(1.0, math.sqrt(self.growth(self.horizon) / (eta * (2.0 - eta) * self.horizon)))

    @property
    def eta(self) -> float:
        """The largest η of Theorem 2 for comparators of norm at most B."""
        return min(1.0, 2.0 / (2.0 * self.comparator_bound * self.problem.norm_bound + 1.0))

    def growth(self, rounds: int) -> float:
        """Return G = d K² ln(1 + 2TX²/(a d K)) of Theorem 2 after T rounds."""
        K, d, X = self.problem.n_labels, self.problem.n_features, self.problem.norm_bound
        return d * K**2 * math.log1p(2.0 * rounds * X**2 / (self.regularization * d * K))

    @property
    def guarantee(self) -> str:
        a, X = self.regularization, self.problem.norm_bound
        if not isinstance(self.rate, str):
            return self._with_fixed_rate(self.rate)
        if self.exploration == "anytime":
            covered = "a fixed exploration, or adaptive with a regularization of X²"
            return uncovered("exploration √(K/t) has no analysis", covered)
        if not math.isclose(a, X**2):
            reason = "adaptive exploration is analysed only with a regularization of X²"
            return uncovered(reason, "a regularization of X², or a fixed exploration")
        return f"{_LOSS} Õ(K √(d T)/η) after T rounds, for any T ({_SOURCE}, Theorem 5). {AT_ONCE}"

    def _with_fixed_rate(self, gamma: float) -> str:
        rounds, number = "T rounds", ""
        if self.horizon is not None:
            rounds = f"T = {self.horizon:,} rounds"
            bound = self.regret_bound(self.horizon, gamma, self.eta)
            number = f" For ‖U‖ ≤ {self.comparator_bound:g} and η = {self.eta:.4g}, this is at most {counted(bound)}."
        return (
            f"{_LOSS} a η‖U‖²/(2 - η) + G/(γ η (2 - η)) + γT after {rounds}, where G = d K² ln(1 + 2TX²/(a d K)), γ = "
            f"{gamma:.4g} and a = {self.regularization:g} ({_SOURCE}, Theorem 2).{number} They exceed the hinge loss L "
            "of any U, for every such η, by at most η (2XL max‖U_k‖ + a‖U‖²) + G/(γη) + γT (the proof of Theorem 4). "
            f"{AT_ONCE}"
        )

    def regret_bound(self, rounds: int, gamma: float, eta: float) -> float:
        """Return Theorem 2's bound on expected mistakes minus η-loss, against any U with ‖U‖ ≤ B, at a fixed γ."""
        paid = self.regularization * eta * self.comparator_bound**2 / (2.0 - eta)
        return paid + self.growth(rounds) / (gamma * eta * (2.0 - eta)) + gamma * rounds

    def check_new(self) -> None:
        anytime = min(1.0, math.sqrt(self.problem.n_labels / 1e6))  # γ of `anytime` after a million rounds
        gamma = anytime if isinstance(self.rate, str) else self.rate
        check_conditioning(self.problem, self.regularization, gamma / self.problem.n_labels)


@hyperparameters
class Soba(ExactSoba[SobaState]):
    """SOBA with its full matrix: O((K·d)²) time per accepted update and (K·d)² numbers of memory.

    Half of the memory is for A. A prediction takes O(K·nnz), a refused round O(K·nnz + nnz²). Answers with the
    highest-scoring label, with a share γ of uniform exploration. Updates only on correct answers, and only if the
    running sum of m (`margin_gain`) stays non-negative. Late feedback updates the current matrix with the stored
    propensity, as Lemma 2 requires.
    """

    algorithm = "soba"
    smaller = "soba-low-rank"
    state_type = SobaState

    def fold_cost(self, _: int) -> int:
        n = self.problem.n_labels * self.problem.n_features
        return n * n // 2 + 2 * self.problem.n_features * n + upkeep_cost(n)

    @property
    def kernels(self) -> Kernels:
        return Kernels(self.parameters, decide, _fold)

    def init(self) -> SobaState:
        state: SobaState = zero_state(self)
        n = self.problem.n_labels * self.problem.n_features
        packed_identity(state.inverse, 1.0 / self.regularization, n)
        packed_identity(state.matrix, self.regularization, n)
        return state


class _Room(NamedTuple):
    x: FloatArray  # (d,)
    s: FloatArray  # (K,)
    v: FloatArray  # (n,)


@compiled
def decide(
    parameters: Parameters,
    state: State,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    _: FloatArray,
) -> None:
    """Write the leader's distribution with a share γ of uniform exploration, for any learner of the SOBA family."""
    rate = exploration_rate(parameters.exploration, distributions.shape[1], state.quadratic_sum, state.rounds)
    decide_greedily(state.weights, rate, contexts, eligible, distributions)


@compiled
def margin_gain(weight: float, delta: float, q: float) -> float:
    """Return m = (c δ² + 2 c δ) / (1 + q), which an accepted round adds to Σ; c is `weight`."""
    return (weight * delta * delta + 2.0 * weight * delta) / (1.0 + q)


@compiled
def _fold(parameters: Parameters, state: SobaState, rounds: Rounds) -> None:
    d, K = state.weights.shape
    room = _Room(np.empty(d), np.empty(K), np.empty(K * d))
    for t in range(len(rounds.labels)):
        if rounds.correct[t]:
            _update(parameters.regularization, state, rounds, t, room)
        state.rounds[()] += 1


@compiled
def _update(a: float, state: SobaState, rounds: Rounds, t: int, room: _Room) -> None:
    contexts, y, c = rounds.contexts, rounds.labels[t], 1.0 / rounds.propensities[t]
    rival, delta, q = _weigh(state, rounds, t, c, room.s)
    if rival < 0:
        return
    if not (q >= 0.0 and abs(delta) <= _LARGEST_DELTA):  # A⁻¹ has lost its precision
        state.unchecked[()] += 1
        if state.unchecked.item() < _SOONEST:
            return
        _keep_up(state, a, True)
        rival, delta, q = _weigh(state, rounds, t, c, room.s)
        if not (q >= 0.0 and abs(delta) <= _LARGEST_DELTA):
            return
    m = margin_gain(c, delta, q)
    if state.margin_sum.item() + m < 0.0:
        return
    _learn(state, contexts, t, y, rival, c, delta, q, room)
    state.margin_sum[()] += m
    state.quadratic_sum[()] += q / (1.0 + q)
    state.updates[()] += 1
    state.unchecked[()] += 1
    if state.unchecked.item() >= CHECK_EVERY:
        _keep_up(state, a, False)


@compiled
def _weigh(state: SobaState, rounds: Rounds, t: int, c: float, s: FloatArray) -> tuple[int, float, float]:
    """Return ȳ, δ and q; ȳ is -1 if no other label was eligible."""
    contexts, y = rounds.contexts, rounds.labels[t]
    indices, values = row(contexts, t)
    score_row(state.weights, contexts, t, s)
    rival = leading_rival(rounds.eligible, t, s, y)
    if rival < 0:
        return rival, 0.0, 0.0
    low, high = min(rival, y), max(rival, y)
    if contexts.shared:
        q = c * packed_blocks_quadratic(state.inverse, values, low, high)
    else:
        q = c * packed_sparse_blocks_quadratic(state.inverse, len(state.weights), indices, values, low, high)
    return rival, s[rival] - s[y], q


@compiled
def _learn(
    state: SobaState, contexts: Contexts, t: int, y: int, rival: int, c: float, delta: float, q: float, room: _Room
) -> None:
    """Add c u u' to A; update A⁻¹, θ and W = mat(A⁻¹θ)."""
    indices, values = row(contexts, t)
    low, high = min(rival, y), max(rival, y)
    densify(contexts, t, room.x)
    packed_times_blocks(state.inverse, room.x, low, high, 1.0 if rival < y else -1.0, room.v)
    packed_rank_one(state.inverse, room.v, -c / (1.0 + q))
    _subtract(state.weights, room.v, c * (1.0 + delta) / (1.0 + q))
    add_blocks(state.matrix, len(room.x), indices, values, low, high, c)
    add_to_label(state.theta, rival, -c, indices, values)
    add_to_label(state.theta, y, c, indices, values)


@compiled
def _keep_up(state: SobaState, a: float, rebuilding: bool) -> None:
    """Check A⁻¹ and W against A and θ, and recompute them if they drifted; if `rebuilding`, always recompute them."""
    d, K = state.weights.shape
    theta, w = np.ascontiguousarray(state.theta.T).ravel(), np.ascontiguousarray(state.weights.T).ravel()
    if rebuilding:
        rebuild(state.matrix, theta, a, state.inverse, w)
    else:
        maintain(state.matrix, theta, a, state.inverse, w)
    state.weights[:] = w.reshape(K, d).T
    state.unchecked[()] = 0


@compiled
def _subtract(weights: FloatArray, v: FloatArray, factor: float) -> None:
    d, K = weights.shape
    for i in range(d):
        for k in range(K):
            weights[i, k] -= factor * v[k * d + i]
