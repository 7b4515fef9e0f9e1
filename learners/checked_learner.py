"""What every learner shares: its arrays are checked once per batch, before any compiled code reads them."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic

from learners.base import AnswerKind, ContextNorm, Contexts, Decisions, NormPolicy, Problem, Rounds, StateT
from learners.checks import check_rounds, check_state
from learners.context_checks import check_contexts
from learners.hyperparameters import hyperparameters


@hyperparameters
class CheckedLearner(ABC, Generic[StateT]):
    """A `Learner` whose subclass writes the unchecked verbs; the checked ones follow.

    Most theorems assume ‖x‖ ≤ X and nothing more: `scale` shortens longer contexts, and keeps what the length of
    the others says. A learner that needs another policy, or another norm, names it.

    Attributes:
        problem: the sizes that the learner is built for.

    Raises:
        pydantic.ValidationError: for a hyperparameter out of range.
    """

    algorithm: ClassVar[str]
    smaller: ClassVar[str]
    state_type: ClassVar[type[Any]]
    answer: ClassVar[AnswerKind] = "label"
    norm_policy: ClassVar[NormPolicy] = "scale"
    context_norm: ClassVar[ContextNorm] = "euclidean"
    problem: Problem

    @property
    @abstractmethod
    def evidence_size(self) -> int:
        """See `Learner.evidence_size`."""

    @property
    def needs_true_label(self) -> bool:
        """The bit is enough."""
        return False

    @property
    def fold_overhead(self) -> int:
        """Nothing."""
        return 0

    @abstractmethod
    def decide_unchecked(self, state: StateT, contexts: Contexts) -> Decisions:
        """See `Learner.decide_unchecked`."""

    @abstractmethod
    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """See `Learner.fold_unchecked`."""

    def decide(self, state: StateT, contexts: Contexts) -> Decisions:
        """The distribution over the labels for each context, and the evidence. Leaves the state as it is.

        Raises:
            InvalidArrayError: for contexts that are not those of the problem, naming the field.
            InvalidStateError: for a state of another learner or problem.
        """
        check_state(state, self)
        check_contexts(contexts, self.problem.n_features)
        return self.decide_unchecked(state, contexts)

    def fold(self, state: StateT, rounds: Rounds) -> StateT:
        """The state after these rounds, in order; it may be changed in place.

        Raises:
            InvalidArrayError: for rounds that are not those of the learner, naming the field.
            InvalidStateError: for a state of another learner or problem.
        """
        check_state(state, self)
        check_rounds(rounds, self.problem, self.evidence_size, self.answer)
        return self.fold_unchecked(state, rounds)


class WithoutEvidence:
    """A learner whose updates go by the present state alone: its decisions leave no evidence."""

    @property
    def evidence_size(self) -> int:
        """Nothing."""
        return 0


class FullInformation:
    """A learner that learns from true labels alone."""

    @property
    def needs_true_label(self) -> bool:
        """Always."""
        return True
