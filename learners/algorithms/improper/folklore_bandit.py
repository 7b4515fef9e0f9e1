"""The reduction from bandit feedback to full information, which learns only from explored rounds that were right.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022, Algorithm 2 and Theorem 4.1, with the factor 2 that is missing in print from its bound 2 √(K T R(T)).

With probability γ a round explores: its label is uniform. If the label of an exploring round is right, it is the true
label, and the base learner learns from it without an importance weight. Other rounds do not update. The label y is
drawn first, from p = (1 - γ) σ + γ/K. Given y, the round explored with probability (γ/K) / p_y, which takes a coin. The
coin needs no further randomness: the round counts as exploring if the residual uniform of the draw, which is uniform
given y, is below this probability.
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
    """A base learner: full information, bounded logarithmic loss, and `rounds` as the last field of its state.

    `needs_true_label` is true, and the evidence does not depend on the drawn label.
    """

    def regret_bound(self, rounds: int) -> float:
        """Return R(T), a bound in nats on the loss minus the comparator's loss after T rounds."""


class BanditReduction(CheckedLearner[Any]):
    """Algorithm 2 over any probabilistic learner.

    A new base is a subclass with its hyperparameters, its state (the base's with `rounds` renamed to `updates`,
    followed by `rounds`), and the property `base`.
    """

    exploration: Exploration

    @property
    @abstractmethod
    def base(self) -> ProbabilisticLearner:
        """The learner that learns from the explored rounds that were right."""

    @property
    def evidence_size(self) -> int:
        """The base's E, plus 1 for the γ of the decision, which the coin needs."""
        return self.base.evidence_size + 1

    def decide_cost(self, nonzeros: int) -> int:
        """Return the base's cost."""
        return self.base.decide_cost(nonzeros)

    def fold_cost(self, nonzeros: int) -> int:
        """Return the base's cost, as if every round were an update."""
        return self.base.fold_cost(nonzeros)

    @property
    def fold_overhead(self) -> int:
        """The base's overhead."""
        return self.base.fold_overhead

    def init(self) -> Any:
        """Return the base's first state, with a count of zero rounds."""
        return self.state_type(*self.base.init(), np.zeros((), dtype=np.int64))

    def decide_unchecked(self, state: Any, contexts: Contexts) -> Decisions:
        """Return (1 - γ) σ + γ/K for each context, with the base's σ; the evidence is the base's, then γ."""
        rate = self.exploration_rate(state.rounds.item())
        sigma, evidence = self.base.decide_unchecked(self._of_base(state), contexts)
        mixed = (1.0 - rate) * sigma + rate / self.problem.n_labels
        settle_each(mixed)
        return Decisions(mixed, np.concatenate([evidence, np.full((contexts.n, 1), rate)], axis=1))

    def fold_unchecked(self, state: Any, rounds: Rounds) -> Any:
        """Let the base learn from the correct labels of the rounds that explored."""
        lucky = rounds.correct & explored(rounds, self.problem.n_labels)
        base_state = self.base.fold_unchecked(self._of_base(state), self._as_full_information(rounds, lucky))
        state.rounds[()] += rounds.n
        return self.state_type(*base_state, state.rounds)

    def exploration_rate(self, rounds: int) -> float:
        """Return γ after `rounds` rounds: the fixed one, or min(1, √(K R(t)/t)) for t = rounds + 1."""
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
    """Check whether each round's label came from the uniform share γ of its distribution: (n,).

    The coin of round i is heads if its residual uniform is below (γ/K) / propensity; γ is its last entry of evidence.
    """
    coins: BoolArray = rounds.residual_uniforms * rounds.propensities < rounds.evidence[:, -1] / n_labels
    return coins


def select(rounds: Rounds, which: BoolArray) -> Rounds:
    """Return the rounds for which `which` (n,) is true, in order."""
    starts, indices, values, shared = rounds.contexts
    lengths = np.diff(starts)
    entries = np.repeat(which, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[which])]).astype(np.int64)
    contexts = Contexts(starts, indices if shared else indices[entries], values[entries], shared)
    columns: list[Any] = [column[which] for column in rounds[1:]]
    return Rounds(contexts, *columns)


class FolkloreBanditState(NamedTuple):
    """FOLKLORE's state, and a count of all rounds, few of which are updates."""

    inverse: Triangle  # A⁻¹, n by n, a packed lower triangle
    solution: Annotated[FloatArray, Layout("float64", ("n",))]  # h = A⁻¹G
    updates: Count  # rounds that FOLKLORE has learned from
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class FolkloreBandit(BanditReduction):
    """The bandit reduction over FOLKLORE: about γT/K of the rounds are updates, each with weight 1.

    The coin always uses the γ and propensity of the prediction. With `as_of_prediction`, late feedback takes the logits
    of the prediction, and the order of arrival affects the state only by rounding.
    """

    algorithm = "folklore-bandit"
    smaller = "gaptron"
    state_type = FolkloreBanditState

    exploration: Exploration = 0.1
    """γ; √(K R(T)/T) in the theorem, or `anytime` for γ_t = min(1, √(K R(t)/t)), which stays at 1 for a long time."""
    comparator_bound: Magnitude = 10.0
    """B of FOLKLORE: the comparator's weights of each label have norm at most B."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        """Refuse settings that the base refuses."""
        _ = self.base

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        if isinstance(self.exploration, str):
            return uncovered("the theorem's γ is fixed, but this γ falls", "a fixed exploration")
        return (
            "Expected mistakes exceed the logistic loss, in nats, of any W with rows of norm at most B by at most "
            f"K R(T)/γ + γT after T rounds fixed in advance, where γ = {self.exploration:g} and R(T) = 2KBX + "
            "(2BX + ln K + 2)/4 · K d ln(1 + T); with the best γ, by at most 2 √(K T R(T)) (Agarwal, Kale and Zimmert "
            f"2022, Theorem 4.1). {AT_ONCE}"
        )

    @property
    def base(self) -> Folklore:
        """The base learner, FOLKLORE."""
        return Folklore(
            problem=self.problem, comparator_bound=self.comparator_bound, delayed_update=self.delayed_update
        )
