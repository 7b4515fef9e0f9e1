"""The base class of learners of actions: checked verbs on top of kernels."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Generic

import numpy as np

from learners.actions.base import ActionProblem, ActionRounds, Candidates
from learners.actions.checks import check_action_rounds, check_candidates
from learners.base import AnswerKind, ContextNorm, Contexts, FloatArray, NormPolicy, StateT
from learners.checks import check_state
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels
from learners.layouts import zero_state


@hyperparameters
class CompiledActionLearner(ABC, Generic[StateT]):
    """An `ActionLearner` built from kernels: a subclass supplies hyperparameters, `kernels`, costs and `guarantee`.

    The kernels are `decide(parameters, state, candidates, distributions)`, with room for m probabilities, and
    `fold(parameters, state, rounds)`.

    Attributes:
        problem: the dimensions that the learner is built for.

    Raises:
        pydantic.ValidationError: if a hyperparameter is out of range.
    """

    algorithm: ClassVar[str]
    smaller: ClassVar[str]
    state_type: ClassVar[type[Any]]
    answer: ClassVar[AnswerKind] = "action"
    norm_policy: ClassVar[NormPolicy] = "scale"
    context_norm: ClassVar[ContextNorm] = "euclidean"
    intercept: ClassVar[bool] = True
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = False
    evidence_size: ClassVar[int] = 1
    needs_true_label: ClassVar[bool] = False
    fold_overhead: ClassVar[int] = 0
    problem: ActionProblem

    @property
    @abstractmethod
    def kernels(self) -> Kernels:
        """The compiled verbs and their parameters."""

    @cached_property
    def _verbs(self) -> Kernels:
        """`kernels`, computed once."""
        return self.kernels

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """See `ActionLearner.guarantee`."""

    @abstractmethod
    def contributions(self, state: StateT, vector: Contexts, /) -> FloatArray:
        """See `ActionLearner.contributions`."""

    def warnings(self, _: StateT) -> list[str]:
        """Return nothing: most states have no limits."""
        return []

    def init(self) -> StateT:
        """Return a state of zeros."""
        state: StateT = zero_state(self)  # type: ignore[arg-type]
        return state

    def with_room(self, state: StateT, _: Contexts) -> StateT:
        """Return the state with room for contexts to be folded. May change the state in place."""
        return state

    def with_spare_rows(self, state: StateT, _: int) -> StateT:
        """Return the state with room for this many further features. May change the state in place."""
        return state

    def decide(self, state: StateT, candidates: Candidates) -> FloatArray:
        """Return the probability of each candidate, (m,), 0 where not eligible. Does not change the state.

        Raises:
            InvalidArrayError: if the candidates are invalid; the message names the field.
            InvalidStateError: if the state belongs to another learner or problem.
        """
        check_state(state, self)
        check_candidates(candidates, self.problem.n_features)
        return self.decide_unchecked(state, candidates)

    def fold(self, state: StateT, rounds: ActionRounds) -> StateT:
        """Return the state after these rounds, applied in order; may change the given state in place.

        Raises:
            InvalidArrayError: if the rounds are invalid; the message names the field.
            InvalidStateError: if the state belongs to another learner or problem.
        """
        check_state(state, self)
        check_action_rounds(rounds, self.problem.n_features)
        return self.fold_unchecked(state, rounds)

    def decide_unchecked(self, state: StateT, candidates: Candidates) -> FloatArray:
        """See `ActionLearner.decide_unchecked`."""
        distributions = np.empty(candidates.vectors.n)
        parameters, decide, *_ = self._verbs
        decide(parameters, state, candidates, distributions)
        return distributions

    def fold_unchecked(self, state: StateT, rounds: ActionRounds) -> StateT:
        """See `ActionLearner.fold_unchecked`."""
        state = self.with_room(state, rounds.chosen)
        parameters, _, fold, _ = self._verbs
        fold(parameters, state, rounds)
        return state
