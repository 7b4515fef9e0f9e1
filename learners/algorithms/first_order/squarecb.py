"""SquareCB: inverse-gap weighting over one-vs-rest logistic regression.

Dylan Foster, Alexander Rakhlin, "Beyond UCB: Optimal and Efficient Contextual Bandits with Regression Oracles",
ICML 2020, for the exploration. Its oracle is online logistic regression with one step size for each weight, free
of the features' scales: John Duchi, Elad Hazan, Yoram Singer, "Adaptive Subgradient Methods", JMLR 2011, and
Stéphane Ross, Paul Mineiro, John Langford, "Normalized Online Learning", UAI 2013 (Algorithm 2, NAG).

It learns from every bit, right or wrong, unweighted, and no number in it wants tuning.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.base import Contexts, FloatArray, IntArray, NormPolicy, Rounds
from learners.checked_learner import WithoutEvidence
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, LabelVectors, Layout, NonNegativeScalar, zero_state
from learners.mathematics.exploration import logistic, weigh_by_gap
from learners.mathematics.linear_algebra import score_row

_LARGEST_WEIGHT = 20.0
"""What a feature at its largest may add to the log-odds of a label; keeps a state finite whatever it is fed."""

_SMALLEST_SIZE = 1e-100
"""Below this a number is no feature: its square would leave the range of a float."""


class SquareCbState(NamedTuple):
    """2·K·d + d numbers."""

    weights: LabelVectors  # W
    gradient_sums: Annotated[FloatArray, Layout("float64", ("d", "K"), least=0.0)]  # G, sums of squared gradients
    sizes: Annotated[FloatArray, Layout("float64", ("d",), least=_SMALLEST_SIZE)]  # S, each feature's largest |x_i|
    relative_sizes: NonNegativeScalar  # N, the sum over rounds of Σ (x_i / S_i)²
    rounds: Count  # rounds folded so far, t - 1


class _Parameters(NamedTuple):
    """The hyperparameters as the kernels want them."""

    gap_scale: float
    least_exploration: float
    learning_rate: float


@hyperparameters
class SquareCb(WithoutEvidence, CompiledLearner[SquareCbState]):
    """O(K·nnz) per prediction, O(nnz) per update, 2·K·d + d numbers of memory. The recommended learner.

    Each label's chance of being right is predicted by its own logistic regression, f_k = 1/(1 + exp(-w_k'x)).
    With γ_t = c √(K t), a label k behind the leader is answered with probability 1/(K + γ_t (f_leader - f_k)), the
    leader with the rest. Late feedback is applied to the present regression, on the label that was served.
    """

    algorithm = "squarecb"
    # its figures are those of unit contexts, though its steps are free of scales
    norm_policy: ClassVar[NormPolicy] = "unit"
    smaller = "fewer features"
    state_type = SquareCbState

    gap_scale: Annotated[float, pydantic.Field(ge=1e-3, le=1e6)] = 8.0
    """c of γ_t = c √(K t): greater explores less."""
    least_exploration: LeastExploration = 0.0
    """A share of uniform answers beside, for worlds that change and for logs that others will learn from."""
    learning_rate: Annotated[float, pydantic.Field(gt=0, le=1e3)] = 2.0
    """η of the regression: a step is about η / √(features in a context) while a weight is new."""

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        extra = " + ε T" if self.least_exploration > 0.0 else ""
        return (
            "Where regression can express each label's chance of being right, expected mistakes exceed those of the "
            f"best label for each context by at most √(K T) (4/c + c R/8){extra} after T rounds, R the regression's "
            "regret in log-loss, on which no bound is proved (Foster and Rakhlin 2020, Lemma 3, with Pinsker's "
            "inequality). Assumes that each round is learned from before the next prediction."
        )

    def fold_cost(self, nonzeros: int) -> int:
        """One label's score, and a step of a square root for each of its weights."""
        return 8 * nonzeros

    def init(self) -> SquareCbState:
        """Zero weights: every label as likely as not."""
        state: SquareCbState = zero_state(self)
        state.sizes[:] = _SMALLEST_SIZE
        return state

    @property
    def kernels(self) -> Kernels:
        """The inverse-gap weighting of the predicted chances; a step of the regression on the label served."""
        return Kernels(_Parameters(self.gap_scale, self.least_exploration, self.learning_rate), _decide, _fold)


@compiled
def _decide(
    parameters: _Parameters, state: SquareCbState, contexts: Contexts, distributions: FloatArray, _: FloatArray
) -> None:
    K = distributions.shape[1]
    f, gap_weight = np.empty(K), parameters.gap_scale * math.sqrt(K * (state.rounds.item() + 1.0))
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, f)
        logistic(f)
        weigh_by_gap(f, gap_weight, parameters.least_exploration, distributions[i])


@compiled
def _fold(parameters: _Parameters, state: SquareCbState, rounds: Rounds) -> None:
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        _measure(state, indices, values)
        state.rounds[()] += 1
        if state.relative_sizes.item() > 0.0:
            reward = 1.0 if rounds.correct[t] else 0.0
            _update(parameters.learning_rate, state, rounds.labels[t], reward, indices, values)


@compiled
def _measure(state: SquareCbState, indices: IntArray, values: FloatArray) -> None:
    """Takes the features' sizes into account; a feature that outgrows its largest keeps its weight at the largest."""
    for position in range(len(values)):
        i, x = indices[position], abs(values[position])
        if x > state.sizes[i]:
            for k in range(state.weights.shape[1]):
                state.weights[i, k] *= state.sizes[i] / x
            state.sizes[i] = x
        state.relative_sizes[()] += (x / state.sizes[i]) ** 2


@compiled
def _update(
    learning_rate: float, state: SquareCbState, k: int, reward: float, indices: IntArray, values: FloatArray
) -> None:
    """w_i -= η √(t/N) g_i / (S_i √G_i), g = (f - reward) x, and into [-B/S_i, B/S_i]."""
    s = 0.0
    for position in range(len(values)):
        s += values[position] * state.weights[indices[position], k]
    residual = 1.0 / (1.0 + math.exp(-s)) - reward
    step = learning_rate * math.sqrt(state.rounds.item() / state.relative_sizes.item())
    for position in range(len(values)):
        i, g = indices[position], residual * values[position]
        total = state.gradient_sums[i, k] + g * g
        state.gradient_sums[i, k] = total
        if total > 0.0:
            largest = _LARGEST_WEIGHT / state.sizes[i]
            moved = state.weights[i, k] - step * (g / math.sqrt(total)) / state.sizes[i]
            state.weights[i, k] = min(largest, max(-largest, moved))
