"""Learners whose answers are label sets or rankings, and how to draw an answer from any learner of labels."""

from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard

from learners.base import AnswerKind, AnyLearner, BoolArray, Decisions, Draws, FloatArray, IntArray, Learner, StateT
from learners.checks import check_uniforms
from learners.mathematics.exploration import draw, draw_unchecked


class StructuredLearner(Learner[StateT], Protocol[StateT]):
    """A learner that answers with a row of K numbers and draws the answer itself.

    A *label set* has 1 for each label in the set and 0 elsewhere. A *ranking* lists the labels from first to last.
    `Rounds.labels` and `true_labels` consist of such rows; rows of unknown truths are all NO_LABEL.
    `Decisions.distributions` contains the probability that each label is in the set, (n, K), or nothing for rankings,
    (n, 0).
    """

    answer: ClassVar[Literal["label-set", "ranking"]]

    @property
    def n_uniforms(self) -> int:
        """The number of uniform numbers that one answer consumes."""

    @property
    def possible_named(self) -> str:
        """What an answer must be: the words that complete "must be …" in an error message."""

    def possible(self, answers: IntArray) -> BoolArray:
        """Return whether each row of integers (n, K) is a possible answer of this learner, (n,)."""

    def draw(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """Draw an answer for each of n decisions, with its exact probability; uniforms are (n, n_uniforms)."""

    def draw_unchecked(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """Do the same as `draw`, for checked arrays."""


AnyStructuredLearner: TypeAlias = StructuredLearner[Any]


def answer_kind(learner: AnyLearner | type[Any]) -> AnswerKind:
    """Return the kind of answer that a learner gives."""
    return learner.answer


def is_structured(learner: AnyLearner | type[Any]) -> TypeGuard[AnyStructuredLearner]:
    """Check whether a learner answers with rows and draws them itself."""
    return answer_kind(learner) in ("label-set", "ranking")


def uniforms_per_answer(learner: AnyLearner) -> int:
    """Return U, the number of uniform numbers in [0, 1) that one answer consumes."""
    return learner.n_uniforms if is_structured(learner) else 1


def draw_answers(learner: AnyLearner, decisions: Decisions, uniforms: FloatArray) -> Draws:
    """Draw an answer for each of n decisions. Raises `InvalidArrayError` if uniforms are not (n, U) numbers in [0, 1).

    U is `uniforms_per_answer(learner)`.
    """
    check_uniforms(uniforms, (len(decisions.evidence), uniforms_per_answer(learner)))
    if is_structured(learner):
        return learner.draw(decisions, uniforms)
    return Draws(*draw(decisions.distributions, uniforms[:, 0]))


def draw_answers_unchecked(learner: AnyLearner, decisions: Decisions, uniforms: FloatArray) -> Draws:
    """Do the same as `draw_answers`, for checked arrays: invalid ones may crash the interpreter."""
    if is_structured(learner):
        return learner.draw_unchecked(decisions, uniforms)
    return Draws(*draw_unchecked(decisions.distributions, uniforms[:, 0]))
