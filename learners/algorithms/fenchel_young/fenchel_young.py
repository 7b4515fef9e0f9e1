"""Multiclass logistic regression from true labels; its regret bound grows neither with T nor with K.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, Theorem 5.1.
`learners.mathematics.descent` implements the steps.
"""

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, Problem, Rounds
from learners.hyperparameters import Magnitude, Positive, hyperparameters
from learners.kernels import Kernels, compiled, narrow, place_of, row, widen
from learners.learner import CompiledLearner, Delayed, DelayedUpdate, FullInformation
from learners.mathematics.descent import (
    DescentState,
    Steps,
    check_radius,
    count,
    descend,
    multiplier,
    proved_step,
    steps,
    untaught,
)
from learners.mathematics.exploration import leader, settle, softmax
from learners.mathematics.guarantees import (
    ANY_SEQUENCE,
    AT_ONCE,
    LATE,
    NO_LOGARITHM_OF_T,
    uncovered,
    within,
)
from learners.mathematics.linear_algebra import score_row
from learners.mathematics.losses import LOGISTIC, surrogate

_LN2 = math.log(2.0)


class _Parameters(NamedTuple):
    steps: Steps
    as_of_prediction: bool


@hyperparameters
class FenchelYoung(Delayed, FullInformation, CompiledLearner[DescentState]):
    """Answers with a label: base-2 logistic loss, gradient descent, and randomized decoding within the surrogate gap.

    With σ the softmax of the scores W x and y* the highest-scoring label, the distribution is P = q σ + (1 - q) e_y*,
    where q = min(1, 2(1 - σ_y*)). Rounds without an eligible true label do not update W.
    """

    algorithm = "fenchel-young"
    smaller = "fewer features"
    labels_grow: ClassVar[bool] = True
    state_type = DescentState

    learning_rate: Literal["theorem", "high-probability", "adaptive", "parameter-free"] | Positive = "theorem"
    """`theorem` for η = (1 - ln 2) ln 2 / X² (Theorem 5.1), `high-probability` for half of it (Theorem 4.3), `adaptive`
    (needs a radius), `parameter-free`, or a fixed η.
    """
    radius: Magnitude | None = None
    """D: the radius of the Frobenius ball that W is projected onto. `null`: no projection; the theorem needs none."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        check_radius(self.learning_rate, self.radius)

    @property
    def guarantee(self) -> str:
        bounds = {
            "theorem": ("X²‖U‖² / (2(1 - ln 2) ln 2)", "Theorem 5.1"),
            "high-probability": ("(4X²‖U‖²/(1 + ln 2) + ln(1/δ)) / (1 - ln 2)", "Theorem 4.3"),
            "adaptive": ("16X²D² / (1 - ln 2)", "Appendix E.1"),
            "parameter-free": (f"the order of X²‖U‖² {NO_LOGARITHM_OF_T}", "Appendix E.2"),
        }
        if not isinstance(self.learning_rate, str):
            if self.proved_step is None:
                return uncovered("the step is larger than (1 - ln 2) ln 2 / X²", "learning_rate theorem")
            bounds[""] = "‖U‖²/(2η), where η is the learning_rate", "the proof of Theorem 5.1"
        bound, source = bounds[self.learning_rate if isinstance(self.learning_rate, str) else ""]
        likely = self.learning_rate == "high-probability"
        late = LATE if self.evidence_size > 0 and source.endswith("Theorem 5.1") else ""
        return (
            f"{'With probability 1 - δ, mistakes' if likely else 'Expected mistakes'} exceed the base-2 logistic loss "
            f"of {within(self.radius)} by at most {bound}, for {'rounds fixed in advance' if likely else ANY_SEQUENCE} "
            f"(Sakaue, Bao, Tsuchiya and Oki 2024, {source}). {AT_ONCE} {late}".rstrip()
        )

    @property
    def proved_step(self) -> float | None:
        """The step η if it is fixed and at most that of Theorem 5.1, else None.

        With it, expected mistakes exceed the loss of any U by at most ‖U‖²/(2η).
        """
        return proved_step(_steps(self), theorem_step(self.problem))

    @property
    def n_scores(self) -> int:
        """K, one score per label."""
        return self.problem.n_labels

    def fold_cost(self, nonzeros: int) -> int:
        passes = 1 + (self.learning_rate == "parameter-free") + (self.evidence_size == 0)
        return self.problem.n_labels * nonzeros * passes

    @property
    def kernels(self) -> Kernels:
        return Kernels(_Parameters(_steps(self), self.evidence_size > 0), _decide, _fold)

    def init(self) -> DescentState:
        return untaught(self)

    def weights(self, state: DescentState) -> FloatArray:
        """Return W as (K, d), one row per label."""
        return np.ascontiguousarray(state.direction.T) * multiplier(_steps(self), state)

    def contributions(self, state: DescentState, contexts: Contexts, /) -> FloatArray:
        weights: FloatArray = state.direction[contexts.indices] * multiplier(_steps(self), state)
        return weights * contexts.values[:, np.newaxis]


def theorem_step(problem: Problem) -> float:
    """Return the step η of Theorem 5.1."""
    X = problem.norm_bound
    return (1.0 - _LN2) * _LN2 / X**2


def _steps(learner: FenchelYoung) -> Steps:
    X = learner.problem.norm_bound
    largest = theorem_step(learner.problem)
    named = {"theorem": largest, "high-probability": largest / 2.0}
    return steps(learner.learning_rate, named, learner.radius, X, math.sqrt(2.0) * X / _LN2)


@compiled
def _decide(
    parameters: _Parameters,
    state: DescentState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    s = np.empty(state.direction.shape[1])
    for i in range(len(distributions)):
        _score(parameters.steps, state, contexts, i, s)
        n = narrow(eligible, i, s)
        decode(s[:n], distributions[i][:n])
        widen(eligible, i, distributions[i])
        if parameters.as_of_prediction:
            evidence[i] = s
            widen(eligible, i, evidence[i])


@compiled
def _score(steps: Steps, state: DescentState, contexts: Contexts, i: int, s: FloatArray) -> None:
    score_row(state.direction, contexts, i, s)
    s *= multiplier(steps, state)


@compiled
def decode(scores: FloatArray, distribution: FloatArray) -> None:
    """Write P = q σ + (1 - q) e_y* to distribution (K,), with q = min(1, 2(1 - σ_y*)) and σ = softmax(scores)."""
    softmax(scores, distribution)
    top, rest = leader(scores), 0.0
    for k in range(len(scores)):
        if k != top:
            rest += distribution[k]  # this sum is more precise than 1 - σ_y*
    q = min(1.0, 2.0 * rest)
    for k in range(len(scores)):
        distribution[k] *= q
    distribution[top] += 1.0 - q
    settle(distribution)


@compiled
def _fold(parameters: _Parameters, state: DescentState, rounds: Rounds) -> None:
    K = state.direction.shape[1]
    s, coefficients = np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        y = rounds.true_labels[t]
        place = place_of(rounds.eligible, t, y) if 0 <= y < K else -1
        if place >= 0:
            indices, values = row(rounds.contexts, t)
            if parameters.as_of_prediction:
                s[:] = rounds.evidence[t]
            else:
                _score(parameters.steps, state, rounds.contexts, t, s)
            n = narrow(rounds.eligible, t, s)
            surrogate(LOGISTIC, s[:n], place, coefficients[:n])
            widen(rounds.eligible, t, coefficients)
            descend(parameters.steps, state, coefficients, indices, values)
        count(state)
