"""FastCB: exploration that falls with the loss, over a mixture of one-vs-rest logistic and softmax regression.

Dylan Foster, Akshay Krishnamurthy, "Efficient First-Order Contextual Bandits: Prediction, Allocation, and Triangular
Discrimination", NeurIPS 2021, for the exploration. Its oracle is `logistic_mixture`, on values that `feature_scales`
makes independent of units, and of offsets if there is an intercept.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.algorithms.regression.change_test import ChangeTest, Past, detect_change, note_round
from learners.algorithms.regression.feature_scales import added_by_entries, measure, size_of, write_relative
from learners.algorithms.regression.growing_learner import (
    GrowingLearner,
    RowCounts,
    RowFeatures,
    RowSlots,
    locate,
    rows_of_entries,
)
from learners.algorithms.regression.logistic_mixture import mix, share_of_softmax, teach_label, teach_softmax
from learners.base import BoolArray, Contexts, FloatArray, IntArray, NormPolicy, Rounds
from learners.checked_learner import WithoutEvidence
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, has_choice, most_entries, row, widen
from learners.layouts import Count, Layout, RowSquares, RowVectors
from learners.mathematics.exploration import weigh_by_relative_gap
from learners.mathematics.guarantees import uncovered

_LEAST_GAP_WEIGHT = 10.0
"""γ is at least 10 K, as in the theorem."""

_LABELS, _SOFTMAX, _SIZES, _LOSS = range(4)
"""Positions in `FastCbState.sums`."""

_ROUNDS, _RESTARTS, _INTERCEPT, _CENTRED = range(4)
"""Positions in `FastCbState.counts`."""


class FastCbState(NamedTuple):
    """4·K + 8 numbers for each of R rows, and a few more. R doubles as features occur. Weights are for relative values.

    Sums and counts share arrays because compiled code is faster with fewer of them.
    """

    features: RowFeatures
    slots: RowSlots
    row_counts: RowCounts
    scales: Annotated[FloatArray, Layout("float64", ("R", "4"), least=0.0)]
    means: Annotated[FloatArray, Layout("float64", ("R",))]
    label_weights: RowVectors  # W of the one-vs-rest model
    label_information: RowSquares  # G, sums of squared gradients
    softmax_weights: RowVectors  # V of the softmax model
    softmax_information: RowSquares  # H, sums of squared gradients
    sums: Annotated[FloatArray, Layout("float64", ("4",), least=0.0)]  # log losses of both models on the bits, N, L
    change: ChangeTest
    counts: Annotated[IntArray, Layout("int64", ("4",), least=0.0)]
    """Rounds t since a restart, restarts, whether there is an intercept, 1 + the last centred row."""
    rounds: Count  # rounds folded so far


class _Parameters(NamedTuple):
    """The hyperparameters in the form that the kernels take."""

    gap_scale: float
    least_exploration: float
    learning_rate: float
    growth: float  # of the softmax model's steps
    change_threshold: float  # nats; infinite for no restarts


@hyperparameters
class FastCb(WithoutEvidence, GrowingLearner[FastCbState]):
    """Mixture of two logistic regressions, explored in proportion to the loss: O(K·nnz) per round; recommended.

    Memory is 4·K + 8 numbers per row. Rows double as features occur, up to `max_features`. Contexts may be as measured:
    features are taken in units of their size, and those of nearly all contexts relative to their mean, if one feature
    never changes. Two models predict each label's probability of being right: a logistic regression per label, and one
    softmax regression. Their mixture h weighs them by their likelihood of the past bits. With l = 1 - h of the leader,
    L the sum of 1 - reward since the last restart (the wrong answers) and γ = max(10 K, c √(K (1 + L))), each other
    label k is answered with probability l/(K l + γ (h_leader - h_k)), and the leader with the rest. Late feedback
    updates the current models, at scores recomputed for its context.
    """

    algorithm = "fastcb"
    # the steps are scale-free
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
        """See `Learner.guarantee`."""
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
        """Return the multiply-adds of two scores for each of K labels, for features with a row."""
        return 2 * self.problem.n_labels * (min(nonzeros, self.most_rows) + 10) + nonzeros

    def fold_cost(self, nonzeros: int) -> int:
        """Return the cost of the scores and of steps for all labels."""
        return 5 * self.problem.n_labels * (min(nonzeros, self.most_rows) + 10) + 2 * nonzeros

    def contributions(self, state: FastCbState, contexts: Contexts, /) -> FloatArray:
        """Return what each entry adds to the mean of both models' scores, weighted as in the mixture, (m, K).

        The last entry, the constant if there is one, includes what centred features add where they are zero.
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
        """Decides by relative inverse-gap weighting; takes one step on each regression."""
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
    means, seen, centred = state.means, state.rounds.item(), _centred_rows(state.counts, len(state.means))
    room = most_entries(contexts.starts) + centred
    scratch = np.empty(2 * K + 2 * room)  # one allocation: it costs as much as some scores
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
    """Return the number of leading rows that may be centred: none without an intercept."""
    return min(rows, counts[_CENTRED]) if counts[_INTERCEPT] > 0 else 0


@compiled
def _fold(parameters: _Parameters, state: FastCbState, rounds: Rounds) -> None:
    W, G, V, H = state.label_weights, state.label_information, state.softmax_weights, state.softmax_information
    scales, means, sums, change, counts = state.scales, state.means, state.sums, state.change, state.counts
    K, most, seen = W.shape[1], most_entries(rounds.contexts.starts), state.rounds.item()
    counts[_CENTRED] = min(counts[_CENTRED], len(means))  # a corrupt count must not allocate memory
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
        centring = seen == 1 or counts[_INTERCEPT] > 0  # an intercept is there from the first round on
        counts[_CENTRED], centring = measure(scales, means, seen, counts[_CENTRED], centring, indices, values)
        counts[_INTERCEPT] = 1 if centring else 0
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
    W: FloatArray,
    G: FloatArray,
    V: FloatArray,
    H: FloatArray,
    sums: FloatArray,
    change: FloatArray,
    counts: IntArray,
) -> None:
    """Forget everything but the features and their scales."""
    W[:] = 0.0
    G[:] = 0.0
    V[:] = 0.0
    H[:] = 0.0
    sums[:] = 0.0
    change[:] = 0.0
    counts[_ROUNDS] = 0
    counts[_RESTARTS] += 1
