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
from typing import Any

import numpy as np

from learners.base import AnyLearner, BoolArray, Contexts, Decisions, FloatArray, Rounds, every_label
from learners.checked_learner import CheckedLearner
from learners.hyperparameters import Exploration
from learners.layouts import zero_state
from learners.mathematics.exploration import settle_each


class ExploredRounds(CheckedLearner[Any]):
    """Algorithm 2 over a base learner with full information, whose evidence does not depend on the drawn label."""

    exploration: Exploration

    @property
    @abstractmethod
    def base_learner(self) -> AnyLearner:
        """The learner that learns from the explored rounds that were right."""

    @abstractmethod
    def base_regret(self, rounds: int) -> float:
        """Return R(T), the base's bound after T rounds."""

    @abstractmethod
    def base_state(self, state: Any) -> Any:
        """Return the state of the base, as views of this state; `updates` is its count of rounds."""

    @property
    def evidence_size(self) -> int:
        """The base's E, plus 1 for the γ of the decision, which the coin needs."""
        return self.base_learner.evidence_size + 1

    def decide_cost(self, nonzeros: int) -> int:
        """Return the base's cost."""
        return self.base_learner.decide_cost(nonzeros)

    def fold_cost(self, nonzeros: int) -> int:
        """Return the base's cost, as if every round were an update."""
        return self.base_learner.fold_cost(nonzeros)

    @property
    def fold_overhead(self) -> int:
        """The base's overhead."""
        return self.base_learner.fold_overhead

    def init(self) -> Any:
        """Return the base's first state, with a count of zero rounds."""
        state = zero_state(self)  # type: ignore[arg-type]
        for part, first in zip(self.base_state(state), self.base_learner.init(), strict=True):
            part[...] = first
        return state

    def decide_unchecked(self, state: Any, contexts: Contexts, eligible: BoolArray | None = None) -> Decisions:
        """Return (1 - γ) σ + γ/K for each context, with the base's σ; the evidence is the base's, then γ.

        With eligible labels, σ is the base's distribution over them, and γ/K' the share of each.
        """
        rate = self.exploration_rate(state.rounds.item())
        sigma, evidence = self.base_learner.decide_unchecked(self.base_state(state), contexts, eligible)
        among = every_label(contexts.n) if eligible is None else eligible
        shares = rate / counts_of(among, self.problem.n_labels)[:, None]
        mixed = (1.0 - rate) * sigma + (np.where(among, shares, 0.0) if among.shape[1] else shares)
        settle_each(mixed)
        return Decisions(mixed, np.concatenate([evidence, np.full((contexts.n, 1), rate)], axis=1))

    def fold_unchecked(self, state: Any, rounds: Rounds) -> Any:
        """Let the base learn from the correct labels of the rounds that explored."""
        lucky = rounds.correct & explored(rounds, self.problem.n_labels)
        self.base_learner.fold_unchecked(self.base_state(state), self._as_full_information(rounds, lucky))
        state.rounds[()] += rounds.n
        return state

    def exploration_rate(self, rounds: int) -> float:
        """Return γ after `rounds` rounds: the fixed one, or min(1, √(K R(t)/t)) for t = rounds + 1."""
        if not isinstance(self.exploration, str):
            return float(self.exploration)
        t = rounds + 1
        return min(1.0, math.sqrt(self.problem.n_labels * self.base_regret(t) / t))

    def _as_full_information(self, rounds: Rounds, which: BoolArray) -> Rounds:
        chosen = select(rounds, which)
        evidence = np.ascontiguousarray(chosen.evidence[:, : self.base_learner.evidence_size])
        return chosen._replace(true_labels=chosen.labels, evidence=evidence)


def explored(rounds: Rounds, n_labels: int) -> BoolArray:
    """Check whether each round's label came from the uniform share γ of its distribution: (n,).

    The coin of round i is heads if its residual uniform is below (γ/K') / propensity, where K'
    labels were eligible; γ is its last entry of evidence.
    """
    shares = rounds.evidence[:, -1] / counts_of(rounds.eligible, n_labels)
    coins: BoolArray = rounds.residual_uniforms * rounds.propensities < shares
    return coins


def counts_of(eligible: BoolArray, n_labels: int) -> FloatArray:
    """Return K' of each row of `eligible`, (n,): the number of labels that the round could answer."""
    counts = eligible.sum(axis=1) if eligible.shape[1] else np.full(len(eligible), n_labels)
    return np.asarray(counts, np.float64)


def select(rounds: Rounds, which: BoolArray) -> Rounds:
    """Return the rounds for which `which` (n,) is true, in order."""
    starts, indices, values, shared = rounds.contexts
    lengths = np.diff(starts)
    entries = np.repeat(which, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[which])]).astype(np.int64)
    contexts = Contexts(starts, indices if shared else indices[entries], values[entries], shared)
    columns: list[Any] = [column[which] for column in rounds[1:]]
    return Rounds(contexts, *columns)
