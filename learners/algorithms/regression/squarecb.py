"""SquareCB: inverse-gap weighting over one-vs-rest logistic regression that learns from every round, unweighted.

Dylan Foster, Alexander Rakhlin, "Beyond UCB: Optimal and Efficient Contextual Bandits with Regression Oracles",
ICML 2020, for the exploration. Its oracle is online logistic regression with one step size per weight, invariant to
the features' scales: John Duchi, Elad Hazan, Yoram Singer, "Adaptive Subgradient Methods", JMLR 2011, and
Stéphane Ross, Paul Mineiro, John Langford, "Normalized Online Learning", UAI 2013 (Algorithm 2, NAG).
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.algorithms.regression.feature_scales import ENOUGH, FAR, RUN, outlier_warnings
from learners.base import BoolArray, Contexts, FloatArray, IntArray, NormPolicy, Prices, Rounds
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, most_entries, narrow, row, widen
from learners.layouts import Count, LabelVectors, Layout, NonNegativeScalar, zero_state
from learners.learner import CompiledLearner, WithoutEvidence
from learners.mathematics.exploration import logistic, weigh_by_gap
from learners.mathematics.linear_algebra import score_row
from learners.mathematics.pacing import Pacing
from learners.mathematics.prices import penalize

_LARGEST_WEIGHT = 20.0
"""B: the largest contribution of one feature to a label's log-odds. It keeps the state finite for any data."""

_SMALLEST_SIZE = 1e-100  # the first S_i; smaller values, whose squares could underflow, have almost no effect

_LARGEST_GROWTH = 8.0
"""Values are clipped to this multiple of their feature's size, so that one outlier does little harm."""

_VALUES, _SMALL, _LARGEST_SMALL = range(3)  # columns of `measured`


class SquareCbState(NamedTuple):
    """2·K·d + 4·d numbers, and three scalars."""

    weights: LabelVectors  # W
    gradient_sums: Annotated[FloatArray, Layout("float64", ("d", "K"), least=0.0)]  # G, sums of squared gradients
    sizes: Annotated[FloatArray, Layout("float64", ("d",), least=_SMALLEST_SIZE)]  # S, each feature's largest |x_i|
    measured: Annotated[FloatArray, Layout("float64", ("d", "3"), least=0.0)]
    """For each feature: the number of its values, how many in a row were small, and the largest of these."""
    relative_sizes: NonNegativeScalar  # N, the sum over rounds of Σ (x_i / S_i)²
    outliers: Count  # rounds with a value more than a hundred times its feature's size
    rounds: Count  # rounds folded so far, t - 1
    pacing: Pacing


class _Parameters(NamedTuple):
    gap_scale: float
    least_exploration: float
    learning_rate: float


@hyperparameters
class SquareCb(WithoutEvidence, CompiledLearner[SquareCbState]):
    """Logistic regressions with inverse-gap weighting: O(K·nnz) per prediction, O(nnz) per update.

    Memory is 2·K·d + 4·d numbers. A logistic regression per label predicts its probability of being right,
    f_k = 1/(1 + exp(-w_k'x)). With γ_t = c √(K t), each label k other than the leader, which has the highest f, is
    answered with probability 1/(K + γ_t (f_leader - f_k)), and the leader with the rest. Late feedback updates the
    current regression of the served label.
    """

    algorithm = "squarecb"
    # the steps do not depend on the scale of the features
    norm_policy: ClassVar[NormPolicy] = "none"
    smaller = "fewer features"
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = True
    weighs_costs: ClassVar[bool] = True
    state_type = SquareCbState
    linear = True

    gap_scale: Annotated[float, pydantic.Field(ge=1e-3, le=1e6)] = 8.0
    """c of γ_t = c √(K t): larger values explore less."""
    least_exploration: LeastExploration = 0.0
    """ε, an additional share of uniform exploration, for non-stationary data and for logs that train other learners."""
    learning_rate: Annotated[float, pydantic.Field(gt=0, le=1e3)] = 2.0
    """η of the regression: while a weight is new, a step is about η / √(features in a context)."""

    @property
    def guarantee(self) -> str:
        extra = " + ε T" if self.least_exploration > 0.0 else ""
        return (
            "If the regression can express each label's probability of being right, expected mistakes exceed those of "
            f"the best label for each context by at most √(K T) (4/c + c R/8){extra} after T rounds, where R is the "
            "regression's regret in log-loss, for which no bound is proved (Foster and Rakhlin 2020, Lemma 3, with "
            "Pinsker's inequality). Assumes that each round is folded before the next prediction."
        )

    def fold_cost(self, nonzeros: int) -> int:
        return 8 * nonzeros

    def init(self) -> SquareCbState:
        state: SquareCbState = zero_state(self)
        state.sizes[:] = _SMALLEST_SIZE
        return state

    def warnings(self, state: SquareCbState) -> list[str]:
        return outlier_warnings(int(state.outliers))

    @property
    def kernels(self) -> Kernels:
        return Kernels(_Parameters(self.gap_scale, self.least_exploration, self.learning_rate), _decide, _fold)


@compiled
def _decide(
    parameters: _Parameters,
    state: SquareCbState,
    contexts: Contexts,
    eligible: BoolArray,
    prices: Prices,
    distributions: FloatArray,
    _: FloatArray,
) -> None:
    K = distributions.shape[1]
    c, f, gap_weight = np.empty(K), np.empty(K), parameters.gap_scale * math.sqrt(K * (state.rounds.item() + 1.0))
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, f)
        logistic(f)
        n = narrow(eligible, i, f)
        penalties = penalize(prices, eligible, i, c)
        if len(penalties) > 0:
            f[:n] -= penalties
        weigh_by_gap(f[:n], gap_weight, parameters.least_exploration, distributions[i][:n])
        widen(eligible, i, distributions[i])


@compiled
def _fold(parameters: _Parameters, state: SquareCbState, rounds: Rounds) -> None:
    scratch = np.empty(most_entries(rounds.contexts.starts))
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        x = scratch[: len(values)]
        _measure(state, indices, values, x)
        state.rounds[()] += 1
        if state.relative_sizes.item() > 0.0:
            _update(parameters.learning_rate, state, rounds.labels[t], rounds.rewards[t], indices, x)


@compiled
def _measure(state: SquareCbState, indices: IntArray, values: FloatArray, x: FloatArray) -> None:
    """Update S and N, and write the clipped values to x. Where S_i grows, scale w_i so that w_i S_i stays the same."""
    sizes, measured, is_outlier = state.sizes, state.measured, False
    for position in range(len(values)):
        i, size = indices[position], abs(values[position])
        x[position] = values[position]
        if size == 0.0:
            continue
        measured[i, _VALUES] += 1.0
        if measured[i, _VALUES] > 1.0 and size > _LARGEST_GROWTH * sizes[i]:
            is_outlier = is_outlier or (measured[i, _VALUES] > ENOUGH and size > FAR * sizes[i])
            size = _LARGEST_GROWTH * sizes[i]
            x[position] = math.copysign(size, values[position])
        if size > sizes[i]:
            for k in range(state.weights.shape[1]):
                state.weights[i, k] *= sizes[i] / size
            sizes[i] = size
        _shrink(state, i, size)
        state.relative_sizes[()] += (size / sizes[i]) ** 2
    state.outliers[()] += is_outlier


@compiled
def _shrink(state: SquareCbState, i: int, size: float) -> None:
    """After a run of small values, reduce S_i to the largest of them, and G_i to at most what such values add."""
    sizes, measured = state.sizes, state.measured
    if size > sizes[i] / _LARGEST_GROWTH:
        measured[i, _SMALL] = measured[i, _LARGEST_SMALL] = 0.0
        return
    measured[i, _SMALL] += 1.0
    measured[i, _LARGEST_SMALL] = max(measured[i, _LARGEST_SMALL], size)
    if measured[i, _SMALL] >= RUN:
        largest = max(measured[i, _LARGEST_SMALL], _SMALLEST_SIZE)
        for k in range(state.weights.shape[1]):
            state.gradient_sums[i, k] = min(state.gradient_sums[i, k], measured[i, _VALUES] * largest * largest)
        sizes[i], measured[i, _SMALL], measured[i, _LARGEST_SMALL] = largest, 0.0, 0.0


@compiled
def _update(
    learning_rate: float, state: SquareCbState, k: int, reward: float, indices: IntArray, x: FloatArray
) -> None:
    """Step w_i -= η √(t/N) g_i / (S_i √G_i) for label k, with g = (f - reward) x; clip w_i to [-B/S_i, B/S_i]."""
    s = 0.0
    for position in range(len(x)):
        s += x[position] * state.weights[indices[position], k]
    residual = 1.0 / (1.0 + math.exp(-s)) - reward
    step = learning_rate * math.sqrt(state.rounds.item() / state.relative_sizes.item())
    for position in range(len(x)):
        i, g = indices[position], residual * x[position]
        total = state.gradient_sums[i, k] + g * g
        state.gradient_sums[i, k] = total
        if total > 0.0:
            size = state.sizes[i]
            largest = _LARGEST_WEIGHT / size
            moved = state.weights[i, k] - step * (g / math.sqrt(total)) / size
            state.weights[i, k] = min(largest, max(-largest, moved))
