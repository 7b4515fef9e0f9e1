"""The kinds of answer that learners give, and the one way to draw any of them."""

from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard

from learners.base import AnswerKind, AnyLearner, Decisions, Draws, FloatArray, Learner, StateT
from learners.checks import check_uniforms
from learners.mathematics.exploration import draw, draw_unchecked


class StructuredLearner(Learner[StateT], Protocol[StateT]):
    """A learner whose answer is more than a label, and which draws it by itself.

    An answer is a row of K numbers: of a *label set*, 1 for each label that is in it, else 0; of a *ranking*, the
    labels from first to last. Such rows are what `Rounds.labels` and `Rounds.true_labels` hold, the latter rows of
    NO_LABEL where the truth is unknown. `Decisions.distributions` are, of a label set, each label's probability to be
    in it, (n, K); of a ranking nothing, (n, 0).
    """

    answer: ClassVar[Literal["label-set", "ranking"]]

    @property
    def n_uniforms(self) -> int:
        """How many uniform numbers one answer takes."""

    def draw(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """An answer for each of n decisions, from uniforms (n, n_uniforms) in [0, 1), with its exact probability."""

    def draw_unchecked(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """As `draw`, for arrays that the caller has checked."""


AnyStructuredLearner: TypeAlias = StructuredLearner[Any]


def answer_kind(learner: AnyLearner | type[Any]) -> AnswerKind:
    """What a learner answers."""
    return learner.answer


def is_structured(learner: AnyLearner | type[Any]) -> TypeGuard[AnyStructuredLearner]:
    """Whether a learner's answers are rows, and drawn by itself."""
    return answer_kind(learner) in ("label-set", "ranking")


def uniforms_per_answer(learner: AnyLearner) -> int:
    """How many uniform numbers one answer takes."""
    return learner.n_uniforms if is_structured(learner) else 1


def draw_answers(learner: AnyLearner, decisions: Decisions, uniforms: FloatArray) -> Draws:
    """An answer for each of n decisions, from uniforms (n, uniforms_per_answer) in [0, 1).

    Raises:
        InvalidArrayError: for decisions or uniforms that nothing can be drawn from, naming the field.
    """
    check_uniforms(uniforms, (len(decisions.evidence), uniforms_per_answer(learner)))
    if is_structured(learner):
        return learner.draw(decisions, uniforms)
    return Draws(*draw(decisions.distributions, uniforms[:, 0]))


def draw_answers_unchecked(learner: AnyLearner, decisions: Decisions, uniforms: FloatArray) -> Draws:
    """As `draw_answers`, for arrays that the caller has checked: others may crash the interpreter."""
    if is_structured(learner):
        return learner.draw_unchecked(decisions, uniforms)
    return Draws(*draw_unchecked(decisions.distributions, uniforms[:, 0]))
