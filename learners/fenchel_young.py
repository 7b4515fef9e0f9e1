"""The logistic learner with randomized decoding: full information, a constant surrogate regret without log K.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, Theorem 5.1.
The steps are those of `learners.descent`.
"""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic

from learners.base import Contexts, FloatArray, Problem, Rounds, hyperparameters
from learners.compiled_learner import CompiledLearner
from learners.descent import DescentState, Steps, check_radius, count, descend, multiplier, steps, untaught
from learners.exploration import leader, settle, softmax
from learners.kernels import Kernels, compiled, row
from learners.linear_algebra import score_row
from learners.losses import LOGISTIC, surrogate

_LN2 = math.log(2.0)


@hyperparameters
class FenchelYoung(CompiledLearner[DescentState]):
    """Base-2 logistic loss, gradient descent, and an answer that randomizes only as much as the loss pays for.

    With σ the softmax of the scores, the answer is P = q σ + (1 - q) e_y* with q = min(1, 2(1 - σ_y*)), y* the
    leader. A late update takes the gradient at the scores of the prediction. Nothing is learned from a round
    without its true label.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range, or two that contradict each other.
    """

    algorithm: ClassVar[str] = "fenchel-young"
    guarantee: ClassVar[str] = (
        "Expected mistakes exceed the base-2 logistic loss of any U by at most X²‖U‖² / (2(1 - ln 2) ln 2), whatever "
        "the rounds (Sakaue, Bao, Tsuchiya and Oki 2024, Theorem 5.1)."
    )
    smaller: ClassVar[str] = "fewer features"
    state_type: ClassVar[type[Any]] = DescentState

    problem: Problem
    learning_rate: Literal["theorem", "adaptive", "parameter-free"] | Annotated[float, pydantic.Field(gt=0, le=1e6)] = (
        "theorem"
    )
    """`theorem` for η = (1 - ln 2) ln 2 / X², `adaptive` (needs a radius), `parameter-free`, or a fixed η."""
    radius: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] | None = None
    """D: weights are kept in the Frobenius ball of this radius. `null`: no ball, as the theorem allows."""

    def __post_init__(self) -> None:
        """Refuses combinations without a meaning."""
        check_radius(self.learning_rate, self.radius)

    @property
    def n_scores(self) -> int:
        """K."""
        return self.problem.n_labels

    @property
    def needs_true_label(self) -> bool:
        """Always."""
        return True

    @property
    def fold_cost(self) -> int:
        """K·d, twice where parameter-free."""
        return self.problem.n_labels * self.problem.n_features * (2 if self.learning_rate == "parameter-free" else 1)

    @property
    def kernels(self) -> Kernels:
        """Answers P, the evidence being the scores W x; one step for each round with a true label."""
        return Kernels(_steps(self), _decide, _fold)

    def init(self) -> DescentState:
        """Zero weights."""
        return untaught(self)

    def weights(self, state: DescentState) -> FloatArray:
        """W as (K, d), rows the labels' weight vectors."""
        return np.ascontiguousarray(state.direction.T) * multiplier(_steps(self), state)


def _steps(learner: FenchelYoung) -> Steps:
    X = learner.problem.norm_bound
    theorem = (1.0 - _LN2) * _LN2 / X**2
    return steps(learner.learning_rate, {"theorem": theorem}, learner.radius, X, math.sqrt(2.0) * X / _LN2)


@compiled
def _decide(
    steps: Steps, state: DescentState, contexts: Contexts, distributions: FloatArray, evidence: FloatArray
) -> None:
    scale = multiplier(steps, state)
    for i in range(len(distributions)):
        score_row(state.direction, contexts, i, evidence[i])
        evidence[i] *= scale
        decode(evidence[i], distributions[i])


@compiled
def decode(scores: FloatArray, distribution: FloatArray) -> None:
    """Writes P = q σ + (1 - q) e_y* to distribution (K,), q = min(1, 2(1 - σ_y*)): Theorem 5.1's answer."""
    softmax(scores, distribution)
    top, rest = leader(scores), 0.0
    for k in range(len(scores)):
        if k != top:
            rest += distribution[k]
    q = min(1.0, 2.0 * rest)
    for k in range(len(scores)):
        distribution[k] *= q
    distribution[top] += 1.0 - q
    settle(distribution)


@compiled
def _fold(steps: Steps, state: DescentState, rounds: Rounds) -> None:
    K = state.direction.shape[1]
    s, coefficients = np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        y = rounds.true_labels[t]
        if 0 <= y < K:
            indices, values = row(rounds.contexts, t)
            s[:] = rounds.evidence[t]
            surrogate(LOGISTIC, s, y, coefficients)
            descend(steps, state, coefficients, indices, values)
        count(state)
