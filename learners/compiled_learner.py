"""The base class of learners with compiled kernels: their verbs and common defaults."""

from abc import abstractmethod
from functools import cached_property

import numpy as np

from learners.base import BoolArray, Contexts, Decisions, Rounds, StateT, every_label
from learners.checked_learner import CheckedLearner
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, as_given, call_by_state
from learners.layouts import zero_state


@hyperparameters
class CompiledLearner(CheckedLearner[StateT]):
    """A `Learner` built from kernels: a subclass supplies hyperparameters, `kernels`, `fold_cost` and `guarantee`."""

    @property
    @abstractmethod
    def kernels(self) -> Kernels:
        """The compiled verbs and their parameters."""

    @cached_property
    def verbs(self) -> Kernels:
        """`kernels`, computed once, and known to compiled code that calls them by the type of the state."""
        kernels = self.kernels
        call_by_state(self.state_type, kernels)
        return kernels

    @property
    def evidence_size(self) -> int:
        """K, for the scores at prediction time."""
        return self.problem.n_labels

    def decide_cost(self, nonzeros: int) -> int:
        """Return the multiply-adds of scoring K labels."""
        return self.problem.n_labels * (nonzeros + 10)

    def init(self) -> StateT:
        """Return a state of zeros."""
        state: StateT = zero_state(self)  # type: ignore[arg-type]
        return state

    def prepare(self, state: StateT, contexts: Contexts) -> tuple[StateT, Contexts]:
        """Return the state with room for contexts to be folded, and the contexts in the form that the kernels take.

        May change the state in place.
        """
        return state, contexts

    def decide_unchecked(self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None) -> Decisions:
        """See `Learner.decide_unchecked`."""
        distributions = np.empty((contexts.n, self.problem.n_labels))
        evidence = np.empty((contexts.n, self.evidence_size))
        parameters, decide, _, locate = self.verbs
        located = contexts if locate is as_given else locate(parameters, state, contexts)
        among = every_label(contexts.n) if eligible is None else eligible
        decide(parameters, state, located, among, distributions, evidence)
        return Decisions(distributions, evidence)

    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """See `Learner.fold_unchecked`."""
        parameters, _, fold, _ = self.verbs
        fold(parameters, state, rounds)
        return state
