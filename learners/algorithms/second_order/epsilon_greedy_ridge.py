"""ε-greedy over ridge regression: a standard baseline, for labels and for actions.

For each label, the reward (1 if right, 0 if wrong, or a fraction) is regressed on the contexts in which the label was
served; for actions, on the features of the chosen candidate. The answer has the highest prediction; with
probability ε, it is uniform. Ridge regression is from Hoerl and Kennard 1970, the update of the inverse from Sherman
and Morrison 1950. The inverse is checked against its matrix every 500 updates and recomputed if it has drifted. The
rate ε_t = min(1, (K/t)^(1/3)) of `theorem` is that of epoch-greedy (Langford and Zhang, NIPS 2007).
"""

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from learners.actions.base import ActionRounds, Candidates
from learners.actions.compiled_action_learner import CompiledActionLearner
from learners.base import BoolArray, Contexts, FloatArray, IntArray, Prices, Rounds
from learners.hyperparameters import Exploration, LeastExploration, Magnitude, TheoremExploration, hyperparameters
from learners.kernels import Kernels, compiled, narrow, row, widen
from learners.layouts import Count, LabelVectors, Layout, zero_state
from learners.learner import CompiledLearner, WithoutEvidence
from learners.mathematics.exploration import (
    Schedule,
    leader,
    mix_with_uniform,
    scheduled,
    scheduled_rate,
)
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
from learners.mathematics.linear_algebra import packed_identity, packed_product, packed_rank_one, score_row
from learners.mathematics.pacing import Pacing
from learners.mathematics.prices import penalize, weigh_costs

_LARGEST_PREDICTION = 1e60  # never exceeded with an exact inverse
_SOONEST = 50  # minimum updates between a check and an early rebuild of an inverse that lost precision


class EpsilonGreedyRidgeState(NamedTuple):
    """For each label, the inverse of a·I + Σ xx' over the rounds that served it, and the label's regression."""

    inverses: Annotated[FloatArray, Layout("float64", ("K", "p"))]  # packed lower triangles, d by d
    weights: LabelVectors
    rounds: Count  # rounds folded so far, t - 1
    matrices: Annotated[FloatArray, Layout("float64", ("K", "p"))]  # a·I + Σ xx', packed like the inverses
    targets: LabelVectors  # Σ reward · x
    unchecked: Annotated[IntArray, Layout("int64", ("K",), least=0.0)]  # updates since the last check of each inverse
    pacing: Pacing


class _Ridge:
    problem: Any
    regularization: float

    def __post_init__(self) -> None:
        check_regularization(self.regularization, self.problem)

    def fold_cost(self, _: int) -> int:
        d: int = self.problem.n_features
        return 2 * d**2 + upkeep_cost(d)

    def check_new(self) -> None:
        check_conditioning(self.problem, self.regularization, 1.0)


@hyperparameters
class EpsilonGreedyRidge(_Ridge, WithoutEvidence, CompiledLearner[EpsilonGreedyRidgeState]):
    """Answers with the label of highest predicted reward or, with probability ε, with a uniform one. O(K·d²) memory.

    An update takes O(d²). Half of the memory is for the matrices. Every 500 updates of a label, its inverse is checked
    against its matrix and recomputed if it has drifted. Only the served label's regression learns from a round,
    without importance weights. The order in which feedback arrives affects the state only by rounding.
    """

    algorithm = "epsilon-greedy-ridge"
    smaller = "squarecb"
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = True
    weighs_costs: ClassVar[bool] = True
    state_type = EpsilonGreedyRidgeState
    linear = True

    regularization: Magnitude = 1.0
    """a > 0, the penalty on squared weights."""
    exploration: TheoremExploration = "anytime"
    """ε, or in round t: `anytime` for ε_t = min(1, √(K/t)), `theorem` for ε_t = min(1, (K/t)^(1/3))."""
    least_exploration: LeastExploration = 0.0
    """A lower bound on a falling ε_t, for non-stationary data."""

    @property
    def guarantee(self) -> str:
        proved = uncovered(
            "the O(T^(2/3)) bound for exploration (K/t)^(1/3) is proved for epoch-greedy (Langford and Zhang 2007), "
            "not for this learner",
            "squarecb, if regression can express the probabilities of being right",
        )
        reason = (
            "old rounds count as much as new ones, so its error is still far above that before the change when as many "
            "rounds have followed the change as came before it"
        )
        return f"{proved} {no_recovery(reason)}"

    @property
    def kernels(self) -> Kernels:
        return Kernels(_Parameters(_schedule(self), self.regularization), _decide, _fold)

    def init(self) -> EpsilonGreedyRidgeState:
        state: EpsilonGreedyRidgeState = zero_state(self)
        for inverse, matrix in zip(state.inverses, state.matrices, strict=True):
            packed_identity(inverse, 1.0 / self.regularization, self.problem.n_features)
            packed_identity(matrix, self.regularization, self.problem.n_features)
        return state


class _Parameters(NamedTuple):
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
    prices: Prices,
    distributions: FloatArray,
    _: FloatArray,
) -> None:
    rate, K = scheduled_rate(parameters.exploration, state.rounds.item()), distributions.shape[1]
    values, c = np.empty(K), np.empty(K)
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, values)
        n = narrow(eligible, i, values)
        penalties = penalize(prices, eligible, i, c)
        if len(penalties) > 0:
            values[:n] -= penalties
        mix_with_uniform(leader(values[:n]), rate, distributions[i][:n])
        widen(eligible, i, distributions[i])


@compiled
def _fold(parameters: _Parameters, state: EpsilonGreedyRidgeState, rounds: Rounds) -> None:
    a, d = parameters.regularization, len(state.weights)
    x, v = np.zeros(d), np.empty(d)
    for t in range(len(rounds.labels)):
        k, indices = rounds.labels[t], _scatter(rounds.contexts, t, x)
        own = state.inverses[k], state.matrices[k], state.targets[:, k], state.weights[:, k]
        state.unchecked[k] = _update(a, *own, state.unchecked[k], x, indices, rounds.rewards[t], v)
        x[indices] = 0.0
        state.rounds[()] += 1


@compiled
def _scatter(contexts: Contexts, t: int, x: FloatArray) -> IntArray:
    """Write the t-th context to x (d,), which must be zero; return the indices of the context."""
    indices, values = row(contexts, t)
    for position in range(len(values)):
        x[indices[position]] = values[position]
    return indices


@compiled
def _update(
    a: float,
    inverse: FloatArray,
    matrix: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    unchecked: int,
    x: FloatArray,
    indices: IntArray,
    reward: float,
    v: FloatArray,
) -> int:
    """Take one step; return the number of updates since inverse and weights were checked against matrix and targets."""
    lost = _step(inverse, matrix, targets, weights, x, indices, reward, v)
    if unchecked + 1 < (_SOONEST if lost else CHECK_EVERY):
        return unchecked + 1
    target, w = targets.copy(), weights.copy()
    if lost:
        rebuild(matrix, target, a, inverse, w)
    else:
        maintain(matrix, target, a, inverse, w)
    weights[:] = w
    return 0


@compiled
def _step(
    inverse: FloatArray,
    matrix: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    x: FloatArray,
    indices: IntArray,
    reward: float,
    v: FloatArray,
) -> bool:
    """Update by A += xx', A⁻¹ -= vv'/(1 + q) and w += v (reward - w'x)/(1 + q), where v = A⁻¹x and q = x'v.

    Return whether the inverse has lost its precision; then only the matrix and the targets change.
    """
    add_square(matrix, x, indices)
    packed_product(inverse, x, v)
    q, prediction = 0.0, 0.0
    for i in indices:
        targets[i] += reward * x[i]
        q += x[i] * v[i]
        prediction += x[i] * weights[i]
    if not (q >= 0.0 and abs(prediction) <= _LARGEST_PREDICTION):
        return True
    packed_rank_one(inverse, v, -1.0 / (1.0 + q))
    for i in range(len(v)):
        weights[i] += v[i] * ((reward - prediction) / (1.0 + q))
    return False


class EpsilonGreedyRidgeActionsState(NamedTuple):
    """The inverse of A = a·I + Σ xx' over the chosen candidates, and the regression."""

    inverse: Annotated[FloatArray, Layout("float64", ("p",))]  # packed lower triangle, d by d
    weights: Annotated[FloatArray, Layout("float64", ("d",))]
    matrix: Annotated[FloatArray, Layout("float64", ("p",))]  # A, packed like the inverse
    targets: Annotated[FloatArray, Layout("float64", ("d",))]  # Σ reward · x
    unchecked: Count  # updates since the last check of the inverse
    rounds: Count  # rounds folded so far, t - 1
    pacing: Pacing


@hyperparameters
class EpsilonGreedyRidgeActions(_Ridge, CompiledActionLearner[EpsilonGreedyRidgeActionsState]):
    """Chooses the candidate with the highest predicted reward; with probability ε, a uniform one. O(d²) memory."""

    algorithm = "epsilon-greedy-ridge"
    smaller = "fastcb"
    weighs_costs: ClassVar[bool] = True
    state_type = EpsilonGreedyRidgeActionsState

    regularization: Magnitude = 1.0
    """a > 0, the penalty on squared weights."""
    exploration: Exploration = "anytime"
    """ε, or `anytime` for ε_t = min(1, √(K/t)) in round t with K candidates."""
    least_exploration: LeastExploration = 0.0
    """A lower bound on a falling ε_t, for non-stationary data."""

    @property
    def guarantee(self) -> str:
        return uncovered(
            "the O(T^(2/3)) bound is proved for epoch-greedy (Langford and Zhang 2007), not for this learner",
            "no setting; the guarantee of fastcb says what is proved for its exploration",
        )

    def decide_cost(self, nonzeros: int) -> int:
        return nonzeros + 10

    def init(self) -> EpsilonGreedyRidgeActionsState:
        state: EpsilonGreedyRidgeActionsState = zero_state(self)  # type: ignore[arg-type]
        packed_identity(state.inverse, 1.0 / self.regularization, self.problem.n_features)
        packed_identity(state.matrix, self.regularization, self.problem.n_features)
        return state

    def contributions(self, state: EpsilonGreedyRidgeActionsState, vector: Contexts, /) -> FloatArray:
        """Return the contribution of each entry to the predicted reward, (m,)."""
        weights: FloatArray = state.weights[vector.indices]
        return weights * vector.values

    @property
    def kernels(self) -> Kernels:
        # for K = 1: `_decide_actions` multiplies by the number of eligible candidates
        schedule = scheduled(self.exploration, 1, self.least_exploration)
        return Kernels(_Parameters(schedule, self.regularization), _decide_actions, _fold_actions)


@compiled
def _decide_actions(
    parameters: _Parameters, state: EpsilonGreedyRidgeActionsState, candidates: Candidates, distributions: FloatArray
) -> None:
    starts, eligible, (constant, power, least) = candidates.starts, candidates.eligible, parameters.exploration
    weights, costs = candidates.prices
    for t in range(len(starts) - 1):
        m, count, is_priced = 0, starts[t + 1] - starts[t], len(weights) > 0 and weights[t] > 0.0
        values, p, c = np.empty(count), np.empty(count), np.empty(count)
        for a in range(starts[t], starts[t + 1]):
            if len(eligible) == 0 or eligible[a]:
                values[m] = _predicted(state.weights, *row(candidates.vectors, a))
                c[m] = costs[0, a] if is_priced else 0.0
                m += 1
        if is_priced:
            weigh_costs(weights[t], c[:m])
            values[:m] -= c[:m]
        rate = scheduled_rate(Schedule(constant * m, power, least), state.rounds.item())
        mix_with_uniform(leader(values[:m]), rate, p[:m])
        m = 0
        for a in range(starts[t], starts[t + 1]):
            distributions[a] = 0.0
            if len(eligible) == 0 or eligible[a]:
                distributions[a] = p[m]
                m += 1


@compiled
def _predicted(w: FloatArray, indices: IntArray, values: FloatArray) -> float:
    s = 0.0
    for position in range(len(values)):
        s += values[position] * w[indices[position]]
    return s


@compiled
def _fold_actions(parameters: _Parameters, state: EpsilonGreedyRidgeActionsState, rounds: ActionRounds) -> None:
    a, d = parameters.regularization, len(state.weights)
    x, v = np.zeros(d), np.empty(d)
    for t in range(len(rounds.rewards)):
        indices, unchecked = _scatter(rounds.chosen, t, x), state.unchecked.item()
        own = state.inverse, state.matrix, state.targets, state.weights
        state.unchecked[()] = _update(a, *own, unchecked, x, indices, rounds.rewards[t], v)
        x[indices] = 0.0
        state.rounds[()] += 1
