"""Online structured prediction: gradient descent on a Fenchel-Young loss over any output space.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, section 4.

The learners of label sets, rankings and levels are this procedure over a space of their own. An answer is a vertex
of the space, a vector, and so is the truth. The evidence of a decision is the mean ŷ that the answer is drawn
around, and late feedback goes by it, unless the mean is recomputed.
"""

import math
from abc import abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
import pydantic

from learners.base import NO_LABEL, Contexts, Decisions, Draws, FloatArray, IntArray, InvalidArrayError, Rounds
from learners.checked_learner import CheckedLearner, FullInformation
from learners.checks import check_uniforms
from learners.context_checks import FLOAT, expect_array
from learners.hyperparameters import Magnitude, Positive, hyperparameters, refusal
from learners.mathematics.delayed import DelayedUpdate
from learners.mathematics.descent import DescentState, Steps, check_radius, descend_all, multiplier, steps, untaught
from learners.mathematics.exploration import as_propensity
from learners.mathematics.guarantees import AT_ONCE, LATE, ROUNDING, uncovered, within
from learners.mathematics.linear_algebra import scores
from learners.mathematics.norms import one_by_one
from learners.output_spaces import OutputSpace

LearningRate: TypeAlias = Annotated[
    Literal["theorem", "high-probability", "adaptive", "parameter-free"] | Positive,
    pydantic.Field(
        description="`theorem` for η = 2 min(1/2, a) / b (Theorem 4.2), `high-probability` for η = a/b (Theorem 4.3), "
        "`adaptive` (Appendix E.1, needs a radius), `parameter-free` (Appendix E.2), or a fixed η."
    ),
]
Radius: TypeAlias = Annotated[
    Magnitude | None,
    pydantic.Field(
        description="D: weights are kept in the Frobenius ball of this radius. `null`: no ball, as the theorems allow."
    ),
]

_BOUNDS = {
    "theorem": ("(1 - a) b‖U‖²/(4 (1 - m) m), m = min(1/2, a), whatever the rounds", "Theorem 4.2"),
    "fixed": ("‖U‖²/(2η), η being the learning_rate, whatever the rounds", "the proof of Theorem 4.2"),
    "high-probability": (
        "((1 - a) b‖U‖²/(1 - a/2) + c ln(1/δ))/a, for rounds fixed beforehand",
        "Theorem 4.3",
    ),
    "adaptive": ("8 (1 - a) b D²/a, whatever the rounds", "Appendix E.1"),
    "parameter-free": ("the order of b‖U‖² times a logarithm of T, without constants", "Appendix E.2"),
}
"""What is proved for each learning rate, and where."""

_MEAN_SLACK = 1e-9
"""Rounding may take a mean this far out of its space."""

_ROW_COST = 100_000  # multiply-adds in the time that one row spends outside of kernels


@hyperparameters
class Structured(FullInformation, CheckedLearner[DescentState]):
    """W moves by -η (ŷ - y) x' each round, and is kept in a ball where a radius is given.

    With a = 1 - 4γ/(λν) and b = 2X²κ²/λ of the space, and step `theorem`, the expected target loss exceeds the
    surrogate loss of any U by at most (1 - a) b ‖U‖² / (4 (1 - m) m), m = min(1/2, a), whatever the rounds.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range, or two that contradict each other.
    """

    loss_name: ClassVar[str]  # what a wrong answer costs, for the guarantee
    state_type = DescentState
    smaller = "fewer labels or features"

    learning_rate: LearningRate = "theorem"  # described in its type: a docstring here is not inherited
    radius: Radius = None
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        """Refuses combinations without a meaning, and what the space refuses."""
        check_radius(self.learning_rate, self.radius)
        try:
            _ = self.space
        except pydantic.ValidationError as error:
            reasons = [found["msg"].removeprefix("Value error, ") for found in error.errors()]
            raise refusal("regularization", "; ".join(reasons)) from error

    @cached_property
    @abstractmethod
    def space(self) -> OutputSpace:
        """What can be answered."""

    @abstractmethod
    def vertices(self, labels: IntArray) -> FloatArray:
        """The vertices (n, D) of answers as the service counts them, of the space's vectors; any for NO_LABEL."""

    @property
    @abstractmethod
    def constants_named(self) -> str:
        """The constants a and b of the theorems as formulas, for the guarantee."""

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        fixed = not isinstance(self.learning_rate, str)
        if fixed and self._steps.step > 2.0 * self.surrogate_gap / self.smoothness * ROUNDING:
            return uncovered("the step is larger than 2a/b", "learning_rate theorem, high-probability or adaptive")
        bound, source = _BOUNDS["fixed" if isinstance(self.learning_rate, float) else self.learning_rate]
        chance = "With probability 1 - δ the" if self.learning_rate == "high-probability" else "The expected"
        constants = self.constants_named
        if self.learning_rate == "high-probability":
            constants += f", c = {self.space.constants.gamma * self.space.constants.diameter:.4g}"
        late = "" if self.recomputes or not source.endswith("Theorem 4.2") else f" {LATE}"
        return (
            f"{chance} {self.loss_name} exceeds the Fenchel-Young loss of {within(self.radius)}, summed over the "
            f"rounds, by at most {bound}; {constants} (Sakaue, Bao, Tsuchiya and Oki 2024, {source}). "
            f"{AT_ONCE}{late}"
        )

    @property
    def n_scores(self) -> int:
        """The dimension of the space."""
        return self.space.dimension

    @property
    def evidence_size(self) -> int:
        """The mean ŷ as of prediction time, or nothing where it is recomputed."""
        return 0 if self.recomputes else self.space.dimension

    @property
    def recomputes(self) -> bool:
        """Whether a late update takes the mean of the present weights."""
        return self.delayed_update == "recompute"

    def decide_cost(self, nonzeros: int) -> int:
        """Scores, the space's decoding and drawing, and the calls between them."""
        return self.n_scores * nonzeros + self.space.draw_cost + _ROW_COST

    @property
    def fold_overhead(self) -> int:
        """The calls around a fold."""
        return _ROW_COST

    def fold_cost(self, nonzeros: int) -> int:
        """Scores times d, and again where parameter-free, and what a decision costs where the mean is recomputed."""
        pass_, twice = self.n_scores * nonzeros, self.learning_rate == "parameter-free"
        return pass_ * (1 + twice) + (pass_ + self.space.draw_cost + _ROW_COST if self.recomputes else 0)

    @property
    def surrogate_gap(self) -> float:
        """A of the theorems, in (0, 1): the share of the surrogate loss that is left to pay for learning."""
        return 1.0 - self.space.constants.loss_share

    @property
    def smoothness(self) -> float:
        """B of the theorems: ‖G‖² is at most b times the surrogate loss."""
        constants = self.space.constants
        return 2.0 * (self.problem.norm_bound * constants.kappa) ** 2 / constants.strong_convexity

    def regret_bound(self, comparator_norm: float, failure: float = 0.0) -> float:
        """What the target loss may exceed the surrogate loss of a U with ‖U‖ = comparator_norm by.

        The expected loss, Theorem 4.2, or with the adaptive step Appendix E.1, for any U in the ball. With the
        step `high-probability` the loss itself, with probability 1 - failure (Theorem 4.3).

        Raises:
            ValueError: for a step that no theorem gives constants for.
        """
        a, b, constants = self.surrogate_gap, self.smoothness, self.space.constants
        m = min(0.5, a)
        if self.learning_rate == "theorem":
            return (1.0 - a) * b * comparator_norm**2 / (4.0 * (1.0 - m) * m)
        if self.learning_rate == "high-probability":
            paid = (1.0 - a) * b * comparator_norm**2 / (1.0 - a / 2.0)
            return (paid + constants.gamma * constants.diameter * math.log(1.0 / failure)) / a
        if self.learning_rate == "adaptive" and self.radius is not None:
            return 2.0 * (1.0 - a) * b * (2.0 * self.radius) ** 2 / a
        raise ValueError("no theorem gives the constants of this learning_rate")

    def init(self) -> DescentState:
        """Zero weights."""
        return untaught(self)

    def weights(self, state: DescentState) -> FloatArray:
        """W as (D, d)."""
        return np.ascontiguousarray(state.direction.T) * multiplier(self._steps, state)

    def means(self, state: DescentState, contexts: Contexts) -> FloatArray:
        """The mean ŷ for each context, (n, D)."""
        theta = scores(state.direction, contexts) * multiplier(self._steps, state)
        for i in range(contexts.n):
            theta[i] = self.space.decode(theta[i])
        return theta

    def fold_unchecked(self, state: DescentState, rounds: Rounds) -> DescentState:
        """One projected gradient step, or parameter-free step, for each round with a truth."""
        known = (rounds.true_labels != NO_LABEL).all(axis=tuple(range(1, rounds.true_labels.ndim)))
        steps, truths = self._steps, self.vertices(rounds.true_labels)
        if self.recomputes:
            for t, context in enumerate(one_by_one(rounds.contexts)):
                now = slice(t, t + 1)
                descend_all(steps, state, context, self.means(state, context) - truths[now], known[now])
            return state
        # A mean lies between the vertices: numbers from elsewhere must not lead the weights away.
        means = np.clip(rounds.evidence, 0.0, self.space.largest_entry)
        descend_all(steps, state, rounds.contexts, means - truths, known)
        return state

    @property
    def _steps(self) -> Steps:
        a, b, X = self.surrogate_gap, self.smoothness, self.problem.norm_bound
        named = {"theorem": 2.0 * min(0.5, a) / b, "high-probability": a / b}
        return steps(self.learning_rate, named, self.radius, X, self.space.euclidean_diameter * X)


class Drawing(Structured):
    """A structured learner whose answers are rows of K numbers: see `base.StructuredLearner`."""

    @abstractmethod
    def rows(self, vertices: FloatArray) -> IntArray:
        """The answers (n, K) that these vertices (n, D) stand for: the inverse of `vertices`."""

    @abstractmethod
    def probabilities(self, means: FloatArray) -> FloatArray:
        """What `Decisions.distributions` tells of the answers around means (n, D)."""

    @property
    def n_uniforms(self) -> int:
        """As the space."""
        return self.space.n_uniforms

    @property
    def evidence_size(self) -> int:
        """The mean ŷ, which the answer is drawn around."""
        return self.space.dimension

    def decide_unchecked(self, state: DescentState, contexts: Contexts) -> Decisions:
        """The mean ŷ for each context, as evidence."""
        means = self.means(state, contexts)
        return Decisions(self.probabilities(means), means)

    def draw(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """The answers around the means, with their exact probabilities; `LEAST_PROPENSITY` where one is smaller.

        Raises:
            InvalidArrayError: for evidence or uniforms of another shape, or numbers out of range.
        """
        n = len(decisions.evidence)
        expect_array("evidence", decisions.evidence, FLOAT, 2, (n, self.space.dimension))
        largest = self.space.largest_entry * (1.0 + _MEAN_SLACK)
        if not ((decisions.evidence >= -_MEAN_SLACK) & (decisions.evidence <= largest)).all():
            raise InvalidArrayError(f"evidence: must be from 0 to {self.space.largest_entry:g}")
        check_uniforms(uniforms, (n, self.n_uniforms))
        return self.draw_unchecked(decisions, uniforms)

    def draw_unchecked(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """As `draw`, for arrays that the caller has checked."""
        means, space = decisions.evidence, self.space
        outputs = np.empty_like(means)
        for i in range(len(means)):
            outputs[i] = space.randomize(means[i], uniforms[i])
        exact = [space.probability(mean, output) for mean, output in zip(means, outputs, strict=True)]
        propensities = np.array([as_propensity(p) for p in exact])
        return Draws(self.rows(outputs), propensities, np.zeros(len(means)))
