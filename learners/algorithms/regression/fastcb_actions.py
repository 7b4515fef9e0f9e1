"""FastCB for actions: one regression of the reward on the features of context and action.

It explores and learns as `fastcb` does for labels. K is the number of eligible candidates.
"""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.actions.base import ActionRounds, Candidates
from learners.actions.compiled_action_learner import CompiledActionLearner
from learners.algorithms.regression.expert_mixture import ABSENT, LEAST_WEIGHT, reweigh
from learners.algorithms.regression.feature_scales import (
    CENTRED,
    OUTLIERS,
    added_by_entries,
    centred_rows,
    measure,
    outlier_warnings,
    overlap_of,
    relative_values,
    size_of,
)
from learners.algorithms.regression.forgetting import HalfLife, discount, forget_rows
from learners.algorithms.regression.growing_learner import (
    ADD,
    ADD_OR_IGNORE,
    READ,
    GrowingRows,
    RowCounts,
    RowFeatures,
    RowSlots,
    first_rows,
    highest_row,
    in_rows,
    room_for,
    rows_in_use,
    rows_of,
    rows_of_entries,
    to_rows,
)
from learners.algorithms.regression.logistic_models import (
    RowInformation,
    RowWeights,
    clipped,
    label_chance,
    step_size,
    teach_label,
)
from learners.algorithms.regression.whitened_steps import WhitenedWeights, Whitening, step_label, whiten
from learners.base import Contexts, FloatArray, IntArray, NormPolicy
from learners.borrowed import borrowed
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, most_entries, row
from learners.layouts import MOST_SQUARED, Count, Layout
from learners.mathematics.exploration import GapWeight, weigh_by_relative_gap
from learners.mathematics.guarantees import uncovered
from learners.mathematics.pacing import Pacing
from learners.mathematics.prices import weigh_costs

_PLAIN, _WHITENED = range(2)  # positions in `FastCbActionsState.experts`
_LOSS, _SIZES, _OVERLAPS = range(3)  # positions in `FastCbActionsState.sums`
_USED = 0  # position in `FastCbActionsState.counts`; `feature_scales` has the others


class FastCbActionsState(NamedTuple):
    """14 numbers for each of R rows, 1 + S for the first S, and a few more. R doubles when rows are needed."""

    features: RowFeatures
    slots: RowSlots
    row_counts: RowCounts
    scales: Annotated[FloatArray, Layout("float64", ("R", "7"), least=0.0)]
    means: Annotated[FloatArray, Layout("float64", ("R",))]
    latest: Annotated[IntArray, Layout("int64", ("R",), least=0.0)]  # the last round with the feature
    weights: RowWeights  # w, which multiplies relative values; one column
    information: RowInformation  # sums of squared gradients, one column
    whitening: Whitening
    whitened_weights: WhitenedWeights  # one column
    curvature: Annotated[FloatArray, Layout("float64", ("1",), least=0.0)]  # of the whitened regression
    experts: Annotated[
        FloatArray, Layout("float64", ("2",), least=0.0, most=1.0)
    ]  # weights in the mixture; their sum is 1
    sums: Annotated[FloatArray, Layout("float64", ("3",), least=0.0)]  # Σ (1 - reward), Σ ‖z‖², Σ overlap
    counts: Annotated[IntArray, Layout("int64", ("4",), least=0.0)]
    """Rows in use, rounds with outliers, whether there is an intercept, and 1 + the last centred row."""
    rounds: Count  # rounds folded so far
    pacing: Pacing


class _Parameters(NamedTuple):
    gap_scale: float
    least_exploration: float
    learning_rate: float
    discount: float  # of sums, per round


@hyperparameters
class FastCbActions(GrowingRows, CompiledActionLearner[FastCbActionsState]):
    """A logistic regression of the reward on a candidate's features: O(nnz) per candidate and per update; recommended.

    Memory is 14 numbers per row, and at most 6,480 more. Rows double as features occur, up to `max_features`. Features
    need no scaling, as in `fastcb` for labels. The regression predicts each candidate's reward f; a second one, for
    the first 80 features and with steps that allow for correlated features, is mixed in. With L and R the
    sums of 1 - reward and of rewards over the past rounds, K eligible candidates,
    γ = max(10 K, c √(K (1 + min(L, K R)))) and l = min(1 - f_leader, K f_leader), each other candidate a is
    chosen with probability l/(K l + γ (f_leader - f_a)), and the leader with the rest. Late feedback updates the
    current regression. A new candidate is scored by its features and needs no history.
    """

    algorithm = "fastcb"
    norm_policy: ClassVar[NormPolicy] = "none"
    smaller = "fewer features or a smaller max_features"
    weighs_costs: ClassVar[bool] = True
    state_type = FastCbActionsState

    gap_scale: Annotated[float, pydantic.Field(ge=1e-3, le=1e6)] = 8.0
    """c of γ: larger values explore less."""
    least_exploration: LeastExploration = 0.0
    """ε, an additional share of uniform exploration, for non-stationary data and for logs that train other learners."""
    learning_rate: Annotated[float, pydantic.Field(gt=0, le=1e3)] = 32.0
    """η of the regression."""
    half_life_rounds: HalfLife = None
    """For data that drift slowly."""

    @property
    def guarantee(self) -> str:
        return uncovered(
            "γ grows with the losses, and no bound is proved for the regret of the regression",
            "the exploration with a fixed γ, at least 10 K and tuned to L* and R, over predictions with regret R in "
            "log loss against the true expected rewards; its expected regret is of order √(K L* R) + K R, where L* is "
            "the expected loss of the best candidate of each round, and each round is folded before the next "
            "prediction (Foster and Krishnamurthy 2021)",
        )

    def decide_cost(self, nonzeros: int) -> int:
        return 3 * min(nonzeros, self.most_rows) + nonzeros + 20

    def fold_cost(self, nonzeros: int) -> int:
        squared = min(self.most_rows, MOST_SQUARED)
        return 7 * min(nonzeros, self.most_rows) + 2 * squared * squared + 2 * nonzeros + 20

    def init(self) -> FastCbActionsState:
        state: FastCbActionsState = super().init()
        state.experts[:] = 0.5
        return state

    def warnings(self, state: FastCbActionsState, /) -> list[str]:
        return super().warnings(state) + outlier_warnings(int(state.counts[OUTLIERS]))

    def contributions(self, state: FastCbActionsState, vector: Contexts, /) -> FloatArray:
        """Return what each of the m entries of a vector adds to the log-odds of the reward, (m,), as mixed.

        The last entry includes what centred features that are zero in this vector add.
        """
        weights, squared = state.experts, len(state.whitening)

        def mixed(i: IntArray) -> FloatArray:
            added: FloatArray = weights[_PLAIN] * state.weights[i]
            near = i < squared
            added[near] += weights[_WHITENED] * state.whitened_weights[i[near]]
            return added

        measured = state.scales, state.means, state.rounds.item(), centred_rows(state.counts, len(state.means))
        return added_by_entries(*measured, rows_of_entries(state, vector), vector.values, mixed)[:, 0]

    @property
    def kernels(self) -> Kernels:
        rates = self.learning_rate, discount(self.half_life_rounds)
        return Kernels(_Parameters(self.gap_scale, self.least_exploration, *rates), _decide, _fold)

    def with_room(self, state: FastCbActionsState, contexts: Contexts) -> FastCbActionsState:
        done, room = 0, room_for(contexts)
        while done < contexts.n and len(state.features) < self.most_rows:
            done = to_rows(rows_of(state), contexts, room, done, ADD)
            if done < contexts.n:
                state = self.grown(state)
        return state

    def with_spare_rows(self, state: FastCbActionsState, features: int) -> FastCbActionsState:
        while len(state.features) < min(self.most_rows, rows_in_use(rows_of(state)) + features):
            state = self.grown(state)
        return state


@compiled
def _decide(
    parameters: _Parameters, owned: FastCbActionsState, candidates: Candidates, distributions: FloatArray
) -> None:
    state = borrowed(owned)
    vectors, starts, eligible = in_rows(state, candidates.vectors, READ), candidates.starts, candidates.eligible
    weights, costs = candidates.prices
    scales, means, counts, seen = state.scales, state.means, state.counts, state.rounds.item()
    room, most = most_entries(vectors.starts) + centred_rows(counts, len(means)), most_entries(starts)
    relative, where, f, p, c = np.empty(room), np.empty(room, np.int64), np.empty(most), np.empty(most), np.empty(most)
    for t in range(len(starts) - 1):
        m, is_priced = 0, len(weights) > 0 and weights[t] > 0.0
        for a in range(starts[t], starts[t + 1]):
            if len(eligible) == 0 or eligible[a]:
                indices, values = row(vectors, a)
                n = relative_values(scales, means, counts, seen, indices, values, where, relative)
                f[m] = _chance(state, where[:n], relative[:n])
                c[m] = costs[0, a] if is_priced else 0.0
                m += 1
        penalties = c[: m if is_priced else 0]
        if is_priced:
            weigh_costs(weights[t], penalties)
        weight = GapWeight(parameters.gap_scale, m, state.sums[_LOSS], seen - state.sums[_LOSS])
        weigh_by_relative_gap(f[:m], penalties, weight, parameters.least_exploration, p[:m])
        m = 0
        for a in range(starts[t], starts[t + 1]):
            if len(eligible) == 0 or eligible[a]:
                distributions[a] = p[m]
                m += 1
            else:
                distributions[a] = 0.0


@compiled
def _chance(state: FastCbActionsState, where: IntArray, z: FloatArray) -> float:
    """Return the predicted reward of a candidate with relative values z, in the rows `where`."""
    chance = state.experts[_PLAIN] * label_chance(state.weights, 0, where, z)
    if state.experts[_WHITENED] > 0.0:
        near = first_rows(where, z, len(state.whitening))
        chance += state.experts[_WHITENED] * label_chance(state.whitened_weights, 0, where[:near], z[:near])
    return clipped(chance)


@compiled
def _fold(parameters: _Parameters, owned: FastCbActionsState, rounds: ActionRounds) -> None:
    state = borrowed(owned)
    chosen, counts = in_rows(state, rounds.chosen, ADD_OR_IGNORE), state.counts
    most = most_entries(chosen.starts)
    counts[CENTRED] = min(counts[CENTRED], len(state.means))  # a corrupt count must not allocate too much
    room = most + counts[CENTRED]
    relative, where, v = np.empty(room), np.empty(room, np.int64), np.empty(len(state.whitening))
    for t in range(len(rounds.rewards)):
        indices, values = row(chosen, t)
        state.rounds[()] += 1
        seen = state.rounds.item()
        state.sums[_LOSS] += 1.0 - rounds.rewards[t]
        measure(state.scales, state.means, counts, seen, indices, values)
        if room < most + counts[CENTRED]:
            room = most + counts[CENTRED]
            relative, where = np.empty(room), np.empty(room, np.int64)
        n = relative_values(state.scales, state.means, counts, seen, indices, values, where, relative)
        counts[_USED] = max(counts[_USED], highest_row(where[:n]))
        _teach(parameters, state, rounds.rewards[t], where[:n], relative[:n], v)


@compiled
def _teach(
    parameters: _Parameters, state: FastCbActionsState, reward: float, where: IntArray, z: FloatArray, v: FloatArray
) -> None:
    """Update both regressions and their weights by the reward of a chosen candidate."""
    seen, size, losses, used = state.rounds.item(), size_of(z), np.full(2, ABSENT), state.counts[_USED]
    if parameters.discount < 1.0:
        forget_rows(parameters.discount, seen, state.latest, where, state.information)
        state.curvature[0] *= parameters.discount
    for i in where:
        state.latest[i] = seen
    state.sums[_SIZES] += size
    state.sums[_OVERLAPS] += overlap_of(state.scales, seen, where, z)
    step = parameters.learning_rate * step_size(seen, state.sums[_SIZES], state.sums[_OVERLAPS])
    losses[_PLAIN] = teach_label(step, state.weights, state.information, 0, reward, where, z, size)
    most = len(state.whitening)
    if used <= most or state.experts[_WHITENED] >= LEAST_WEIGHT:
        near = first_rows(where, z, most)
        where, z = where[:near], z[:near]
        whitened = whiten(state.whitening, seen, min(used, most), where, z, v)
        losses[_WHITENED] = step_label(state.whitened_weights, state.curvature, 0, reward, where, z, whitened)
    reweigh(state.experts, losses)
