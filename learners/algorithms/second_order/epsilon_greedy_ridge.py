"""ε-greedy over one-vs-rest ridge regression: the standard control.

For each label, the reward (1 right, 0 wrong) is regressed on the contexts in which the label was served. The label
with the highest prediction is answered; a share ε of uniform exploration keeps every label sampled.
Hoerl and Kennard 1970 for ridge regression; Sherman and Morrison 1950 for updating the inverse. The rate
ε_t = min(1, (K/t)^(1/3)) of `theorem` is that of epoch-greedy (Langford and Zhang, NIPS 2007).
"""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds
from learners.checked_learner import WithoutEvidence
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import LeastExploration, Magnitude, TheoremExploration, hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, LabelVectors, Layout, zero_state
from learners.mathematics.ball import packed_product
from learners.mathematics.exploration import Schedule, decide_greedily, scheduled, scheduled_rate
from learners.mathematics.guarantees import no_recovery, uncovered
from learners.mathematics.inverse import (
    CHECK_EVERY,
    add_square,
    check_conditioning,
    check_regularization,
    maintain,
    rebuild,
    upkeep_cost,
)
from learners.mathematics.linear_algebra import packed_identity, packed_rank_one

_LARGEST_PREDICTION = 1e60  # never exceeded with an exact inverse
_SOONEST = 50  # minimum updates between a check and an early rebuild of an inverse that lost precision


class EpsilonGreedyRidgeState(NamedTuple):
    """For each label, the inverse of a·I + Σ xx' over the rounds that served it, and its regression."""

    inverses: Annotated[FloatArray, Layout("float64", ("K", "p"))]  # packed lower triangles, d by d
    weights: LabelVectors
    rounds: Count  # rounds folded so far, t - 1
    matrices: Annotated[FloatArray, Layout("float64", ("K", "p"))]  # a·I + Σ xx', packed like the inverses
    targets: LabelVectors  # Σ reward · x
    unchecked: Annotated[IntArray, Layout("int64", ("K",), least=0.0)]  # updates since the last check of each inverse


@hyperparameters
class EpsilonGreedyRidge(WithoutEvidence, CompiledLearner[EpsilonGreedyRidgeState]):
    """Answers with the highest predicted reward, with a share ε of uniform exploration; O(K·d²) memory, O(d²) updates.

    Half of the memory holds the matrices. Every 500 updates of a label, its inverse is checked against its matrix, and
    recomputed if it has drifted.

    The served label's regression learns from every round, without importance weights. Late feedback updates the current
    regression; the state does not depend on the order of arrival, up to rounding.
    """

    algorithm = "epsilon-greedy-ridge"
    smaller = "squarecb"
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = True
    state_type = EpsilonGreedyRidgeState
    linear = True

    regularization: Magnitude = 1.0
    """a > 0, the penalty on squared weights."""
    exploration: TheoremExploration = "anytime"
    """ε, `anytime` for ε_t = min(1, √(K/t)), or `theorem` for min(1, (K/t)^(1/3))."""
    least_exploration: LeastExploration = 0.0
    """A lower bound on a falling ε_t, for non-stationary data."""

    def __post_init__(self) -> None:
        """Refuse a regularization so small that the inverses would lose precision."""
        check_regularization(self.regularization, self.problem)

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        proved = uncovered(
            "the O(T^(2/3)) bound for exploration (K/t)^(1/3) is proved for epoch-greedy (Langford and Zhang 2007), "
            "not for this learner",
            "squarecb, if regression can express the probabilities of being right",
        )
        reason = (
            "old rounds count as much as new ones, so that its error is still far above the earlier one when as many "
            "rounds have followed the change as came before it"
        )
        return f"{proved} {no_recovery(reason)}"

    def fold_cost(self, _: int) -> int:
        """Return the cost of a product with one inverse, of the update, and of the amortized checks and rebuilds."""
        return 2 * self.problem.n_features**2 + upkeep_cost(self.problem.n_features)

    @property
    def kernels(self) -> Kernels:
        """Decides with (1 - ε) e_ŷ + (ε/K) 1; takes one step of recursive least squares on the served label."""
        return Kernels(_Parameters(_schedule(self), self.regularization), _decide, _fold)

    def init(self) -> EpsilonGreedyRidgeState:
        """Return inverses I/a and zero weights."""
        state: EpsilonGreedyRidgeState = zero_state(self)
        for inverse in state.inverses:
            packed_identity(inverse, 1.0 / self.regularization, self.problem.n_features)
        for matrix in state.matrices:
            packed_identity(matrix, self.regularization, self.problem.n_features)
        return state

    def check_new(self) -> None:
        """Refuse, for new models, matrices whose condition number could grow beyond what float64 can invert."""
        check_conditioning(self.problem, self.regularization, 1.0)


class _Parameters(NamedTuple):
    """The hyperparameters in the form that the kernels take."""

    exploration: Schedule
    regularization: float


def _schedule(learner: EpsilonGreedyRidge) -> Schedule:
    K = learner.problem.n_labels
    if learner.exploration == "theorem":
        return Schedule(float(K), 1 / 3, learner.least_exploration)
    return scheduled(learner.exploration, K, learner.least_exploration)


@compiled
def _decide(
    parameters: _Parameters,
    state: EpsilonGreedyRidgeState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    _: FloatArray,
) -> None:
    rate = scheduled_rate(parameters.exploration, state.rounds.item())
    decide_greedily(state.weights, rate, contexts, eligible, distributions)


@compiled
def _fold(parameters: _Parameters, state: EpsilonGreedyRidgeState, rounds: Rounds) -> None:
    d = len(state.weights)
    x, v = np.zeros(d), np.empty(d)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        for position in range(len(values)):
            x[indices[position]] = values[position]
        _update(parameters.regularization, state, rounds.labels[t], x, indices, rounds.rewards[t], v)
        for position in range(len(values)):
            x[indices[position]] = 0.0
        state.rounds[()] += 1


@compiled
def _update(
    a: float, state: EpsilonGreedyRidgeState, k: int, x: FloatArray, indices: IntArray, reward: float, v: FloatArray
) -> None:
    """With v = A⁻¹x and q = x'v: A += xx', A⁻¹ -= vv'/(1 + q), w += v (reward - w'x)/(1 + q)."""
    inverse, weights = state.inverses[k], state.weights[:, k]
    add_square(state.matrices[k], x, indices)
    packed_product(inverse, x, v)
    q, prediction = 0.0, 0.0
    for i in indices:
        state.targets[i, k] += reward * x[i]
        q += x[i] * v[i]
        prediction += x[i] * weights[i]
    state.unchecked[k] += 1
    lost = not (q >= 0.0 and abs(prediction) <= _LARGEST_PREDICTION)
    if not lost:
        packed_rank_one(inverse, v, -1.0 / (1.0 + q))
        for i in range(len(v)):
            weights[i] += v[i] * ((reward - prediction) / (1.0 + q))
    if state.unchecked[k] >= (_SOONEST if lost else CHECK_EVERY):
        _keep_up(a, state, k, lost)


@compiled
def _keep_up(a: float, state: EpsilonGreedyRidgeState, k: int, rebuilding: bool) -> None:
    """Check one label's inverse and weights against its matrix and target, or recompute them immediately."""
    target, w = state.targets[:, k].copy(), state.weights[:, k].copy()
    if rebuilding:
        rebuild(state.matrices[k], target, a, state.inverses[k], w)
    else:
        maintain(state.matrices[k], target, a, state.inverses[k], w)
    state.weights[:, k] = w
    state.unchecked[k] = 0
