"""Online structured prediction: gradient descent on a Fenchel-Young loss over any output space.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, section 4. Answers
and truths are vertices of the space, which are vectors. The evidence of a decision is the decoded mean ŷ, and what
else the distribution of the answer depends on; late updates use it unless `delayed_update` is `recompute`.
"""

import math
from abc import abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
import pydantic

from learners.base import (
    NO_LABEL,
    NO_PRICES,
    BoolArray,
    Contexts,
    Decisions,
    Draws,
    FloatArray,
    IntArray,
    InvalidArrayError,
    Prices,
    Rounds,
)
from learners.checks import FLOAT, check_uniforms, expect_array
from learners.hyperparameters import Magnitude, Positive, hyperparameters, refusal
from learners.learner import CheckedLearner, DelayedUpdate, FullInformation
from learners.mathematics.descent import (
    DescentState,
    Steps,
    check_radius,
    descend_all,
    multiplier,
    proved_step,
    steps,
    untaught,
)
from learners.mathematics.exploration import as_propensity
from learners.mathematics.guarantees import AT_ONCE, LATE, NO_LOGARITHM_OF_T, uncovered, within
from learners.mathematics.linear_algebra import scores
from learners.mathematics.preparation import one_by_one
from learners.output_spaces.base import OutputSpace

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
        description="D: the radius of the Frobenius ball that W is projected onto. `null`: no projection; Theorems 4.2 "
        "and 4.3 need none."
    ),
]

_BOUNDS = {
    "theorem": ("(1 - a) b‖U‖²/(4 (1 - m) m), m = min(1/2, a), for any sequence of rounds", "Theorem 4.2"),
    "fixed": ("‖U‖²/(2η), where η is the learning_rate, for any sequence of rounds", "the proof of Theorem 4.2"),
    "high-probability": ("((1 - a) b‖U‖²/(1 - a/2) + c ln(1/δ))/a, for rounds fixed in advance", "Theorem 4.3"),
    "adaptive": ("8 (1 - a) b D²/a, for any sequence of rounds", "Appendix E.1"),
    "parameter-free": (f"the order of b‖U‖² {NO_LOGARITHM_OF_T}", "Appendix E.2"),
}
"""For each learning rate, the regret bound and where it is proved."""

_MEAN_SLACK = 1e-9  # how far an entry of a mean may be out of range, due to rounding
_ROW_COST = 100_000  # multiply-adds that take as long as Python's overhead per context or call of `fold`


@hyperparameters
class Structured(FullInformation, CheckedLearner[DescentState]):
    """The base class of this family's learners over an output space: ordinal levels, label sets and rankings.

    Each round with a known true answer y takes a gradient step of -η (ŷ - y) xᵀ (`learners.mathematics.descent`). If a
    radius is given, W is then projected onto the ball of this radius. Let a = 1 - 4γ/(λν) and b = 2X²κ²/λ (see
    `learners.output_spaces.base.Constants`). With the step `theorem`, for any sequence of rounds, the expected target
    loss exceeds the surrogate loss of any U by at most (1 - a) b ‖U‖² / (4 (1 - m) m), where m = min(1/2, a).
    """

    loss_name: ClassVar[str]  # the target loss, in words, for the guarantee
    state_type = DescentState
    smaller = "fewer labels or features"

    learning_rate: LearningRate = "theorem"  # described in its type, because subclasses would not inherit a docstring
    radius: Radius = None
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        check_radius(self.learning_rate, self.radius)
        try:
            _ = self.space
        except pydantic.ValidationError as error:
            reasons = [found["msg"].removeprefix("Value error, ") for found in error.errors()]
            raise refusal("regularization", "; ".join(reasons)) from error

    @cached_property
    @abstractmethod
    def space(self) -> OutputSpace:
        """The output space: the possible answers and their constants."""

    @abstractmethod
    def vertices(self, labels: IntArray) -> FloatArray:
        """Return the vertices (n, D) of answers given as in `Rounds.labels`. The rows for NO_LABEL are arbitrary."""

    @property
    @abstractmethod
    def constants_named(self) -> str:
        """The constants a and b of the theorems as formulas, for the guarantee."""

    @property
    def guarantee(self) -> str:
        if not isinstance(self.learning_rate, str) and self.proved_step is None:
            return uncovered("the step is larger than 2a/b", "learning_rate theorem, high-probability or adaptive")
        bound, source = _BOUNDS["fixed" if isinstance(self.learning_rate, float) else self.learning_rate]
        chance = "With probability 1 - δ, the" if self.learning_rate == "high-probability" else "The expected"
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
        """D, the dimension of the space."""
        return self.space.dimension

    @property
    def evidence_size(self) -> int:
        return 0 if self.recomputes else self.space.dimension

    @property
    def recomputes(self) -> bool:
        """Whether a late update recomputes the mean from the current weights."""
        return self.delayed_update == "recompute"

    def decide_cost(self, nonzeros: int) -> int:
        return self.n_scores * nonzeros + self.space.draw_cost

    def fold_cost(self, nonzeros: int) -> int:
        step = self.n_scores * nonzeros * (1 + (self.learning_rate == "parameter-free"))
        return step + (self.decide_cost(nonzeros) if self.recomputes else 0)

    @property
    def surrogate_gap(self) -> float:
        """a of the theorems, in (0, 1): target loss is at most 1 - a times the surrogate; the rest offsets regret."""
        return 1.0 - self.space.constants.loss_share

    @property
    def smoothness(self) -> float:
        """b of the theorems: the squared norm of a gradient is at most b times the surrogate loss."""
        constants = self.space.constants
        return 2.0 * (self.problem.norm_bound * constants.kappa) ** 2 / constants.strong_convexity

    @property
    def proved_step(self) -> float | None:
        """The step η if it is fixed and at most 2a/b, else None.

        With it, the expected target loss exceeds the surrogate loss of any U by at most ‖U‖²/(2η).
        """
        return proved_step(self.step_sizes, 2.0 * self.surrogate_gap / self.smoothness)

    def regret_bound(self, comparator_norm: float, failure: float = 0.0) -> float:
        """Return the bound on target loss minus the surrogate loss of any U with ‖U‖ = comparator_norm.

        With the steps `theorem` (Theorem 4.2) and `adaptive` (Appendix E.1, for any U in the ball), the bound holds in
        expectation. With `high-probability` (Theorem 4.3), it holds with probability 1 - failure. Raises `ValueError`
        for any other step, and for `high-probability` if failure is 0.
        """
        a, b, constants = self.surrogate_gap, self.smoothness, self.space.constants
        m = min(0.5, a)
        if self.learning_rate == "theorem":
            return (1.0 - a) * b * comparator_norm**2 / (4.0 * (1.0 - m) * m)
        if self.learning_rate == "high-probability" and failure > 0.0:
            paid = (1.0 - a) * b * comparator_norm**2 / (1.0 - a / 2.0)
            return (paid + constants.gamma * constants.diameter * math.log(1.0 / failure)) / a
        if self.learning_rate == "adaptive" and self.radius is not None:
            return 2.0 * (1.0 - a) * b * (2.0 * self.radius) ** 2 / a
        raise ValueError("no theorem gives the constants of this learning_rate and failure")

    def init(self) -> DescentState:
        return untaught(self)

    def weights(self, state: DescentState) -> FloatArray:
        """Return W as (D, d), one row per score."""
        return np.ascontiguousarray(state.direction.T) * multiplier(self.step_sizes, state)

    @property
    def step_sizes(self) -> Steps:
        """The step sizes, encoded for the kernels."""
        a, b, X = self.surrogate_gap, self.smoothness, self.problem.norm_bound
        named = {"theorem": 2.0 * min(0.5, a) / b, "high-probability": a / b}
        return steps(self.learning_rate, named, self.radius, X, self.space.euclidean_diameter * X)


class Drawing(Structured):
    """A learner that answers with rows of K numbers. It decodes in Python, one context at a time."""

    @abstractmethod
    def rows(self, vertices: FloatArray) -> IntArray:
        """Return the answers (n, K) that these vertices (n, D) represent: the inverse of `vertices`."""

    @property
    @abstractmethod
    def possible_named(self) -> str:
        """What an answer must be, in words."""

    @abstractmethod
    def possible(self, answers: IntArray) -> BoolArray:
        """Return whether each row of integers (n, K) is a possible answer of this learner, (n,)."""

    @abstractmethod
    def probabilities(self, means: FloatArray) -> FloatArray:
        """Return `Decisions.distributions` for means (n, E): each label's probability (n, K), or none (n, 0)."""

    @property
    def n_uniforms(self) -> int:
        """The number of uniform numbers that the space consumes per answer."""
        return self.space.n_uniforms

    @property
    def evidence_size(self) -> int:
        return self.space.mean_size

    def decide_cost(self, nonzeros: int) -> int:
        return super().decide_cost(nonzeros) + _ROW_COST

    @property
    def fold_overhead(self) -> int:
        return _ROW_COST

    def means(self, state: DescentState, contexts: Contexts) -> FloatArray:
        """Return ŷ for each context, followed by other numbers that the answer's distribution depends on, (n, E)."""
        theta = scores(state.direction, contexts) * multiplier(self.step_sizes, state)
        means = np.empty((contexts.n, self.space.mean_size))
        for i in range(contexts.n):
            means[i] = self.space.decode(theta[i])
        return means

    def fold_unchecked(self, state: DescentState, rounds: Rounds) -> DescentState:
        known = (rounds.true_labels != NO_LABEL).all(axis=tuple(range(1, rounds.true_labels.ndim)))
        steps, truths, D = self.step_sizes, self.vertices(rounds.true_labels), self.space.dimension
        if self.recomputes:
            for t, context in enumerate(one_by_one(rounds.contexts)):
                now = slice(t, t + 1)
                descend_all(steps, state, context, self.means(state, context)[:, :D] - truths[now], known[now])
            return state
        # Means lie in the hull of the vertices. Clip corrupt evidence, which could move the weights arbitrarily far.
        means = np.clip(rounds.evidence[:, :D], 0.0, self.space.largest_entry)
        descend_all(steps, state, rounds.contexts, means - truths, known)
        return state

    def decide_unchecked(
        self,
        state: DescentState,
        contexts: Contexts,
        eligible: BoolArray | None = None,
        prices: Prices = NO_PRICES,
    ) -> Decisions:
        means = self.means(state, contexts)
        return Decisions(self.probabilities(means), means)

    def draw(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """Draw an answer around each mean, with its probability. Raises `InvalidArrayError` for invalid arrays."""
        n, space = len(decisions.evidence), self.space
        expect_array("evidence", decisions.evidence, FLOAT, 2, (n, space.mean_size))
        if not np.isfinite(decisions.evidence).all():
            raise InvalidArrayError("evidence: every number must be finite")
        means, largest = decisions.evidence[:, : space.dimension], space.largest_entry
        if not ((means >= -_MEAN_SLACK) & (means <= largest * (1.0 + _MEAN_SLACK))).all():
            raise InvalidArrayError(f"evidence: must be from 0 to {largest:g}")
        check_uniforms(uniforms, (n, self.n_uniforms))
        return self.draw_unchecked(decisions, uniforms)

    def draw_unchecked(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """Do the same as `draw`, for checked arrays."""
        means, space = decisions.evidence, self.space
        outputs, propensities = np.empty((len(means), space.dimension)), np.empty(len(means))
        for i in range(len(means)):
            if np.isfinite(means[i]).all():
                outputs[i], probability = space.draw(means[i], uniforms[i])
                propensities[i] = as_propensity(probability)
            else:
                outputs[i], propensities[i] = 0.0, np.nan  # the caller refuses NaN
        return Draws(self.rows(outputs), propensities, np.zeros(len(means)))
