"""FastCB: exploration in proportion to the loss, over logistic regression, for labels and for actions.

Dylan Foster, Akshay Krishnamurthy, "Efficient First-Order Contextual Bandits: Prediction, Allocation, and Triangular
Discrimination", NeurIPS 2021, for the exploration. The oracle for labels is `logistic_mixture`, which mixes one-vs-rest
and softmax regression. The oracle for actions is one regression on the features of context and action; K is then the
number of eligible candidates. `feature_scales` makes values independent of units, and of offsets if there is an
intercept.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.actions.base import ActionRounds, Candidates
from learners.actions.compiled_action_learner import CompiledActionLearner
from learners.algorithms.regression.change_test import ChangeTest, Past, detect_change, note_round
from learners.algorithms.regression.feature_scales import (
    added_by_entries,
    measure,
    outlier_warnings,
    size_of,
    write_relative,
)
from learners.algorithms.regression.growing_learner import (
    ADD,
    ADD_OR_IGNORE,
    READ,
    GrowingLearner,
    GrowingRows,
    RowCounts,
    RowFeatures,
    RowSlots,
    in_rows,
    locate,
    room_for,
    rows_in_use,
    rows_of,
    rows_of_entries,
    to_rows,
)
from learners.algorithms.regression.logistic_mixture import (
    LEAST_CHANCE,
    mix,
    share_of_softmax,
    teach_label,
    teach_softmax,
)
from learners.base import BoolArray, Contexts, FloatArray, IntArray, NormPolicy, Rounds
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, has_choice, most_entries, row, widen
from learners.layouts import Count, Layout, RowSquares, RowVectors
from learners.learner import WithoutEvidence
from learners.mathematics.exploration import weigh_by_relative_gap
from learners.mathematics.guarantees import uncovered

_LEAST_GAP_WEIGHT = 10.0  # γ is at least 10 K, as in the theorem
_LABELS, _SOFTMAX, _SIZES, _LOSS = range(4)  # positions in `FastCbState.sums`
_ACTION_LOSS, _ACTION_SIZES = range(2)  # positions in `FastCbActionsState.sums`
_ROUNDS, _RESTARTS = range(2)  # positions in `FastCbState.counts`
_OUTLIERS, _INTERCEPT, _CENTRED = -3, -2, -1  # positions in `counts` of either state


class FastCbState(NamedTuple):
    """4·K + 10 numbers for each of R rows, and a few more. R doubles when new features need rows."""

    features: RowFeatures
    slots: RowSlots
    row_counts: RowCounts
    scales: Annotated[FloatArray, Layout("float64", ("R", "6"), least=0.0)]
    means: Annotated[FloatArray, Layout("float64", ("R",))]
    label_weights: RowVectors  # W of the one-vs-rest model
    label_information: RowSquares  # G, sums of squared gradients
    softmax_weights: RowVectors  # V of the softmax model
    softmax_information: RowSquares  # H, sums of squared gradients
    sums: Annotated[FloatArray, Layout("float64", ("4",), least=0.0)]  # both log losses, Σ ‖z‖², Σ (1 - reward)
    change: ChangeTest
    counts: Annotated[IntArray, Layout("int64", ("5",), least=0.0)]
    """Rounds since the last restart, restarts, rounds with outliers, whether there is an intercept, and 1 + the last
    centred row."""
    rounds: Count  # rounds folded so far


class _Parameters(NamedTuple):
    gap_scale: float
    least_exploration: float
    learning_rate: float
    growth: float  # the factor of the softmax model's steps
    change_threshold: float  # nats; infinite for no restarts


@hyperparameters
class FastCb(WithoutEvidence, GrowingLearner[FastCbState]):
    """A mixture of two logistic regressions that explores in proportion to its loss: O(K·nnz) per round; recommended.

    Memory is 4·K + 10 numbers per row. Rows double as features occur, up to `max_features`. Contexts need no scaling:
    each feature is divided by its typical size, and if one feature never changes, features that nearly all contexts
    have are taken relative to their mean. Two models predict each label's probability of being right: a logistic
    regression per label, and one softmax regression. The mixture h weighs them by their likelihood of past feedback.
    With l = 1 - h_leader, L the sum of 1 - reward since the last restart and γ = max(10 K, c √(K (1 + L))), each
    other label k is answered with probability l/(K l + γ (h_leader - h_k)), and the leader with the rest. Late feedback
    updates the current models, at scores recomputed for its context.
    """

    algorithm = "fastcb"
    # the steps do not depend on the scale of the features
    norm_policy: ClassVar[NormPolicy] = "none"
    smaller = "fewer features or a smaller max_features"
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = True
    state_type = FastCbState

    gap_scale: Annotated[float, pydantic.Field(ge=1e-3, le=1e6)] = 8.0
    """c of γ = max(10 K, c √(K (1 + L))): larger values explore less."""
    least_exploration: LeastExploration = 0.0
    """ε, an additional share of uniform exploration, for non-stationary data and for logs that train other learners."""
    learning_rate: Annotated[float, pydantic.Field(gt=0, le=1e3)] = 32.0
    """η of the one-vs-rest model; that of the softmax model grows with the number of labels."""
    restart_risk: Annotated[float, pydantic.Field(ge=0, le=0.1)] = 0.0
    """α: restart from zero weights after more mistakes than a stationary stream explains. If the probability of a
    mistake never exceeds the share of mistakes so far, T rounds cause a restart with probability at most α T. 0 never
    restarts. Use 1e-9 for data that change abruptly."""

    @property
    def guarantee(self) -> str:
        extra = " + ε T" if self.least_exploration > 0.0 else ""
        return uncovered(
            "γ grows with the mistakes, and no bound is proved for the regret of the two models. It is proved that the "
            "log loss of their mixture, evaluated when each round is folded, exceeds that of the better model by at "
            f"most ln 2{self._restart_guarantee}",
            "the exploration with a fixed γ, at least 10 K and tuned to L* and R, over predictions with regret R in "
            f"log loss against the true probabilities; its expected regret is of order √(K L* R) + K R{extra}, where "
            "L* is the expected number of mistakes of the best label for each context, and each round is folded "
            "before the next prediction (Foster and Krishnamurthy 2021)",
        )

    @property
    def _restart_guarantee(self) -> str:
        if self.restart_risk == 0.0:
            return ""
        return (
            " since the last restart. If the probability of a mistake never exceeds the share of mistakes so far, a "
            f"restart within T rounds has probability at most {self.restart_risk:g} T"
        )

    def decide_cost(self, nonzeros: int) -> int:
        return 2 * self.problem.n_labels * (min(nonzeros, self.most_rows) + 10) + nonzeros

    def fold_cost(self, nonzeros: int) -> int:
        return 5 * self.problem.n_labels * (min(nonzeros, self.most_rows) + 10) + 2 * nonzeros

    def warnings(self, state: FastCbState, /) -> list[str]:
        return super().warnings(state) + outlier_warnings(int(state.counts[_OUTLIERS]))

    def contributions(self, state: FastCbState, contexts: Contexts, /) -> FloatArray:
        """Return what each of m entries adds to the models' mean score, weighted as in the mixture, (m, K).

        The last entry includes what centred features that are zero in this context add.
        """
        share, rows = share_of_softmax(state.sums[_LABELS], state.sums[_SOFTMAX]), rows_of_entries(state, contexts)

        def mixed(i: IntArray) -> FloatArray:
            weights: FloatArray = (1.0 - share) * state.label_weights[i] + share * state.softmax_weights[i]
            return weights

        centred = _centred_rows(state.counts, len(state.means))
        measured = state.scales, state.means, state.rounds.item(), centred
        return added_by_entries(*measured, rows, contexts.values, mixed)

    @property
    def kernels(self) -> Kernels:
        K = self.problem.n_labels
        growth = max(1.0, min(K / 10.0, math.sqrt(K) / 2.0))
        threshold = -math.log(self.restart_risk) if self.restart_risk > 0.0 else math.inf
        steps = self.learning_rate, growth, threshold
        return Kernels(_Parameters(self.gap_scale, self.least_exploration, *steps), _decide, _fold, locate)


@compiled
def _decide(
    parameters: _Parameters,
    state: FastCbState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    _: FloatArray,
) -> None:
    K, scales, W, V = distributions.shape[1], state.scales, state.label_weights, state.softmax_weights
    means, seen, centred = (state.means, state.rounds.item(), _centred_rows(state.counts, len(state.means)))
    room = most_entries(contexts.starts) + centred
    scratch = np.empty(2 * K + 2 * room)  # one array, because each allocation takes as long as several scores
    h, of_one, relative = scratch[:K], scratch[K : 2 * K], scratch[2 * K : 2 * K + room]
    where = scratch[2 * K + room :].view(np.int64)
    gap_weight = max(_LEAST_GAP_WEIGHT * K, parameters.gap_scale * math.sqrt(K * (1.0 + state.sums[_LOSS])))
    share = share_of_softmax(state.sums[_LABELS], state.sums[_SOFTMAX])
    for i in range(len(distributions)):
        indices, values = row(contexts, i)
        entries = write_relative(scales, means, seen, centred, indices, values, where, relative)
        n = mix(share, W, V, where[:entries], relative[:entries], eligible, i, of_one, h)
        weigh_by_relative_gap(h[:n], gap_weight, parameters.least_exploration, distributions[i][:n])
        widen(eligible, i, distributions[i])


@compiled
def _centred_rows(counts: IntArray, rows: int) -> int:
    """Return the number of leading rows that may be centred; 0 if there is no intercept."""
    return min(rows, counts[_CENTRED]) if counts[_INTERCEPT] > 0 else 0


@compiled
def _fold(parameters: _Parameters, state: FastCbState, rounds: Rounds) -> None:
    W, G, V, H = state.label_weights, state.label_information, state.softmax_weights, state.softmax_information
    scales, means, sums, change, counts = state.scales, state.means, state.sums, state.change, state.counts
    K, most, seen = W.shape[1], most_entries(rounds.contexts.starts), state.rounds.item()
    counts[_CENTRED] = min(counts[_CENTRED], len(means))  # a corrupt count must not allocate too much
    room = most + counts[_CENTRED]
    scratch = np.empty(K + 2 * room)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        k, reward = rounds.labels[t], rounds.rewards[t]
        if parameters.change_threshold < math.inf:
            past = Past(counts[_ROUNDS], sums[_LOSS])
            if detect_change(change, past, 1.0 - reward, parameters.change_threshold, K):
                _restart(W, G, V, H, sums, change, counts)
        seen += 1
        counts[_ROUNDS] += 1
        sums[_LOSS] += 1.0 - reward
        if parameters.change_threshold < math.inf:
            note_round(change, counts[_ROUNDS], 1.0 - reward)
        centring = seen == 1 or counts[_INTERCEPT] > 0  # in the first round, any feature may be the intercept
        counts[_CENTRED], centring, far = measure(scales, means, seen, counts[_CENTRED], centring, indices, values)
        counts[_INTERCEPT] = 1 if centring else 0
        counts[_OUTLIERS] += 1 if far else 0
        if room < most + counts[_CENTRED]:
            room = most + counts[_CENTRED]
            scratch = np.empty(K + 2 * room)
        q, relative, where = scratch[:K], scratch[K : K + room], scratch[K + room :].view(np.int64)
        n = write_relative(scales, means, seen, _centred_rows(counts, len(means)), indices, values, where, relative)
        i, z = where[:n], relative[:n]
        size = size_of(z)
        sums[_SIZES] += size
        step = parameters.learning_rate * math.sqrt(counts[_ROUNDS] / sums[_SIZES]) if sums[_SIZES] > 0.0 else 0.0
        of_label = teach_label(step, W, G, k, reward, i, z, size)
        if has_choice(rounds.eligible, t):
            sums[_LABELS] += of_label
            sums[_SOFTMAX] += teach_softmax(step, parameters.growth, V, H, rounds, t, i, z, size, q)
    state.rounds[()] = seen


@compiled
def _restart(
    W: FloatArray, G: FloatArray, V: FloatArray, H: FloatArray, sums: FloatArray, change: FloatArray, counts: IntArray
) -> None:
    W[:] = 0.0
    G[:] = 0.0
    V[:] = 0.0
    H[:] = 0.0
    sums[:] = 0.0
    change[:] = 0.0
    counts[_ROUNDS] = 0
    counts[_RESTARTS] += 1


class FastCbActionsState(NamedTuple):
    """12 numbers for each of R rows, and a few more. R doubles when new features need rows."""

    features: RowFeatures
    slots: RowSlots
    row_counts: RowCounts
    scales: Annotated[FloatArray, Layout("float64", ("R", "6"), least=0.0)]
    means: Annotated[FloatArray, Layout("float64", ("R",))]
    weights: RowVectors  # w, which multiplies relative values; one column
    information: RowSquares  # sums of squared gradients, one column
    sums: Annotated[FloatArray, Layout("float64", ("2",), least=0.0)]  # Σ (1 - reward), Σ ‖z‖²
    counts: Annotated[IntArray, Layout("int64", ("3",), least=0.0)]
    """Rounds with outliers, whether there is an intercept, and 1 + the last centred row."""
    rounds: Count  # rounds folded so far


@hyperparameters
class FastCbActions(GrowingRows, CompiledActionLearner[FastCbActionsState]):
    """A logistic regression of the reward on a candidate's features: O(nnz) per candidate and per update; recommended.

    Memory is 12 numbers per row. Rows double as features occur, up to `max_features`. Features need no scaling, as
    in `fastcb` for labels. The regression predicts each candidate's reward f. With l = 1 - f_leader, L the sum of
    1 - reward over the past rounds, K eligible candidates and γ = max(10 K, c √(K (1 + L))), each other candidate a is
    chosen with probability l/(K l + γ (f_leader - f_a)), and the leader with the rest. Late feedback updates the
    current regression. A new candidate is scored by its features and needs no history.
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
        return uncovered(
            "γ grows with the losses, and no bound is proved for the regret of the regression",
            "the exploration with a fixed γ, at least 10 K and tuned to L* and R, over predictions with regret R in "
            "log loss against the true expected rewards; its expected regret is of order √(K L* R) + K R, where L* is "
            "the expected loss of the best candidate of each round, and each round is folded before the next "
            "prediction (Foster and Krishnamurthy 2021)",
        )

    def decide_cost(self, nonzeros: int) -> int:
        return 2 * min(nonzeros, self.most_rows) + nonzeros + 10

    def fold_cost(self, nonzeros: int) -> int:
        return 5 * min(nonzeros, self.most_rows) + 2 * nonzeros + 10

    def warnings(self, state: FastCbActionsState, /) -> list[str]:
        return super().warnings(state) + outlier_warnings(int(state.counts[_OUTLIERS]))

    def contributions(self, state: FastCbActionsState, vector: Contexts, /) -> FloatArray:
        """Return what each of the m entries of a vector adds to the log-odds of the reward, (m,).

        The last entry includes what centred features that are zero in this vector add.
        """
        measured = (state.scales, state.means, state.rounds.item(), _centred_rows(state.counts, len(state.means)))
        rows = rows_of_entries(state, vector)
        return added_by_entries(*measured, rows, vector.values, lambda i: state.weights[i])[:, 0]

    @property
    def kernels(self) -> Kernels:
        return Kernels(
            _Parameters(self.gap_scale, self.least_exploration, self.learning_rate, 1.0, math.inf),
            _decide_actions,
            _fold_actions,
        )

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
def _chance(w: FloatArray, where: IntArray, z: FloatArray, n: int) -> float:
    """Return the predicted reward of a candidate with n relative values z, in the rows `where`."""
    s = 0.0
    for position in range(n):
        s += z[position] * w[where[position], 0]
    return min(1.0 - LEAST_CHANCE, max(LEAST_CHANCE, 1.0 / (1.0 + math.exp(-s))))


@compiled
def _decide_actions(
    parameters: _Parameters, state: FastCbActionsState, candidates: Candidates, distributions: FloatArray
) -> None:
    vectors, starts, eligible = in_rows(state, candidates.vectors, READ), candidates.starts, candidates.eligible
    w, scales, means, seen = state.weights, state.scales, state.means, state.rounds.item()
    centred, losses = (_centred_rows(state.counts, len(state.means)), state.sums[_ACTION_LOSS])
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
def _fold_actions(parameters: _Parameters, state: FastCbActionsState, rounds: ActionRounds) -> None:
    chosen, w, information = in_rows(state, rounds.chosen, ADD_OR_IGNORE), state.weights, state.information
    scales, means, sums, counts, seen = state.scales, state.means, state.sums, state.counts, state.rounds.item()
    most = most_entries(chosen.starts)
    counts[_CENTRED] = min(counts[_CENTRED], len(means))  # a corrupt count must not allocate too much
    room = most + counts[_CENTRED]
    relative, where = np.empty(room), np.empty(room, np.int64)
    for t in range(len(rounds.rewards)):
        indices, values = row(chosen, t)
        seen += 1
        sums[_ACTION_LOSS] += 1.0 - rounds.rewards[t]
        centring = seen == 1 or counts[_INTERCEPT] > 0  # in the first round, any feature may be the intercept
        counts[_CENTRED], centring, far = measure(scales, means, seen, counts[_CENTRED], centring, indices, values)
        counts[_INTERCEPT] = 1 if centring else 0
        counts[_OUTLIERS] += 1 if far else 0
        if room < most + counts[_CENTRED]:
            room = most + counts[_CENTRED]
            relative, where = np.empty(room), np.empty(room, np.int64)
        n = write_relative(scales, means, seen, _centred_rows(counts, len(means)), indices, values, where, relative)
        z = relative[:n]
        size = size_of(z)
        sums[_ACTION_SIZES] += size
        step = parameters.learning_rate * math.sqrt(seen / sums[_ACTION_SIZES]) if sums[_ACTION_SIZES] > 0.0 else 0.0
        teach_label(step, w, information, 0, rounds.rewards[t], where[:n], z, size)
    state.rounds[()] = seen
