"""AdaBoost.OLM++: online multiclass boosting that weights each weak learner by a small logistic regression.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression", ALT 2022,
Algorithm 4, Appendix C. The weak learners form a sequence. Each receives costs derived from the scores of its
predecessors and predicts a label. Its BoostReg, which is FOLKLORE with two labels and two features, updates the scores
with the predicted label; the argmax of the updated scores is the answer of this member of the sequence. The served
answer is that of a member drawn with exponential weights, so the distribution is the weighted mixture of the answers.
"""

import functools
import hashlib
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import pydantic

from learners.algorithms.improper import weak_learners as weak
from learners.algorithms.improper.boosting_regression import BoostReg, boosted, costs_of
from learners.base import (
    NO_LABEL,
    NO_PRICES,
    BoolArray,
    Contexts,
    Decisions,
    FloatArray,
    IntArray,
    Prices,
    Rounds,
    every_label,
)
from learners.hyperparameters import hyperparameters
from learners.kernels import place_of
from learners.layouts import Count, Layout, zero_state
from learners.learner import CheckedLearner, Delayed, DelayedUpdate, FullInformation
from learners.mathematics.exploration import leading_rival, settle_each, softmax
from learners.mathematics.linear_algebra import densify

_CALLS = 20_000  # multiply-adds that take as long as the overhead of a weak learner in Python
_CELL = 50  # multiply-adds that take as long as writing one of the K² costs to new memory
_EVIDENCE = 3  # numbers per member: the label that its weak learner predicted, and the two logits ζ of its BoostReg


class AdaBoostOlmState(NamedTuple):
    """The sequence of weak learners, their BoostRegs, and their weights."""

    memories: Annotated[FloatArray, Layout("float64", ("weak_learners", "memory_rows", "memory_columns"))]
    inverses: Annotated[FloatArray, Layout("float64", ("weak_learners", "10"))]  # A⁻¹ of each BoostReg, packed
    solutions: Annotated[FloatArray, Layout("float64", ("weak_learners", "4"))]  # h of each BoostReg
    log_weights: Annotated[FloatArray, Layout("float64", ("weak_learners",))]  # minus each member's number of mistakes
    rounds: Count  # rounds folded so far


@hyperparameters
class AdaBoostOlm(Delayed, FullInformation, CheckedLearner[AdaBoostOlmState]):
    """AdaBoost.OLM++ over weak learners of one kind; requires the true label of every round.

    Late feedback uses the members' predicted labels and logits ζ as of the prediction, or recomputes them.
    """

    algorithm = "adaboost-olm"
    smaller = "perceptron"
    state_type = AdaBoostOlmState

    weak_learners: Annotated[int, pydantic.Field(ge=1, le=1000)] = 5
    """N, the number of weak learners in the sequence."""
    weak_learner: weak.Name = "perceptron"
    """The kind of weak learner. `perceptron` sees all features. The others see a few random ones: `few-features` is a
    Perceptron, `cost-regression` a ridge regression of the costs, and `folklore` is FOLKLORE. More weak learners help
    most with `cost-regression`, and little with `perceptron`."""
    features_per_learner: Annotated[int, pydantic.Field(ge=1, le=100)] = 8
    """The number of random features of each weak learner, or all features if there are fewer. Not for `perceptron`."""
    features_seed: Annotated[int, pydantic.Field(ge=0, le=2**53)] = 0
    """The seed of the choice of features. Not for `perceptron`."""
    horizon: Annotated[int, pydantic.Field(ge=2, le=2**53)] = 1_000_000
    """T, the approximate number of rounds; only its logarithm matters."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    @property
    def guarantee(self) -> str:
        return (
            "With probability 1 - δ, mistakes are at most 4 min M_i + 2 ln(N/δ), and min M_i is at most "
            f"4 (T ln K + N R(T))/Σ γ_i² for N weak learners of edges γ_i, over T ≤ {self.horizon:,} rounds, where M_i "
            "are the mistakes of member i and R is the regret of BoostReg (Agarwal, Kale and Zimmert 2022, Appendix "
            "C). Assumes that each round is folded before the next prediction."
        )

    @property
    def evidence_size(self) -> int:
        return self.weak_learners * _EVIDENCE if self.as_of_prediction else 0

    def decide_cost(self, _: int) -> int:
        return self._step_cost()

    def fold_cost(self, _: int) -> int:
        return self._step_cost()

    def init(self) -> AdaBoostOlmState:
        state: AdaBoostOlmState = zero_state(self)
        state.inverses[:] = BoostReg.start(self.horizon).inverse
        for memory in state.memories:
            self._weak.start(memory, self._length, self.problem.n_labels)
        return state

    def decide_unchecked(
        self, state: AdaBoostOlmState, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
        among = every_label(contexts.n) if eligible is None else eligible
        K, trust = self.problem.n_labels, np.empty(self.weak_learners)
        softmax(state.log_weights, trust)
        distributions = np.zeros((contexts.n, K))
        evidence = np.empty((contexts.n, self.weak_learners, _EVIDENCE))
        for t in range(contexts.n):
            for i, s in enumerate(self._scores(state, self._views(contexts, t), evidence[t])):
                distributions[t, leading_rival(among, t, s, NO_LABEL)] += trust[i]  # NO_LABEL excludes no label
        settle_each(distributions)
        if among.shape[1]:
            alone = among.sum(axis=1) == 1  # exactly 1, though the weights may sum to slightly less
            distributions[alone] = among[alone]
        return Decisions(
            distributions, evidence.reshape(contexts.n, self.weak_learners * _EVIDENCE)[:, : self.evidence_size]
        )

    def fold_unchecked(self, state: AdaBoostOlmState, rounds: Rounds) -> AdaBoostOlmState:
        for t in range(rounds.n):
            views, y = self._views(rounds.contexts, t), int(rounds.true_labels[t])
            if y >= 0 and place_of(rounds.eligible, t, y) >= 0:
                self._learn(state, views, self._evidence(state, views, rounds.evidence[t]), rounds, t)
            state.rounds[()] += 1
        return state

    @property
    def memory_rows(self) -> int:
        """The rows of a weak learner's memory."""
        return self._weak.memory_shape(self._length, self.problem.n_labels)[0]

    @property
    def memory_columns(self) -> int:
        """The columns of a weak learner's memory."""
        return self._weak.memory_shape(self._length, self.problem.n_labels)[1]

    @property
    def _weak(self) -> weak.WeakLearner:
        return weak.WEAK_LEARNERS[self.weak_learner]

    @property
    def _length(self) -> int:
        """The number of features of a weak learner; if it sees only a few, the added constant is one of them."""
        d = self.problem.n_features
        return min(self.features_per_learner, d) + 1 if self._weak.sees_few else d

    def _step_cost(self) -> int:
        K, d = self.problem.n_labels, self.problem.n_features
        per_learner = self._weak.cost(self._length, K) + _CELL * K * K + _CALLS
        return self.weak_learners * per_learner + d

    def _scores(self, state: AdaBoostOlmState, views: Sequence[FloatArray], evidence: FloatArray) -> list[FloatArray]:
        """Return the scores (K,) of each member of the sequence; write the members' evidence (N, 3)."""
        weak_learner, s, scores = self._weak, np.zeros(self.problem.n_labels), []
        for i in range(self.weak_learners):
            named = weak_learner.predict(state.memories[i], views[i], costs_of(s))
            zeta, s = self._boost_reg(state, i).predict(s, named)
            evidence[i] = named, *zeta
            scores.append(s)
        return scores

    def _evidence(self, state: AdaBoostOlmState, views: Sequence[FloatArray], stored: FloatArray) -> FloatArray:
        """Return the evidence (N, 3) of a round: as stored, or recomputed."""
        if self.evidence_size:
            return stored.reshape(self.weak_learners, _EVIDENCE)
        evidence = np.empty((self.weak_learners, _EVIDENCE))
        self._scores(state, views, evidence)
        return evidence

    def _learn(
        self, state: AdaBoostOlmState, views: Sequence[FloatArray], evidence: FloatArray, rounds: Rounds, t: int
    ) -> None:
        if not ((evidence[:, 0] >= 0) & (evidence[:, 0] < self.problem.n_labels)).all():  # corrupt evidence
            return
        weak_learner, s, y = self._weak, np.zeros(self.problem.n_labels), int(rounds.true_labels[t])
        for i in range(self.weak_learners):
            named, zeta = int(evidence[i, 0]), evidence[i, 1:]
            weak_learner.learn(state.memories[i], views[i], costs_of(s)[y], named, y)
            self._boost_reg(state, i).learn(s, named, zeta, y)
            s = boosted(s, named, zeta)
            state.log_weights[i] -= float(leading_rival(rounds.eligible, t, s, NO_LABEL) != y)

    def _boost_reg(self, state: AdaBoostOlmState, i: int) -> BoostReg:
        return BoostReg(state.inverses[i], state.solutions[i], self.horizon)

    @functools.cached_property
    def _features(self) -> IntArray:
        """The features that each weak learner sees, (N, n). They are drawn once, because drawing takes up to 0.2 s."""
        return random_features(self.features_seed, self.weak_learners, self._length - 1, self.problem.n_features)

    def _views(self, contexts: Contexts, t: int) -> Sequence[FloatArray]:
        x = np.empty(self.problem.n_features)
        densify(contexts, t, x)
        if not self._weak.sees_few:
            return [x] * self.weak_learners
        few = x[self._features]
        return list(np.column_stack([few / self.problem.norm_bound, np.ones(self.weak_learners)]))


def random_features(seed: int, rows: int, n: int, n_features: int) -> IntArray:
    """Return `rows` random sets of n distinct features, (rows, n), by Floyd's algorithm with a hash of the seed."""
    table = np.empty((rows, n), dtype=np.int64)
    for i in range(rows):
        chosen: list[int] = []
        for last in range(n_features - n, n_features):
            digest = hashlib.sha256(f"{seed}/{i}/{last}".encode()).digest()
            drawn = int.from_bytes(digest[:8], "little") % (last + 1)
            chosen.append(last if drawn in chosen else drawn)
        table[i] = chosen
    table.flags.writeable = False
    return table
