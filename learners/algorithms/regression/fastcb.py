"""FastCB: exploration in proportion to the loss, over a mixture of logistic models.

Dylan Foster, Akshay Krishnamurthy, "Efficient First-Order Contextual Bandits: Prediction, Allocation, and Triangular
Discrimination", NeurIPS 2021, for the exploration. Its oracle mixes up to five experts: `logistic_models` with steps
for each weight, the same models with `whitened_steps`, and the reward rates of the labels. `feature_scales` makes
values independent of units, and of offsets if there is an intercept.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.algorithms.regression.change_test import ChangeTest, Past, detect_change, note_round
from learners.algorithms.regression.expert_mixture import ABSENT, LEAST_WEIGHT, SHARE, reweigh
from learners.algorithms.regression.feature_scales import (
    CENTRED,
    INTERCEPT,
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
    GrowingLearner,
    RowCounts,
    RowFeatures,
    RowSlots,
    first_rows,
    highest_row,
    locate,
    rows_of_entries,
)
from learners.algorithms.regression.logistic_models import (
    LEAST_CHANCE,
    RowInformation,
    RowWeights,
    add_chances,
    clipped,
    log_loss,
    step_size,
    teach_label,
    teach_softmax,
)
from learners.algorithms.regression.whitened_steps import WhitenedWeights, Whitening, step_label, step_softmax, whiten
from learners.base import BaseRates, BoolArray, Contexts, FloatArray, IntArray, NormPolicy, Prices, Rounds
from learners.borrowed import borrowed
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, count, has_choice, most_entries, narrow, row, widen
from learners.layouts import MOST_SQUARED, Count, Layout
from learners.learner import WithoutEvidence
from learners.mathematics.exploration import GapWeight, weigh_by_relative_gap
from learners.mathematics.guarantees import uncovered
from learners.mathematics.pacing import Pacing
from learners.mathematics.prices import penalize

_LARGE_OVERLAP = 64.0  # mean overlap of contexts from which noise may swamp what weights learn
_FEW_LABELS = 20  # with more, each has so few rewards that weights must learn all they can from them
_LARGE_PRODUCT = 12.0
"""The mean (z'z₂)² of consecutive contexts from which whitened models take part: about d for d uncorrelated features,
and more for correlated ones. From less, they learn so fast that they are sure of labels that were hardly served, and
exploration ends."""

_LABEL, _SOFTMAX, _WHITENED_LABEL, _WHITENED_SOFTMAX, _RATES = range(5)  # positions in `FastCbState.experts`
_REWARDS, _SERVED = range(2)  # rows of `FastCbState.rates`
_LOSS, _SIZES, _OVERLAPS, _PRODUCTS = range(4)  # positions in `FastCbState.sums`
_ROUNDS, _RESTARTS, _USED, _LEARNED = range(4)  # positions in `FastCbState.counts`; `feature_scales` has the others


class FastCbState(NamedTuple):
    """4·K + 12 numbers for each of R rows, 2·K + S + 1 for the first S, and a few more. R doubles when rows occur."""

    features: RowFeatures
    slots: RowSlots
    row_counts: RowCounts
    scales: Annotated[FloatArray, Layout("float64", ("R", "7"), least=0.0)]
    means: Annotated[FloatArray, Layout("float64", ("R",))]
    latest: Annotated[IntArray, Layout("int64", ("R",), least=0.0)]  # the last round with the feature
    label_weights: RowWeights  # W of the one-vs-rest model
    label_information: RowInformation  # G, sums of squared gradients
    softmax_weights: RowWeights  # V of the softmax model
    softmax_information: RowInformation  # H, sums of squared gradients
    previous: Annotated[FloatArray, Layout("float64", ("S",), least=-5.0, most=5.0)]  # z of the last round
    whitening: Whitening
    whitened_label_weights: WhitenedWeights
    whitened_softmax_weights: WhitenedWeights
    curvature: Annotated[FloatArray, Layout("float64", ("2", "K"), least=0.0)]  # of the whitened models
    rates: Annotated[FloatArray, Layout("float64", ("2", "K"), least=0.0)]  # the reward and the rounds of each label
    experts: Annotated[
        FloatArray, Layout("float64", ("5",), least=0.0, most=1.0)
    ]  # weights in the mixture; their sum is 1
    sums: Annotated[FloatArray, Layout("float64", ("4",), least=0.0)]
    """Σ (1 - reward), Σ ‖z‖², Σ overlap, and Σ (z'z₂)² of consecutive contexts."""
    change: ChangeTest
    counts: Annotated[IntArray, Layout("int64", ("7",), least=0.0)]
    """Rounds since the last restart, restarts, rows in use, rounds that `whitening` has learned, rounds with outliers,
    whether there is an intercept, and 1 + the last centred row."""
    rounds: Count  # rounds folded so far
    pacing: Pacing


class _Parameters(NamedTuple):
    gap_scale: float
    least_exploration: float
    learning_rate: float
    growth: float  # the factor of the softmax model's steps
    discount: float  # of sums, per round
    change_threshold: float  # nats; infinite for no restarts


@hyperparameters
class FastCb(WithoutEvidence, GrowingLearner[FastCbState]):
    """A mixture of logistic models that explores in proportion to its loss: O(K·nnz) per round; recommended.

    Memory is 4·K + 12 numbers per row, and at most 6,480 + 160·K more. Rows double as features occur, up to
    `max_features`. Contexts need no scaling: each feature is divided by its typical size, and if one feature never
    changes, features that nearly all contexts have are taken relative to their mean. A logistic regression per label
    and one softmax regression predict each label's probability of being right. Where contexts have about 12 values or
    more, or fewer correlated ones, both exist a second time for the first 80 features, with whitened steps. Without
    features, and with up to 20 labels if contexts overlap much, as embeddings do, the labels' reward rates are an
    expert too. The mixture h weighs experts by their likelihood of recent feedback. With L and R the sums of 1 - reward
    and of rewards since the last restart, γ = max(10 K, c √(K (1 + min(L, K R)))) and l = min(1 - h_leader,
    K h_leader), each other label k is answered with probability l/(K l + γ (h_leader - h_k)), and the leader with the
    rest. Late feedback updates the current models, at scores recomputed for its context.
    """

    algorithm = "fastcb"
    # the steps do not depend on the scale of the features
    norm_policy: ClassVar[NormPolicy] = "none"
    smaller = "fewer features or a smaller max_features"
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = True
    weighs_costs: ClassVar[bool] = True
    state_type = FastCbState

    gap_scale: Annotated[float, pydantic.Field(ge=1e-3, le=1e6)] = 8.0
    """c of γ: larger values explore less."""
    least_exploration: LeastExploration = 0.0
    """ε, an additional share of uniform exploration, for non-stationary data and for logs that train other learners."""
    learning_rate: Annotated[float, pydantic.Field(gt=0, le=1e3)] = 32.0
    """η of the one-vs-rest model; that of the softmax model grows with the number of labels."""
    half_life_rounds: HalfLife = None
    """For data that drift slowly."""
    restart_risk: Annotated[float, pydantic.Field(ge=0, le=0.1)] = 0.0
    """α: restart from zero weights after more mistakes than a stationary stream explains. If the probability of a
    mistake never exceeds the share of mistakes so far, T rounds cause a restart with probability at most α T. 0 never
    restarts. Use 1e-9 for data that change abruptly."""

    @property
    def guarantee(self) -> str:
        extra = " + ε T" if self.least_exploration > 0.0 else ""
        return uncovered(
            "γ grows with the mistakes, and no bound is proved for the regret of the models. It is proved that the log "
            "loss of their mixture, evaluated when each round is folded, exceeds that of any one expert, while the "
            f"same experts take part, by at most {math.log(_RATES + 1) - math.log(SHARE):.1f} + "
            f"{-math.log1p(-SHARE):.4f} T over T rounds"
            f"{self._restart_guarantee}. Decisions leave out experts whose weight is below {LEAST_WEIGHT:.0%}",
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
        entries = min(nonzeros, self.most_rows)
        return 2 * self.problem.n_labels * (entries + min(entries, MOST_SQUARED) + 20) + nonzeros

    def fold_cost(self, nonzeros: int) -> int:
        entries, squared = min(nonzeros, self.most_rows), min(self.most_rows, MOST_SQUARED)
        return 8 * self.problem.n_labels * (entries + 10) + 2 * squared * squared + 2 * nonzeros

    def init(self) -> FastCbState:
        state: FastCbState = super().init()
        state.experts[:] = 1.0 / len(state.experts)
        return state

    def warnings(self, state: FastCbState, /) -> list[str]:
        return super().warnings(state) + outlier_warnings(int(state.counts[OUTLIERS]))

    def base_rates(self, state: FastCbState, /) -> BaseRates:
        rates = (state.rates[_REWARDS] + 0.5) / (state.rates[_SERVED] + 1.0)
        return BaseRates(np.clip(rates, LEAST_CHANCE, 1.0 - LEAST_CHANCE), float(state.experts[_RATES]))

    def contributions(self, state: FastCbState, contexts: Contexts, /) -> FloatArray:
        """Return what each of m entries adds to the models' mean score, weighted as in the mixture, (m, K).

        The last entry includes what centred features that are zero in this context add.
        """
        weights, squared = state.experts, len(state.whitening)

        def mixed(i: IntArray) -> FloatArray:
            added: FloatArray = weights[_LABEL] * state.label_weights[i] + weights[_SOFTMAX] * state.softmax_weights[i]
            near = i < squared
            added[near] += weights[_WHITENED_LABEL] * state.whitened_label_weights[i[near]]
            added[near] += weights[_WHITENED_SOFTMAX] * state.whitened_softmax_weights[i[near]]
            return added

        measured = state.scales, state.means, state.rounds.item(), centred_rows(state.counts, len(state.means))
        return added_by_entries(*measured, rows_of_entries(state, contexts), contexts.values, mixed)

    @property
    def kernels(self) -> Kernels:
        K = self.problem.n_labels
        growth = max(1.0, min(K / 10.0, math.sqrt(K) / 2.0))
        threshold = -math.log(self.restart_risk) if self.restart_risk > 0.0 else math.inf
        steps = self.learning_rate, growth, discount(self.half_life_rounds), threshold
        return Kernels(_Parameters(self.gap_scale, self.least_exploration, *steps), _decide, _fold, locate)


# --- decide


@compiled
def _decide(
    parameters: _Parameters,
    owned: FastCbState,
    contexts: Contexts,
    eligible: BoolArray,
    prices: Prices,
    distributions: FloatArray,
    _: FloatArray,
) -> None:
    state, K = borrowed(owned), distributions.shape[1]
    scales, means, counts, seen = state.scales, state.means, state.counts, state.rounds.item()
    room = most_entries(contexts.starts) + centred_rows(counts, len(means))
    scratch = np.empty(2 * K + 2 * room)  # one array, because each allocation takes as long as several scores
    h, s, relative = scratch[:K], scratch[K : 2 * K], scratch[2 * K : 2 * K + room]
    where = scratch[2 * K + room :].view(np.int64)
    loss = state.sums[_LOSS]
    weight = GapWeight(parameters.gap_scale, K, loss, counts[_ROUNDS] - loss)
    for i in range(len(distributions)):
        indices, values = row(contexts, i)
        n = relative_values(scales, means, counts, seen, indices, values, where, relative)
        among = _predict(state, where[:n], relative[:n], eligible, i, s, h)
        penalties = penalize(prices, eligible, i, s)
        weigh_by_relative_gap(h[:among], penalties, weight, parameters.least_exploration, distributions[i][:among])
        widen(eligible, i, distributions[i])


@compiled
def _predict(
    state: FastCbState, where: IntArray, z: FloatArray, eligible: BoolArray, i: int, s: FloatArray, h: FloatArray
) -> int:
    """Write the mixture for the K' labels eligible in context i to h[:K']; return K'. Overwrites s (K,)."""
    experts, h[:] = state.experts, 0.0
    near = first_rows(where, z, len(state.whitening))
    W, V = state.label_weights, state.softmax_weights
    total = add_chances(experts[:_WHITENED_LABEL], W, V, where, z, eligible, i, s, h)
    W, V = state.whitened_label_weights, state.whitened_softmax_weights
    total += add_chances(experts[_WHITENED_LABEL:_RATES], W, V, where[:near], z[:near], eligible, i, s, h)
    if experts[_RATES] >= LEAST_WEIGHT or total == 0.0:  # only a corrupt state favours no expert
        total = max(1e-300, total + experts[_RATES])
        _add_rates(experts[_RATES], state.rates, eligible, i, s, h)
    n = len(h) if eligible.shape[1] == 0 else count(eligible, i)
    for k in range(n):
        h[k] = clipped(h[k] / total)
    return n


@compiled
def _add_rates(weight: float, rates: FloatArray, eligible: BoolArray, i: int, s: FloatArray, h: FloatArray) -> None:
    for k in range(len(s)):
        s[k] = _rate(rates, k)
    for k in range(narrow(eligible, i, s)):
        h[k] += weight * s[k]


@compiled
def _rate(rates: FloatArray, k: int) -> float:
    """Return the reward rate of label k, as if half a reward in one more round had come first."""
    return clipped((rates[_REWARDS, k] + 0.5) / (rates[_SERVED, k] + 1.0))


# --- fold


class _Models(NamedTuple):
    """The models with steps for each weight, as in `FastCbState`."""

    label_weights: FloatArray
    label_information: FloatArray
    softmax_weights: FloatArray
    softmax_information: FloatArray


class _WhitenedModels(NamedTuple):
    """The models with whitened steps, as in `FastCbState`."""

    whitening: FloatArray
    label_weights: FloatArray
    softmax_weights: FloatArray
    curvature: FloatArray


@compiled
def _fold(parameters: _Parameters, owned: FastCbState, owned_rounds: Rounds) -> None:
    state, rounds = borrowed(owned), borrowed(owned_rounds)
    W, G, V, H = state.label_weights, state.label_information, state.softmax_weights, state.softmax_information
    models, (A, curvature) = _Models(W, G, V, H), (state.whitening, state.curvature)
    whitened = _WhitenedModels(A, state.whitened_label_weights, state.whitened_softmax_weights, curvature)
    scales, means, sums, counts, rates = state.scales, state.means, state.sums, state.counts, state.rates
    counts[CENTRED] = min(counts[CENTRED], len(means))  # a corrupt count must not allocate too much
    K, most = rates.shape[1], most_entries(rounds.contexts.starts)
    room = most + counts[CENTRED]
    scratch, v, losses = np.empty(K + 2 * room), np.empty(len(A)), np.empty(len(state.experts))
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        if parameters.change_threshold < math.inf:
            _restart_after_change(parameters, state, rounds.rewards[t])
        seen = _count(state.rounds, counts, sums, rounds.rewards[t])
        measure(scales, means, counts, seen, indices, values)
        if room < most + counts[CENTRED]:
            room = most + counts[CENTRED]
            scratch = np.empty(K + 2 * room)
        q, relative, where = scratch[:K], scratch[K : K + room], scratch[K + room :].view(np.int64)
        n = relative_values(scales, means, counts, seen, indices, values, where, relative)
        i, z = where[:n], relative[:n]
        counts[_USED] = max(counts[_USED], highest_row(i))
        _forget(parameters.discount, seen, state.latest, i, models, curvature, rates)
        losses[:] = ABSENT
        if K <= _FEW_LABELS:
            sums[_OVERLAPS] += overlap_of(scales, seen, i, z)
        _teach(parameters, models, sums, counts[_ROUNDS], rounds, t, i, z, q, losses)
        fits = counts[_USED] <= len(A) or state.experts[_WHITENED_LABEL:_RATES].sum() >= LEAST_WEIGHT
        near = first_rows(i, z, len(A))
        sums[_PRODUCTS] += _squared_product(state.previous, i[:near], z[:near])
        if fits and sums[_PRODUCTS] >= _LARGE_PRODUCT * counts[_ROUNDS]:
            _teach_whitened(whitened, counts, rounds, t, i[:near], z[:near], q, v, losses)
        is_constant = counts[_USED] <= 1 and counts[INTERCEPT] > 0
        helps = is_constant or sums[_OVERLAPS] > _LARGE_OVERLAP * counts[_ROUNDS]
        _teach_rates(rates, helps, rounds.labels[t], rounds.rewards[t], losses)
        if has_choice(rounds.eligible, t):
            reweigh(state.experts, losses)


@compiled
def _squared_product(previous: FloatArray, where: IntArray, z: FloatArray) -> float:
    """Return (z'z₂)² for the previous context z₂ (S,), which z then replaces."""
    product = 0.0
    for position in range(len(z)):
        product += z[position] * previous[where[position]]
    previous[:] = 0.0
    for position in range(len(z)):
        previous[where[position]] = z[position]
    return product * product


@compiled
def _count(folded: IntArray, counts: IntArray, sums: FloatArray, reward: float) -> int:
    """Count a round; return the number of rounds so far."""
    folded[()] += 1
    counts[_ROUNDS] += 1
    sums[_LOSS] += 1.0 - reward
    seen: int = folded.item()
    return seen


@compiled
def _teach_rates(rates: FloatArray, helps: bool, label: int, reward: float, losses: FloatArray) -> None:
    """Update the reward rates; write their loss if they help."""
    if helps:
        losses[_RATES] = log_loss(_rate(rates, label), reward)
    rates[_REWARDS, label] += reward
    rates[_SERVED, label] += 1.0


@compiled
def _restart_after_change(parameters: _Parameters, state: FastCbState, reward: float) -> None:
    """Test a round for a change, and restart before it if there is one."""
    past, loss = Past(state.counts[_ROUNDS], state.sums[_LOSS]), 1.0 - reward
    if detect_change(state.change, past, loss, parameters.change_threshold, state.rates.shape[1]):
        _restart(state)
    note_round(state.change, state.counts[_ROUNDS] + 1, loss)


@compiled
def _restart(state: FastCbState) -> None:
    for weights in (state.label_weights, state.label_information, state.softmax_weights, state.softmax_information):
        weights[:] = 0.0
    for weights in (state.whitened_label_weights, state.whitened_softmax_weights, state.curvature, state.rates):
        weights[:] = 0.0
    state.sums[:] = 0.0
    state.change[:] = 0.0
    state.experts[:] = 1.0 / len(state.experts)
    state.counts[_ROUNDS] = 0
    state.counts[_RESTARTS] += 1


@compiled
def _forget(
    factor: float,
    seen: int,
    latest: IntArray,
    where: IntArray,
    models: _Models,
    curvature: FloatArray,
    rates: FloatArray,
) -> None:
    """Discount the sums that this round reads, if anything is forgotten."""
    if factor < 1.0:
        forget_rows(factor, seen, latest, where, models.label_information)
        forget_rows(factor, seen, latest, where, models.softmax_information)
        curvature *= factor
        rates *= factor
    for i in where:
        latest[i] = seen


@compiled
def _teach(
    parameters: _Parameters,
    models: _Models,
    sums: FloatArray,
    counted: int,
    rounds: Rounds,
    t: int,
    where: IntArray,
    z: FloatArray,
    q: FloatArray,
    losses: FloatArray,
) -> None:
    """Update the models by steps for each weight, and write their losses."""
    (W, G, V, H), size = models, size_of(z)
    sums[_SIZES] += size
    step = parameters.learning_rate * step_size(counted, sums[_SIZES], sums[_OVERLAPS])
    losses[_LABEL] = teach_label(step, W, G, rounds.labels[t], rounds.rewards[t], where, z, size)
    if has_choice(rounds.eligible, t):
        losses[_SOFTMAX] = teach_softmax(step, parameters.growth, V, H, rounds, t, where, z, size, q)


@compiled
def _teach_whitened(
    models: _WhitenedModels,
    counts: IntArray,
    rounds: Rounds,
    t: int,
    where: IntArray,
    z: FloatArray,
    q: FloatArray,
    v: FloatArray,
    losses: FloatArray,
) -> None:
    """Update the models by whitened steps, and write their losses."""
    A, W, V, curvature = models
    counts[_LEARNED] += 1
    whitened = whiten(A, counts[_LEARNED], min(counts[_USED], len(A)), where, z, v)
    label, reward = rounds.labels[t], rounds.rewards[t]
    losses[_WHITENED_LABEL] = step_label(W, curvature[0], label, reward, where, z, whitened)
    if has_choice(rounds.eligible, t):
        losses[_WHITENED_SOFTMAX] = step_softmax(V, curvature[1], rounds, t, where, z, whitened, q)
