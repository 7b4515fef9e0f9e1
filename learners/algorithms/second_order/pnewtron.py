"""PNewtron: Newtron with the diagonal of its matrix, and what the two share (see `newtron`).

Elad Hazan and Satyen Kale, "Newtron: an Efficient Bandit Algorithm for Online Multiclass Prediction",
NIPS 2011, Algorithm 1. Of the two ways to take the centre of a round, W' in every round or 0 in those that explore,
only the first is offered: it draws once.
"""

import math
from typing import Annotated, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import pydantic

from learners.base import Contexts, FloatArray, IntArray, Problem, Rounds
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import Exploration, Magnitude, Positive, hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, LabelVectors, Layout, NonNegativeScalar, zero_state
from learners.mathematics.delayed import Delayed, DelayedUpdate
from learners.mathematics.exploration import Schedule, scheduled, scheduled_rate, soften
from learners.mathematics.guarantees import uncovered
from learners.mathematics.linear_algebra import score_row, squared_norm
from learners.mathematics.logistic_estimate import gradient_estimate, inner

_REFRESH = 65_536  # rounds between exact recomputations of the squared norm
_COLLAPSE = 1e-3  # or as soon as it falls this far in one round, its digits being those of larger numbers
_LARGEST_WEIGHT = 1e75  # without projection adversarial labels let weights grow like t^d; they are cut here

Rate: TypeAlias = Annotated[
    Exploration,
    pydantic.Field(description="γ, the share of uniform exploration, or `anytime` for γ_t = min(1, √(K/t))."),
]
Alpha: TypeAlias = Annotated[
    Positive,
    pydantic.Field(
        description="α, how sharply the distribution follows the scores; the loss is that of softmax(α W x)."
    ),
]
Beta: TypeAlias = Annotated[
    Positive, pydantic.Field(description="β, the share of each gradient's square that enters A.")
]
Radius: TypeAlias = Annotated[
    Magnitude | None,
    pydantic.Field(
        description="D: A starts as I/D, and weights are kept in the Frobenius ball of this radius. `null` for 10/X; "
        "papers take 1."
    ),
]

_DEFAULT_RADIUS = 10.0  # times 1/X


class PNewtronState(NamedTuple):
    """2·K·d numbers; b = -A ∘ W' is implied. W' is kept as it is before projection."""

    diagonal: Annotated[FloatArray, Layout("float64", ("d", "K"), least=1e-8)]  # A, every entry >= 1/D, D <= 1e7
    weights: LabelVectors  # W' = -b / A
    squared_norm: NonNegativeScalar  # of the weights
    rounds: Count  # rounds folded so far, t - 1


class Parameters(NamedTuple):
    """The hyperparameters as the kernels want them."""

    exploration: Schedule
    alpha: float
    beta: float
    radius: float
    projected: bool
    as_of_prediction: bool


@hyperparameters
class PNewtron(Delayed, CompiledLearner[PNewtronState]):
    """Newtron with the diagonal of A: O(K·nnz) per round, 2·K·d numbers of memory.

    Answers p' = (1 - γ) softmax(α W x) + (γ/K) 1 and learns from every round. Where late feedback takes the
    gradient at the scores of the prediction, the state does not depend on the order of arrival, up to rounding.
    """

    algorithm = "pnewtron"
    smaller = "fewer features"
    state_type = PNewtronState

    exploration: Rate = "anytime"
    alpha: Alpha = 10.0
    beta: Beta = 0.01
    radius: Radius = None
    projection: Literal["scale", "none"] = "scale"
    """How weights are brought into the ball: `scale` them, or `none`, not at all."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        return uncovered(
            "no analysis covers the diagonal of Newtron's matrix", "folklore-bandit with a fixed exploration"
        )

    def fold_cost(self, nonzeros: int) -> int:
        """A, W' and its norm, and the scores where they are recomputed."""
        return (3 if self.evidence_size else 4) * self.problem.n_labels * nonzeros

    @property
    def kernels(self) -> Kernels:
        """Answers p', the evidence being the scores W x; one diagonal Newton step for every round."""
        return Kernels(self._parameters, _decide, _fold)

    @property
    def _parameters(self) -> Parameters:
        exploration, kept = scheduled(self.exploration, self.problem.n_labels), self.evidence_size > 0
        return Parameters(exploration, self.alpha, self.beta, ball_of(self), self.projection == "scale", kept)

    def init(self) -> PNewtronState:
        """A = I/D, W' = 0."""
        state: PNewtronState = zero_state(self)
        state.diagonal[:] = 1.0 / ball_of(self)
        return state

    def weights(self, state: PNewtronState) -> FloatArray:
        """W as (K, d), rows the labels' weight vectors, projected."""
        return np.ascontiguousarray(state.weights.T) * _multiplier(self._parameters, state)


class InABall(Protocol):
    """A learner whose weights are kept in a ball."""

    @property
    def problem(self) -> Problem:
        """Gives X."""

    @property
    def radius(self) -> float | None:
        """D, if given."""


def ball_of(learner: InABall) -> float:
    """D."""
    return _DEFAULT_RADIUS / learner.problem.norm_bound if learner.radius is None else learner.radius


@compiled
def _multiplier(parameters: Parameters, state: PNewtronState) -> float:
    """W / W'."""
    norm = math.sqrt(state.squared_norm.item())
    return parameters.radius / norm if parameters.projected and norm > parameters.radius else 1.0


@compiled
def _decide(
    parameters: Parameters, state: PNewtronState, contexts: Contexts, distributions: FloatArray, evidence: FloatArray
) -> None:
    multiplier, rate = _multiplier(parameters, state), scheduled_rate(parameters.exploration, state.rounds.item())
    s = np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        s *= multiplier
        soften(s, parameters.alpha, rate, distributions[i])
        if parameters.as_of_prediction:
            evidence[i] = s


@compiled
def _fold(parameters: Parameters, state: PNewtronState, rounds: Rounds) -> None:
    alpha, beta = parameters.alpha, parameters.beta
    K = state.weights.shape[1]
    s, c, changes = np.empty(K), np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        if parameters.as_of_prediction:
            s[:] = rounds.evidence[t]
        else:
            score_row(state.weights, rounds.contexts, t, s)
            s *= _multiplier(parameters, state)
        kappa = gradient_estimate(alpha, s, rounds.labels[t], rounds.correct[t], rounds.propensities[t], c)
        old = state.squared_norm.item()
        step = 1.0 - kappa * beta * inner(c, s)
        new = old + _newton_step(state, kappa * beta, step, c, indices, values, changes)
        state.rounds[()] += 1
        if new < _COLLAPSE * old or state.rounds.item() % _REFRESH == 0:
            new = squared_norm(state.weights.ravel())
        state.squared_norm[()] = max(0.0, new)


@compiled
def _newton_step(
    state: PNewtronState,
    share: float,
    step: float,
    c: FloatArray,
    indices: IntArray,
    values: FloatArray,
    changes: FloatArray,
) -> float:
    """A += share (c ⊗ x)², b += step (c ⊗ x), W' = -b / A; returns by how much ‖W'‖² changed. `changes` is scratch."""
    changes[:] = 0.0
    for position in range(len(values)):
        i, x = indices[position], values[position]
        for k in range(len(c)):
            a, w, G = state.diagonal[i, k], state.weights[i, k], c[k] * x
            state.diagonal[i, k] = a + share * G * G
            new = (a * w - step * G) / state.diagonal[i, k]
            state.weights[i, k] = min(max(new, -_LARGEST_WEIGHT), _LARGEST_WEIGHT)
            changes[k] += (state.weights[i, k] - w) * (state.weights[i, k] + w)
    return float(changes.sum())
