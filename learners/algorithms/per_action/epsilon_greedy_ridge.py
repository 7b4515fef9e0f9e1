"""ε-greedy over ridge regression of the reward on a candidate's features: the standard control for actions.

Hoerl and Kennard 1970 for ridge regression; Sherman and Morrison 1950 for updating the inverse, which
`learners.mathematics.inverse` checks regularly.
"""

from typing import Annotated, NamedTuple

import numpy as np

from learners.actions.base import ActionRounds, Candidates
from learners.actions.compiled_action_learner import CompiledActionLearner
from learners.base import Contexts, FloatArray, IntArray
from learners.hyperparameters import Exploration, LeastExploration, Magnitude, hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, Layout, zero_state
from learners.mathematics.ball import packed_product
from learners.mathematics.exploration import Schedule, leader, mix_with_uniform, scheduled, scheduled_rate
from learners.mathematics.guarantees import uncovered
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


class EpsilonGreedyRidgeActionsState(NamedTuple):
    """The inverse of A = a·I + Σ xx' over the chosen candidates, and the regression."""

    inverse: Annotated[FloatArray, Layout("float64", ("p",))]  # packed lower triangle, d by d
    weights: Annotated[FloatArray, Layout("float64", ("d",))]
    matrix: Annotated[FloatArray, Layout("float64", ("p",))]  # A, packed like the inverse
    targets: Annotated[FloatArray, Layout("float64", ("d",))]  # Σ reward · x
    unchecked: Count  # updates since the last check of the inverse
    rounds: Count  # rounds folded so far, t - 1


class _Parameters(NamedTuple):
    """The hyperparameters in the form that the kernels take."""

    exploration: Schedule  # for one candidate
    regularization: float


@hyperparameters
class EpsilonGreedyRidgeActions(CompiledActionLearner[EpsilonGreedyRidgeActionsState]):
    """Chooses the candidate with the highest predicted reward, with a share ε of uniform exploration: O(d²) memory.

    Half of the memory holds the matrix. Every 500 updates, the inverse is checked against it, and recomputed if it has
    drifted. Late feedback updates the current regression; the state does not depend on the order of arrival, up to
    rounding.
    """

    algorithm = "epsilon-greedy-ridge"
    smaller = "fastcb"
    state_type = EpsilonGreedyRidgeActionsState

    regularization: Magnitude = 1.0
    """a > 0, the penalty on squared weights."""
    exploration: Exploration = "anytime"
    """ε, or `anytime` for ε_t = min(1, √(K/t)) with K candidates."""
    least_exploration: LeastExploration = 0.0
    """A lower bound on a falling ε_t, for non-stationary data."""

    def __post_init__(self) -> None:
        """Refuse a regularization so small that the inverse would lose precision."""
        check_regularization(self.regularization, self.problem)  # type: ignore[arg-type]

    @property
    def guarantee(self) -> str:
        """See `ActionLearner.guarantee`."""
        return uncovered(
            "the O(T^(2/3)) bound is proved for epoch-greedy (Langford and Zhang 2007), not for this learner",
            "no setting; for the exploration of fastcb, see there",
        )

    def check_new(self) -> None:
        """Refuse, for new models, matrices whose condition number could grow beyond what float64 can invert."""
        check_conditioning(self.problem, self.regularization, 1.0)  # type: ignore[arg-type]

    def decide_cost(self, nonzeros: int) -> int:
        """Return the multiply-adds of one score."""
        return nonzeros + 10

    def fold_cost(self, _: int) -> int:
        """Return the cost of a product with the inverse, of the update, and of the amortized checks and rebuilds."""
        return 2 * self.problem.n_features**2 + upkeep_cost(self.problem.n_features)

    def init(self) -> EpsilonGreedyRidgeActionsState:
        """Return the inverse I/a and zero weights."""
        state: EpsilonGreedyRidgeActionsState = zero_state(self)  # type: ignore[arg-type]
        packed_identity(state.inverse, 1.0 / self.regularization, self.problem.n_features)
        packed_identity(state.matrix, self.regularization, self.problem.n_features)
        return state

    def contributions(self, state: EpsilonGreedyRidgeActionsState, vector: Contexts, /) -> FloatArray:
        """Return what each entry adds to the predicted reward, (m,)."""
        weights: FloatArray = state.weights[vector.indices]
        return weights * vector.values

    @property
    def kernels(self) -> Kernels:
        """Decides with (1 - ε) e_leader + (ε/K) 1; takes one step of recursive least squares."""
        schedule = scheduled(self.exploration, 1, self.least_exploration)
        return Kernels(_Parameters(schedule, self.regularization), _decide, _fold)


@compiled
def _decide(
    parameters: _Parameters, state: EpsilonGreedyRidgeActionsState, candidates: Candidates, distributions: FloatArray
) -> None:
    starts, eligible, (constant, power, least) = candidates.starts, candidates.eligible, parameters.exploration
    for t in range(len(starts) - 1):
        m, count = 0, starts[t + 1] - starts[t]
        values, p = np.empty(count), np.empty(count)
        for a in range(starts[t], starts[t + 1]):
            if len(eligible) == 0 or eligible[a]:
                values[m] = _predicted(state.weights, *row(candidates.vectors, a))
                m += 1
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
def _fold(parameters: _Parameters, state: EpsilonGreedyRidgeActionsState, rounds: ActionRounds) -> None:
    d = len(state.weights)
    x, v = np.zeros(d), np.empty(d)
    for t in range(len(rounds.rewards)):
        indices, values = row(rounds.chosen, t)
        for position in range(len(values)):
            x[indices[position]] = values[position]
        _update(parameters.regularization, state, x, indices, rounds.rewards[t], v)
        for position in range(len(values)):
            x[indices[position]] = 0.0
        state.rounds[()] += 1


@compiled
def _update(
    a: float, state: EpsilonGreedyRidgeActionsState, x: FloatArray, indices: IntArray, reward: float, v: FloatArray
) -> None:
    """With v = A⁻¹x and q = x'v: A += xx', A⁻¹ -= vv'/(1 + q), w += v (reward - w'x)/(1 + q)."""
    add_square(state.matrix, x, indices)
    packed_product(state.inverse, x, v)
    q, prediction = 0.0, 0.0
    for i in indices:
        state.targets[i] += reward * x[i]
        q += x[i] * v[i]
        prediction += x[i] * state.weights[i]
    state.unchecked[()] += 1
    lost = not (q >= 0.0 and abs(prediction) <= _LARGEST_PREDICTION)
    if not lost:
        packed_rank_one(state.inverse, v, -1.0 / (1.0 + q))
        for i in range(len(v)):
            state.weights[i] += v[i] * ((reward - prediction) / (1.0 + q))
    if lost and state.unchecked.item() >= _SOONEST:
        rebuild(state.matrix, state.targets, a, state.inverse, state.weights)
        state.unchecked[()] = 0
    elif state.unchecked.item() >= CHECK_EVERY:
        maintain(state.matrix, state.targets, a, state.inverse, state.weights)
        state.unchecked[()] = 0
