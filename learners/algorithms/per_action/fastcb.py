"""FastCB over candidates: one logistic regression on the features of context and action.

Dylan Foster, Akshay Krishnamurthy, "Efficient First-Order Contextual Bandits: Prediction, Allocation, and Triangular
Discrimination", NeurIPS 2021, for the exploration, with K the number of candidates of the round. The regression is
that of each label in `fastcb`, on values that `feature_scales` makes independent of units.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.actions.base import ActionRounds, Candidates
from learners.actions.compiled_action_learner import CompiledActionLearner
from learners.algorithms.regression.feature_rows import ADD, ADD_OR_IGNORE, READ, rows_in_use, to_rows
from learners.algorithms.regression.feature_scales import added_by_entries, measure, size_of, write_relative
from learners.algorithms.regression.growing_learner import (
    GrowingRows,
    RowCounts,
    RowFeatures,
    RowSlots,
    in_rows,
    room_for,
    rows_of,
    rows_of_entries,
)
from learners.algorithms.regression.logistic_mixture import teach_label
from learners.base import Contexts, FloatArray, IntArray, NormPolicy
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, most_entries, row
from learners.layouts import Count, Layout, RowSquares, RowVectors
from learners.mathematics.exploration import weigh_by_relative_gap
from learners.mathematics.guarantees import uncovered

_LEAST_GAP_WEIGHT = 10.0
"""γ is at least 10 K, as in the theorem."""

_LEAST_CHANCE = 1e-6
"""Predictions are clipped to this distance from 0 and 1."""

_LOSSES, _SIZES = range(2)
"""Positions in `FastCbActionsState.sums`."""

_INTERCEPT, _CENTRED = range(2)
"""Positions in `FastCbActionsState.counts`."""


class FastCbActionsState(NamedTuple):
    """10 numbers for each of R rows, and a few more. R doubles as features occur. Weights are for relative values."""

    features: RowFeatures
    slots: RowSlots
    row_counts: RowCounts
    scales: Annotated[FloatArray, Layout("float64", ("R", "4"), least=0.0)]
    means: Annotated[FloatArray, Layout("float64", ("R",))]
    weights: RowVectors  # w, one column
    information: RowSquares  # sums of squared gradients, one column
    sums: Annotated[FloatArray, Layout("float64", ("2",), least=0.0)]  # losses L = Σ (1 - reward), and N
    counts: Annotated[
        IntArray, Layout("int64", ("2",), least=0.0)
    ]  # whether there is an intercept, 1 + last centred row
    rounds: Count  # rounds folded so far


class _Parameters(NamedTuple):
    """The hyperparameters in the form that the kernels take."""

    gap_scale: float
    least_exploration: float
    learning_rate: float


@hyperparameters
class FastCbActions(GrowingRows, CompiledActionLearner[FastCbActionsState]):
    """A logistic regression of the reward on a candidate's features: O(nnz) per candidate and per update; recommended.

    Memory is 10 numbers per row. Rows double as features occur, up to `max_features`. Features may be as measured, as
    in `fastcb` for labels. The regression predicts each candidate's reward f. With l = 1 - f of the leader, L the sum
    of 1 - reward over the past rounds, K candidates and γ = max(10 K, c √(K (1 + L))), each other candidate a is
    chosen with probability l/(K l + γ (f_leader - f_a)), and the leader with the rest. Late feedback updates the
    current regression. A candidate that was never chosen is worth what its features are worth.
    """

    algorithm = "fastcb"
    norm_policy: ClassVar[NormPolicy] = "none"
    smaller = "fewer features or a smaller max_features"
    state_type = FastCbActionsState

    gap_scale: Annotated[float, pydantic.Field(ge=1e-3, le=1e6)] = 8.0
    """c of γ = max(10 K, c √(K (1 + L))): larger values explore less."""
    least_exploration: LeastExploration = 0.0
    """ε, an additional share of uniform exploration, for non-stationary data and for logs that train other learners."""
    learning_rate: Annotated[float, pydantic.Field(gt=0, le=1e3)] = 32.0
    """η of the regression."""

    @property
    def guarantee(self) -> str:
        """See `ActionLearner.guarantee`."""
        return uncovered(
            "γ grows with the losses, and no bound is proved for the regret of the regression",
            "the exploration with a fixed γ, at least 10 K and tuned to L* and R, over predictions with regret R in "
            "log loss against the true expected rewards; its expected regret is of order √(K L* R) + K R, where L* is "
            "the expected loss of the best candidate of each round, and each round is folded before the next "
            "prediction (Foster and Krishnamurthy 2021)",
        )

    def decide_cost(self, nonzeros: int) -> int:
        """Return the multiply-adds of one score, for features with a row."""
        return 2 * min(nonzeros, self.most_rows) + nonzeros + 10

    def fold_cost(self, nonzeros: int) -> int:
        """Return the cost of one score and one step."""
        return 5 * min(nonzeros, self.most_rows) + 2 * nonzeros + 10

    def contributions(self, state: FastCbActionsState, vector: Contexts, /) -> FloatArray:
        """Return what each entry adds to the log-odds of the predicted reward, (m,).

        The last entry, the constant if there is one, includes what centred features add where they are zero.
        """
        measured = state.scales, state.means, state.rounds.item(), _centred_rows(state.counts, len(state.means))
        rows = rows_of_entries(state, vector)
        return added_by_entries(*measured, rows, vector.values, lambda i: state.weights[i])[:, 0]

    @property
    def kernels(self) -> Kernels:
        """Decides by relative inverse-gap weighting; takes one step on the regression."""
        return Kernels(_Parameters(self.gap_scale, self.least_exploration, self.learning_rate), _decide, _fold)

    def with_room(self, state: FastCbActionsState, contexts: Contexts) -> FastCbActionsState:
        """See `CompiledActionLearner.with_room`."""
        done, room = 0, room_for(contexts)
        while done < contexts.n and len(state.features) < self.most_rows:
            done = to_rows(rows_of(state), contexts, room, done, ADD)
            if done < contexts.n:
                state = self.grown(state)
        return state

    def with_spare_rows(self, state: FastCbActionsState, features: int) -> FastCbActionsState:
        """See `CompiledActionLearner.with_spare_rows`."""
        while len(state.features) < min(self.most_rows, rows_in_use(rows_of(state)) + features):
            state = self.grown(state)
        return state


@compiled
def _centred_rows(counts: IntArray, rows: int) -> int:
    """Return the number of leading rows that may be centred: none without an intercept."""
    return min(rows, counts[_CENTRED]) if counts[_INTERCEPT] > 0 else 0


@compiled
def _chance(w: FloatArray, where: IntArray, z: FloatArray, n: int) -> float:
    """Return the predicted reward of a candidate from its first n relative values."""
    s = 0.0
    for position in range(n):
        s += z[position] * w[where[position], 0]
    return min(1.0 - _LEAST_CHANCE, max(_LEAST_CHANCE, 1.0 / (1.0 + math.exp(-s))))


@compiled
def _decide(
    parameters: _Parameters, state: FastCbActionsState, candidates: Candidates, distributions: FloatArray
) -> None:
    vectors, starts, eligible = in_rows(state, candidates.vectors, READ), candidates.starts, candidates.eligible
    w, scales, means, seen = state.weights, state.scales, state.means, state.rounds.item()
    centred, losses = _centred_rows(state.counts, len(state.means)), state.sums[_LOSSES]
    room, most = most_entries(vectors.starts) + centred, most_entries(starts)
    relative, where, f, p = np.empty(room), np.empty(room, np.int64), np.empty(most), np.empty(most)
    for t in range(len(starts) - 1):
        m = 0
        for a in range(starts[t], starts[t + 1]):
            if len(eligible) == 0 or eligible[a]:
                indices, values = row(vectors, a)
                n = write_relative(scales, means, seen, centred, indices, values, where, relative)
                f[m] = _chance(w, where, relative, n)
                m += 1
        gap_weight = max(_LEAST_GAP_WEIGHT * m, parameters.gap_scale * math.sqrt(m * (1.0 + losses)))
        weigh_by_relative_gap(f[:m], gap_weight, parameters.least_exploration, p[:m])
        m = 0
        for a in range(starts[t], starts[t + 1]):
            if len(eligible) == 0 or eligible[a]:
                distributions[a] = p[m]
                m += 1
            else:
                distributions[a] = 0.0


@compiled
def _fold(parameters: _Parameters, state: FastCbActionsState, rounds: ActionRounds) -> None:
    chosen, w, information = in_rows(state, rounds.chosen, ADD_OR_IGNORE), state.weights, state.information
    scales, means, sums, counts, seen = state.scales, state.means, state.sums, state.counts, state.rounds.item()
    most = most_entries(chosen.starts)
    counts[_CENTRED] = min(counts[_CENTRED], len(means))  # a corrupt count must not allocate memory
    room = most + counts[_CENTRED]
    relative, where = np.empty(room), np.empty(room, np.int64)
    for t in range(len(rounds.rewards)):
        indices, values = row(chosen, t)
        seen += 1
        sums[_LOSSES] += 1.0 - rounds.rewards[t]
        centring = seen == 1 or counts[_INTERCEPT] > 0  # an intercept is there from the first round on
        counts[_CENTRED], centring = measure(scales, means, seen, counts[_CENTRED], centring, indices, values)
        counts[_INTERCEPT] = 1 if centring else 0
        if room < most + counts[_CENTRED]:
            room = most + counts[_CENTRED]
            relative, where = np.empty(room), np.empty(room, np.int64)
        n = write_relative(scales, means, seen, _centred_rows(counts, len(means)), indices, values, where, relative)
        z = relative[:n]
        size = size_of(z)
        sums[_SIZES] += size
        step = parameters.learning_rate * math.sqrt(seen / sums[_SIZES]) if sums[_SIZES] > 0.0 else 0.0
        teach_label(step, w, information, 0, rounds.rewards[t], where[:n], z, size)
    state.rounds[()] = seen
