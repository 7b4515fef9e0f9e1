"""From full information to the bit: a learner that answers with probabilities learns from lucky guesses alone.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022, Algorithm 2 and Theorem 4.1, with the factor 2 that its bound 2 √(K T R(T)) lacks in print.

With probability γ a round explores: its label is uniform. A correct label of an exploring round is the true
one, and the base learns from it as it is, without any weight; no other round teaches. The label is drawn from
p = (1 - γ) σ + γ/K in one go, and the coin afterwards: given the label y, the round has explored with
probability (γ/K) / p_y, so it has where the residual uniform of the draw, uniform whatever the label, is below that.
"""

import math
from abc import abstractmethod
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np

from learners.algorithms.improper.folklore import Folklore
from learners.base import BoolArray, Contexts, Decisions, FloatArray, Learner, Rounds
from learners.checked_learner import CheckedLearner
from learners.hyperparameters import Exploration, Magnitude, hyperparameters
from learners.layouts import Count, Layout, Triangle
from learners.mathematics.delayed import DelayedUpdate
from learners.mathematics.exploration import settle_each
from learners.mathematics.guarantees import AT_ONCE, uncovered


class ProbabilisticLearner(Learner[Any], Protocol):
    """What the reduction takes: full information, logarithmic loss bounded, and `rounds` the last field of its state.

    `needs_true_label` is true, and the evidence is that of the decision, whatever the label.
    """

    def regret_bound(self, rounds: int) -> float:
        """R(T): by how much the loss exceeds the comparator's, at most, in nats."""


class BanditReduction(CheckedLearner[Any]):
    """Algorithm 2 over any probabilistic learner.

    A new base is a subclass with its hyperparameters, its state (the base's with its rounds called
    `updates`, and `rounds` after it), and one line, `base`.
    """

    exploration: Exploration

    @property
    @abstractmethod
    def base(self) -> ProbabilisticLearner:
        """The learner that the lucky guesses teach."""

    @property
    def evidence_size(self) -> int:
        """The base's, and the γ of the decision, which the coin needs."""
        return self.base.evidence_size + 1

    def decide_cost(self, nonzeros: int) -> int:
        """The base's."""
        return self.base.decide_cost(nonzeros)

    def fold_cost(self, nonzeros: int) -> int:
        """The base's, were every round an update."""
        return self.base.fold_cost(nonzeros)

    @property
    def fold_overhead(self) -> int:
        """The base's."""
        return self.base.fold_overhead

    def init(self) -> Any:
        """The base's first state, and no rounds."""
        return self.state_type(*self.base.init(), np.zeros((), dtype=np.int64))

    def decide_unchecked(self, state: Any, contexts: Contexts) -> Decisions:
        """(1 - γ) σ + γ/K for each context, σ being the base's answer; the evidence is the base's, then γ."""
        rate = self.exploration_rate(state.rounds.item())
        sigma, evidence = self.base.decide_unchecked(self._of_base(state), contexts)
        mixed = (1.0 - rate) * sigma + rate / self.problem.n_labels
        settle_each(mixed)
        return Decisions(mixed, np.concatenate([evidence, np.full((contexts.n, 1), rate)], axis=1))

    def fold_unchecked(self, state: Any, rounds: Rounds) -> Any:
        """The base learns from the correct labels of the rounds that explored."""
        lucky = rounds.correct & explored(rounds, self.problem.n_labels)
        base_state = self.base.fold_unchecked(self._of_base(state), self._as_full_information(rounds, lucky))
        state.rounds[()] += rounds.n
        return self.state_type(*base_state, state.rounds)

    def exploration_rate(self, rounds: int) -> float:
        """γ for the decision after so many rounds: the fixed one, or min(1, √(K R(t)/t)) for t = rounds + 1."""
        if not isinstance(self.exploration, str):
            return float(self.exploration)
        t = rounds + 1
        return min(1.0, math.sqrt(self.problem.n_labels * self.base.regret_bound(t) / t))

    def _of_base(self, state: Any) -> Any:
        return self.base.state_type(*state[:-1])

    def _as_full_information(self, rounds: Rounds, which: BoolArray) -> Rounds:
        chosen = select(rounds, which)
        evidence = np.ascontiguousarray(chosen.evidence[:, : self.base.evidence_size])
        return chosen._replace(true_labels=chosen.labels, evidence=evidence)


def explored(rounds: Rounds, n_labels: int) -> BoolArray:
    """Whether each round's label came from the uniform share γ of its distribution: (n,).

    The coin of round i is heads where its residual uniform is below (γ/K) / propensity; γ is the last of its evidence.
    """
    coins: BoolArray = rounds.residual_uniforms * rounds.propensities < rounds.evidence[:, -1] / n_labels
    return coins


def select(rounds: Rounds, which: BoolArray) -> Rounds:
    """The rounds for which `which` (n,) is true, in order."""
    starts, indices, values, shared = rounds.contexts
    lengths = np.diff(starts)
    entries = np.repeat(which, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[which])]).astype(np.int64)
    contexts = Contexts(starts, indices if shared else indices[entries], values[entries], shared)
    columns: list[Any] = [column[which] for column in rounds[1:]]
    return Rounds(contexts, *columns)


class FolkloreBanditState(NamedTuple):
    """FOLKLORE's, and all the rounds, of which few are updates."""

    inverse: Triangle  # A⁻¹, n by n, a packed lower triangle
    solution: Annotated[FloatArray, Layout("float64", ("n",))]  # h = A⁻¹G
    updates: Count  # rounds that FOLKLORE has learned from
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class FolkloreBandit(BanditReduction):
    """The bandit reduction over FOLKLORE: about γT/K of the rounds are updates, each with a weight of one.

    The coin is always that of the prediction. Where late feedback takes the logits as predicted, the state depends on
    the order of arrival by rounding alone.
    """

    algorithm = "folklore-bandit"
    smaller = "gaptron"
    state_type = FolkloreBanditState

    exploration: Exploration = 0.1
    """γ; √(K R(T)/T) in the theorem, or `anytime` for γ_t = min(1, √(K R(t)/t)), which explores very long."""
    comparator_bound: Magnitude = 10.0
    """B of FOLKLORE: each label's weights are compared with any of at most this norm."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        """Refuses what the base refuses."""
        _ = self.base

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        if isinstance(self.exploration, str):
            return uncovered("the theorem's γ is fixed, and this one falls", "a fixed exploration")
        return (
            "Expected mistakes exceed the logistic loss, in nats, of any W with rows of norm at most B by at most K "
            f"R(T)/γ + γT after T rounds fixed beforehand, γ = {self.exploration:g} and R(T) = 2KBX + (2BX + ln K + "
            "2)/4 · K d ln(1 + T): 2 √(K T R(T)) at the best γ (Agarwal, Kale and Zimmert 2022, Theorem 4.1). "
            f"{AT_ONCE}"
        )

    @property
    def base(self) -> Folklore:
        """FOLKLORE."""
        return Folklore(
            problem=self.problem, comparator_bound=self.comparator_bound, delayed_update=self.delayed_update
        )
