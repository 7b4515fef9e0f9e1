"""The kinds of answer that learners give, and the one way to draw any of them."""

from typing import Any, Literal, TypeAlias, TypeGuard

from learners.base import AnyLearner, AnyStructuredLearner, Decisions, Draws, FloatArray
from learners.exploration import draw

AnswerKind: TypeAlias = Literal["label", "level", "label-set", "ranking"]
"""One of the labels; one of the labels, which have an order; any subset of the labels; all labels in some order."""


def answer_kind(learner: AnyLearner | type[Any]) -> AnswerKind:
    """What a learner answers: a label, where it does not say otherwise."""
    kind: AnswerKind = getattr(learner, "answer", "label")
    return kind


def is_structured(learner: AnyLearner | type[Any]) -> TypeGuard[AnyStructuredLearner]:
    """Whether a learner's answers are rows, and drawn by itself."""
    return answer_kind(learner) in ("label-set", "ranking")


def uniforms_per_answer(learner: AnyLearner) -> int:
    """How many uniform numbers one answer takes."""
    return learner.n_uniforms if is_structured(learner) else 1


def draw_answers(learner: AnyLearner, decisions: Decisions, uniforms: FloatArray) -> Draws:
    """An answer for each of n decisions, from uniforms (n, uniforms_per_answer) in [0, 1)."""
    if is_structured(learner):
        return learner.draw(decisions, uniforms)
    return Draws(*draw(decisions.distributions, uniforms[:, 0]))
