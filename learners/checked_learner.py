"""The base class of every learner: it checks arrays once per batch, before compiled code reads them."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic

import numpy as np

from learners.base import (
    AnswerKind,
    BoolArray,
    ContextNorm,
    Contexts,
    Decisions,
    FloatArray,
    NormPolicy,
    Problem,
    Rounds,
    StateT,
)
from learners.checks import check_eligible, check_rounds, check_state
from learners.context_checks import check_contexts
from learners.hyperparameters import hyperparameters


@hyperparameters
class CheckedLearner(ABC, Generic[StateT]):
    """A `Learner` with checked verbs on top of the unchecked verbs of its subclass.

    Most theorems only assume ‖x‖ ≤ X, so the default norm policy is `scale`: it shortens longer contexts and preserves
    the norms of the others. A learner that needs another policy or norm overrides the class variable.

    Attributes:
        problem: the dimensions that the learner is built for.

    Raises:
        pydantic.ValidationError: if a hyperparameter is out of range.
    """

    algorithm: ClassVar[str]
    smaller: ClassVar[str]
    state_type: ClassVar[type[Any]]
    answer: ClassVar[AnswerKind] = "label"
    norm_policy: ClassVar[NormPolicy] = "scale"
    context_norm: ClassVar[ContextNorm] = "euclidean"
    intercept: ClassVar[bool] = True
    linear: ClassVar[bool] = False  # whether the scores are W x, for weights W (d, K) that the state has as `weights`
    accepts_rewards: ClassVar[bool] = False
    labels_grow: ClassVar[bool] = False
    problem: Problem

    @property
    @abstractmethod
    def evidence_size(self) -> int:
        """See `Learner.evidence_size`."""

    @property
    def needs_true_label(self) -> bool:
        """False: the right-or-wrong bit is enough."""
        return False

    @property
    def fold_overhead(self) -> int:
        """0: `fold` has no cost per call."""
        return 0

    def warnings(self, _: StateT) -> list[str]:
        """Return nothing: most states have no limits."""
        return []

    def contributions(self, state: StateT, contexts: Contexts, /) -> FloatArray | None:
        """See `Learner.contributions`."""
        if not self.linear:
            return None
        weights: FloatArray = state.weights  # type: ignore[attr-defined]
        return weights[contexts.indices] * contexts.values[:, np.newaxis]

    @abstractmethod
    def decide_unchecked(self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None) -> Decisions:
        """See `Learner.decide_unchecked`."""

    @abstractmethod
    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """See `Learner.fold_unchecked`."""

    def decide(self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None) -> Decisions:
        """Return the distribution over the eligible labels for each context, and the evidence.

        Does not change the state. `eligible` is (n, K), or (n, 0) or None if every label is eligible.

        Raises:
            InvalidArrayError: if the contexts or `eligible` do not fit the problem; the message names the field.
            InvalidStateError: if the state belongs to another learner or problem.
        """
        check_state(state, self)
        check_contexts(contexts, self.problem.n_features)
        if eligible is not None:
            check_eligible(eligible, contexts.n, self.problem.n_labels, self.answer)
        return self.decide_unchecked(state, contexts, eligible)

    def fold(self, state: StateT, rounds: Rounds) -> StateT:
        """Return the state after these rounds, applied in order; may change the given state in place.

        Raises:
            InvalidArrayError: if the rounds do not fit the learner; the message names the field.
            InvalidStateError: if the state belongs to another learner or problem.
        """
        check_state(state, self)
        check_rounds(rounds, self.problem, self.evidence_size, self.answer)
        return self.fold_unchecked(state, rounds)


class WithoutEvidence:
    """A learner whose updates only use the current state: its decisions leave no evidence."""

    @property
    def evidence_size(self) -> int:
        """0."""
        return 0


class FullInformation:
    """A learner that learns only from true labels."""

    @property
    def needs_true_label(self) -> bool:
        """True."""
        return True
