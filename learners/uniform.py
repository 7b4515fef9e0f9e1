"""The control: every label with the same probability, learning nothing."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from learners.base import Contexts, Count, Decisions, Problem, Rounds, hyperparameters, zero_state


class UniformState(NamedTuple):
    """Nothing is learned; the rounds are counted."""

    rounds: Count  # rounds folded so far


@hyperparameters
class Uniform:
    """Draws each label with probability 1/K, whatever the context. Collects unbiased data; a baseline."""

    algorithm: ClassVar[str] = "uniform"
    guarantee: ClassVar[str] = "Errs in exactly (K - 1)/K of the rounds in expectation."
    smaller: ClassVar[str] = "fewer labels"
    state_type: ClassVar[type[Any]] = UniformState

    problem: Problem

    @property
    def evidence_size(self) -> int:
        """Nothing is needed."""
        return 0

    @property
    def needs_true_label(self) -> bool:
        """The feedback is only counted."""
        return False

    @property
    def fold_cost(self) -> int:
        """Constant."""
        return 1

    def init(self) -> UniformState:
        """No rounds."""
        state: UniformState = zero_state(self)
        return state

    def decide(self, state: UniformState, contexts: Contexts) -> Decisions:
        """1/K everywhere."""
        del state
        K, n = self.problem.n_labels, contexts.n
        return Decisions(np.full((n, K), 1.0 / K), np.empty((n, 0)))

    def fold(self, state: UniformState, rounds: Rounds) -> UniformState:
        """Counts the rounds."""
        state.rounds[()] += rounds.n
        return state
