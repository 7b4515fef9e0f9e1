"""Online structured prediction: gradient descent on a Fenchel-Young loss over any output space.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, section 4.

Not a `base.Learner`, whose answers are labels: an answer here is a vertex of an output space, a vector, and so is
the truth. The verbs are the same, and one more::

    init() -> state
    decide(state, contexts) -> OutputDecisions     a mean ŷ for each context
    sample(decisions, uniforms) -> outputs         the answers, drawn around the means
    fold(state, outputs) -> state                  the state after these rounds, with their truths

The evidence of a decision is its mean, to be handed back in the round; so feedback may come late, in any order.
"""

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import pydantic

from learners.base import Contexts, Count, FloatArray, Layout, NonNegativeScalar, hyperparameters
from learners.kernels import compiled, row
from learners.linear_algebra import add_outer, scores, squared_norm
from learners.output_spaces import AnyOutputSpace


class OutputDecisions(NamedTuple):
    """The answers to n contexts, before any output is drawn."""

    scores: FloatArray  # (n, D) float64, θ = W x
    means: FloatArray  # (n, D) float64, ŷ, to be stored and handed back in `Outputs.means`


class Outputs(NamedTuple):
    """n rounds, oldest first: what was decided, and what was right."""

    contexts: Contexts
    means: FloatArray  # (n, D) float64, from the decision
    truths: FloatArray  # (n, D) float64, vertices of the output space; the caller checks with `contains`

    @property
    def n(self) -> int:
        """How many rounds there are."""
        return len(self.truths)


class StructuredState(NamedTuple):
    """The weights, and what their steps and their average need."""

    weights: Annotated[FloatArray, Layout("float64", ("d", "D"))]  # W transposed, feature-major
    weights_sum: Annotated[FloatArray, Layout("float64", ("d", "D"))]  # W_1 + … + W_T, before each round's step
    gradient_sum: NonNegativeScalar  # Σ‖G‖²
    rounds: Count  # rounds folded so far, T


@hyperparameters
class Structured:
    """W moves by -η (ŷ - y) x' each round, and is kept in a ball where a radius is given.

    With a = 1 - 4γ/(λν) and b = 2X²κ²/λ of the space, and step `theorem`, the expected target loss exceeds the
    surrogate loss of any U by at most (1 - a) b ‖U‖² / (4 (1 - m) m), m = min(1/2, a), whatever the rounds.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range, or two that contradict each other.
    """

    state_type: ClassVar[type[StructuredState]] = StructuredState

    space: AnyOutputSpace
    """What can be answered."""
    n_features: Annotated[int, pydantic.Field(ge=1)]
    """d."""
    norm_bound: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] = 1.0
    """X, a bound on the Euclidean norm of every context."""
    learning_rate: Literal["theorem", "adaptive"] | Annotated[float, pydantic.Field(gt=0, le=1e6)] = "theorem"
    """`theorem` for η = 2m/b (Theorem 4.2), `adaptive` (Appendix E.1, needs a radius), or a fixed η."""
    radius: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] | None = None
    """D: weights are kept in the Frobenius ball of this radius. `null`: no ball."""

    def __post_init__(self) -> None:
        """Refuses combinations without a meaning."""
        if self.learning_rate == "adaptive" and self.radius is None:
            raise ValueError("an adaptive learning_rate needs a radius")

    @property
    def surrogate_gap(self) -> float:
        """A of the theorems, in (0, 1): the share of the surrogate loss that is left to pay for learning."""
        return 1.0 - self.space.constants.loss_share

    @property
    def smoothness(self) -> float:
        """B of the theorems: ‖G‖² is at most b times the surrogate loss."""
        constants = self.space.constants
        return 2.0 * (self.norm_bound * constants.kappa) ** 2 / constants.strong_convexity

    def regret_bound(self, comparator_norm: float) -> float:
        """What the expected target loss may exceed the surrogate loss of a U with ‖U‖ = comparator_norm by.

        Theorem 4.2; with the adaptive step that of Appendix E.1, for any U in the ball.

        Raises:
            ValueError: for a fixed η, which no theorem covers.
        """
        a, b = self.surrogate_gap, self.smoothness
        m = min(0.5, a)
        if self.learning_rate == "theorem":
            return (1.0 - a) * b * comparator_norm**2 / (4.0 * (1.0 - m) * m)
        if self.learning_rate == "adaptive" and self.radius is not None:
            return 2.0 * (1.0 - a) * b * (2.0 * self.radius) ** 2 / a
        raise ValueError("no theorem covers a fixed learning_rate")

    def init(self) -> StructuredState:
        """Zero weights."""
        shape = (self.n_features, self.space.dimension)
        return StructuredState(np.zeros(shape), np.zeros(shape), np.zeros(()), np.zeros((), dtype=np.int64))

    def decide(self, state: StructuredState, contexts: Contexts) -> OutputDecisions:
        """The mean ŷ for each context. Leaves the state as it is."""
        return self._decide(state.weights, contexts)

    def decide_on_average(self, state: StructuredState, contexts: Contexts) -> OutputDecisions:
        """As `decide`, with the average of all rounds' weights: online-to-batch, Theorem 4.6.

        On independent rounds of one distribution, its expected target loss is at most E[S(U)] + bound / T.
        """
        return self._decide(state.weights_sum / max(1, int(state.rounds)), contexts)

    def sample(self, decisions: OutputDecisions, uniforms: FloatArray) -> FloatArray:
        """Outputs (n, D), vertices, from uniforms (n, space.n_uniforms) in [0, 1)."""
        outputs = np.empty_like(decisions.means)
        for i, mean in enumerate(decisions.means):
            outputs[i] = self.space.randomize(mean, uniforms[i])
        return outputs

    def fold(self, state: StructuredState, outputs: Outputs) -> StructuredState:
        """One projected gradient step for each round, in order. May change `state` in place."""
        radius, step = math.inf if self.radius is None else self.radius, 2.0 * min(0.5, self.surrogate_gap)
        if self.learning_rate == "adaptive":
            step = 2.0 * radius / math.sqrt(2.0)
        else:
            step = step / self.smoothness if isinstance(self.learning_rate, str) else self.learning_rate
        _fold(float(step), self.learning_rate == "adaptive", float(radius), state, outputs)
        return state

    def _decide(self, weights: FloatArray, contexts: Contexts) -> OutputDecisions:
        theta = scores(weights, contexts)
        means = np.empty_like(theta)
        for i in range(contexts.n):
            means[i] = self.space.decode(theta[i])
        return OutputDecisions(theta, means)


@compiled
def _fold(step: float, adaptive: bool, radius: float, state: StructuredState, outputs: Outputs) -> None:
    for t in range(len(outputs.truths)):
        state.weights_sum[:] += state.weights
        state.rounds[()] += 1
        indices, values = row(outputs.contexts, t)
        coefficients = outputs.means[t] - outputs.truths[t]
        state.gradient_sum[()] += squared_norm(coefficients) * squared_norm(values)
        if state.gradient_sum.item() <= 0.0:
            continue
        coefficients *= -step / math.sqrt(state.gradient_sum.item()) if adaptive else -step
        add_outer(state.weights, coefficients, indices, values)
        norm = math.sqrt(squared_norm(state.weights.ravel()))
        if norm > radius:
            state.weights[:] *= radius / norm
