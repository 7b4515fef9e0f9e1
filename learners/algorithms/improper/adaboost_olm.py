"""AdaBoost.OLM++: online multiclass boosting that weights each weak learner by a small logistic regression.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022, Algorithms 3 (BoostReg) and 4, Appendix C. Printed errors corrected: BoostReg plays ŝ, and the
costs are C(y, k) = (σ_k - σ_y + 1)/K with the true label first.

The weak learners form a sequence. Each receives costs derived from the scores of its predecessors and predicts a
label. BoostReg, which is FOLKLORE with two labels and two features, turns the predicted label into updated scores,
whose argmax is that member's answer. The served answer is that of a member drawn with exponential weights, so the
distribution is the weighted mixture of the members' answers.
"""

import math
from typing import Annotated, Literal, NamedTuple, Protocol

import numpy as np
import pydantic

from learners.algorithms.improper.folklore import learn, predict, regret_bound, surrogate_constant
from learners.base import Contexts, Decisions, FloatArray, Problem, Rounds
from learners.checked_learner import CheckedLearner, FullInformation
from learners.hyperparameters import hyperparameters
from learners.kernels import compiled
from learners.layouts import Count, Layout, zero_state
from learners.mathematics.delayed import Delayed, DelayedUpdate
from learners.mathematics.exploration import leader, settle_each, softmax
from learners.mathematics.linear_algebra import densify, packed_identity

_BOUND = 2.0  # B of the FOLKLORE in BoostReg: ‖(1, α/2)‖ for every |α| <= 2
_CALLS = 20_000  # the time of a weak learner outside of kernels, in multiply-adds
_CELL = 50  # the time to write one of the K² costs to new memory, in multiply-adds
_EVIDENCE = 3  # the label that a weak learner predicted, and the two logits ζ of its BoostReg


# --- weak learners


class WeakLearner(Protocol):
    """A weak learner: predicts one label, better than chance under its costs. Its memory is (d, K)."""

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:
        """Return the label predicted for x (d,); costs[y, k] of (K, K) is the cost of predicting k if y is true."""

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
        """Learn in place from the true label y and row y of the costs (K,); `named` is the label that was predicted."""


class CostPerceptron:
    """A multiclass Perceptron whose step is the cost of its prediction."""

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:  # noqa: ARG002, a protocol
        """Return the highest-scoring label."""
        return _leading(memory, x)

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
        """Move the weights of the two labels apart by cost times context; change nothing after a right prediction."""
        step = costs[named] * x
        memory[:, y] += step
        memory[:, named] -= step


WEAK_LEARNERS: dict[str, WeakLearner] = {"perceptron": CostPerceptron()}


@compiled
def _leading(memory: FloatArray, x: FloatArray) -> int:
    s = np.zeros(memory.shape[1])
    for i in range(len(x)):
        for k in range(len(s)):
            s[k] += x[i] * memory[i, k]
    return leader(s)


# --- BoostReg


class BoostReg(NamedTuple):
    """Algorithm 3: learns online the best multiple α in [-2, 2] of the predicted label to add to the scores."""

    inverse: FloatArray  # (10,), A⁻¹ of FOLKLORE, a packed triangle
    solution: FloatArray  # (4,), h of FOLKLORE
    horizon: int  # T

    @classmethod
    def start(cls, horizon: int) -> "BoostReg":
        """Return FOLKLORE before the first round, with R = 1 + ln T."""
        inverse = np.zeros(10)
        packed_identity(inverse, _BOUND / (2.0 * (1.0 + math.log(horizon))), 4)
        return cls(inverse, np.zeros(4), horizon)

    def predict(self, s: FloatArray, named: int) -> tuple[FloatArray, FloatArray]:
        """Return the logits ζ (2,) and the scores ŝ (K,), given the scores s (K,) and the predicted label, 0 … K-1."""
        zeta = np.empty(2)
        predict(self.inverse, self.solution, regressors(s, named, self.horizon), zeta)
        return zeta, boosted(s, named, zeta)

    def learn(self, s: FloatArray, named: int, zeta: FloatArray, y: int) -> None:
        """Learn in place whether the predicted label was the true one, with s and ζ as of the prediction."""
        constant = surrogate_constant(_BOUND, 1.0 + math.log(self.horizon), 2)
        learn(self.inverse, self.solution, constant, regressors(s, named, self.horizon), zeta, int(named != y))


def boosting_regret_bound(horizon: int) -> float:
    """Return a bound on BoostReg's loss after T rounds minus that of s + α e_l with the best α in [-2, 2]."""
    two = Problem(2, 2, 1.0 + math.log(horizon))
    return math.exp(2.0) / horizon + regret_bound(_BOUND, two, horizon)


@compiled
def regressors(s: FloatArray, named: int, horizon: int) -> FloatArray:
    """Return (x̃, 1): half the log-odds of the predicted label, clipped to ± ln T, and the constant."""
    limit = math.log(horizon)
    half = (s[named] - _log_sum_of_others(s, named)) / 2.0
    return np.array([max(-limit, min(limit, half)), 1.0])


@compiled
def boosted(s: FloatArray, named: int, zeta: FloatArray) -> FloatArray:
    """Return ŝ (K,): ζ_1 for the predicted label, and ζ_2 distributed over the others in proportion to exp(s)."""
    result = np.empty(len(s))
    result[:] = s + (zeta[1] - _log_sum_of_others(s, named))
    result[named] = zeta[0]
    return result


@compiled
def _log_sum_of_others(s: FloatArray, named: int) -> float:
    top = -math.inf
    for k in range(len(s)):
        if k != named:
            top = max(top, s[k])
    total = 0.0
    for k in range(len(s)):
        if k != named:
            total += math.exp(s[k] - top)
    return top + math.log(total)


@compiled
def costs_of(s: FloatArray) -> FloatArray:
    """Return C (K, K): C(y, k) = (σ_k - σ_y + 1)/K for k ≠ y, and 0 for k = y. Row y sums to 1 - σ_y."""
    K = len(s)
    sigma, result = np.empty(K), np.zeros((K, K))
    softmax(s, sigma)
    for y in range(K):
        for k in range(K):
            if k != y:
                result[y, k] = (sigma[k] - sigma[y] + 1.0) / K
    return result


# --- AdaBoost.OLM++


class AdaBoostOlmState(NamedTuple):
    """The sequence of weak learners, their BoostRegs, and their weights."""

    memories: Annotated[FloatArray, Layout("float64", ("weak_learners", "d", "K"))]
    inverses: Annotated[FloatArray, Layout("float64", ("weak_learners", "10"))]  # A⁻¹ of each BoostReg, packed
    solutions: Annotated[FloatArray, Layout("float64", ("weak_learners", "4"))]  # h of each BoostReg
    log_weights: Annotated[FloatArray, Layout("float64", ("weak_learners",))]  # ln v: minus the number of mistakes
    rounds: Count  # rounds folded so far


@hyperparameters
class AdaBoostOlm(Delayed, FullInformation, CheckedLearner[AdaBoostOlmState]):
    """AdaBoost.OLM++ over weak learners of one kind; requires the true label of every round.

    Late feedback uses the predicted labels and logits ζ of the prediction, or recomputes them from the current state.
    """

    algorithm = "adaboost-olm"
    smaller = "perceptron"
    state_type = AdaBoostOlmState

    weak_learners: Annotated[int, pydantic.Field(ge=1, le=1000)] = 5
    """N, the number of weak learners in the sequence."""
    weak_learner: Literal["perceptron"] = "perceptron"
    """The kind of weak learner."""
    horizon: Annotated[int, pydantic.Field(ge=2, le=2**53)] = 1_000_000
    """T, the approximate number of rounds; only its logarithm matters."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        return (
            "With probability 1 - δ, mistakes are at most 4 min M_i + 2 ln(N/δ), and min M_i is at most "
            f"4 (T ln K + N R(T))/Σ γ_i² for N weak learners of edges γ_i, over T ≤ {self.horizon:,} rounds, where M_i "
            "are the mistakes of member i and R is the regret of BoostReg (Agarwal, Kale and Zimmert 2022, Appendix "
            "C). Assumes that each round is folded before the next prediction."
        )

    @property
    def evidence_size(self) -> int:
        """3 values per weak learner, its predicted label and two logits, or 0 if they are recomputed."""
        return self.weak_learners * _EVIDENCE if self.as_of_prediction else 0

    def decide_cost(self, _: int) -> int:
        """Return the cost of K scores, the costs and a small regression per weak learner."""
        K, d = self.problem.n_labels, self.problem.n_features
        return self.weak_learners * (K * d + _CELL * K * K + _CALLS)

    def fold_cost(self, _: int) -> int:
        """Return the cost of updating two labels, of the costs and of a small regression per weak learner."""
        K, d = self.problem.n_labels, self.problem.n_features
        return self.weak_learners * (2 * d + _CELL * K * K + _CALLS)

    def init(self) -> AdaBoostOlmState:
        """Return an untrained state with equal weights."""
        state: AdaBoostOlmState = zero_state(self)
        state.inverses[:] = BoostReg.start(self.horizon).inverse
        return state

    def decide_unchecked(self, state: AdaBoostOlmState, contexts: Contexts) -> Decisions:
        """Return, for each label, the total weight of the members that answer with it."""
        K, trust = self.problem.n_labels, np.empty(self.weak_learners)
        softmax(state.log_weights, trust)
        distributions = np.zeros((contexts.n, K))
        evidence = np.empty((contexts.n, self.weak_learners, _EVIDENCE))
        for t in range(contexts.n):
            for i, answer in enumerate(self._answers(state, self._dense(contexts, t), evidence[t])):
                distributions[t, answer] += trust[i]
        settle_each(distributions)
        return Decisions(
            distributions, evidence.reshape(contexts.n, self.weak_learners * _EVIDENCE)[:, : self.evidence_size]
        )

    def fold_unchecked(self, state: AdaBoostOlmState, rounds: Rounds) -> AdaBoostOlmState:
        """Update every weak learner and BoostReg with the true label; lower the weights of those that erred."""
        for t in range(rounds.n):
            x, y = self._dense(rounds.contexts, t), int(rounds.true_labels[t])
            if y >= 0:
                self._learn(state, x, self._evidence(state, x, rounds.evidence[t]), y)
            state.rounds[()] += 1
        return state

    def _answers(self, state: AdaBoostOlmState, x: FloatArray, evidence: FloatArray) -> list[int]:
        """Return the answer of each member of the sequence; write their evidence (N, 3)."""
        weak, s, answers = WEAK_LEARNERS[self.weak_learner], np.zeros(self.problem.n_labels), []
        for i in range(self.weak_learners):
            named = weak.predict(state.memories[i], x, costs_of(s))
            zeta, s = self._boost_reg(state, i).predict(s, named)
            evidence[i] = named, *zeta
            answers.append(leader(s))
        return answers

    def _evidence(self, state: AdaBoostOlmState, x: FloatArray, stored: FloatArray) -> FloatArray:
        """Return the evidence (N, 3) for x (d,): as stored, or recomputed."""
        if self.evidence_size:
            return stored.reshape(self.weak_learners, _EVIDENCE)
        evidence = np.empty((self.weak_learners, _EVIDENCE))
        self._answers(state, x, evidence)
        return evidence

    def _learn(self, state: AdaBoostOlmState, x: FloatArray, evidence: FloatArray, y: int) -> None:
        if not self._is_possible(evidence):
            return
        weak, s = WEAK_LEARNERS[self.weak_learner], np.zeros(self.problem.n_labels)
        for i in range(self.weak_learners):
            named, zeta = int(evidence[i, 0]), evidence[i, 1:]
            weak.learn(state.memories[i], x, costs_of(s)[y], named, y)
            self._boost_reg(state, i).learn(s, named, zeta, y)
            s = boosted(s, named, zeta)
            state.log_weights[i] -= float(leader(s) != y)

    def _boost_reg(self, state: AdaBoostOlmState, i: int) -> BoostReg:
        return BoostReg(state.inverses[i], state.solutions[i], self.horizon)

    def _is_possible(self, evidence: FloatArray) -> bool:
        """Check whether all predicted labels are valid: a corrupt index must not exceed the array."""
        named = evidence[:, 0]
        return bool(((named >= 0) & (named < self.problem.n_labels)).all())

    def _dense(self, contexts: Contexts, t: int) -> FloatArray:
        x = np.empty(self.problem.n_features)
        densify(contexts, t, x)
        return x
