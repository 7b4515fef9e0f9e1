"""Feedback: parsed from requests, coalesced, joined with predictions in the store, and answered."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from service.environment import Environment
from service.errors import (
    BrokenPredictionError,
    FeedbackConflictError,
    InconsistentFeedbackError,
    LabelNeededError,
    NewerVersionError,
    PredictionExpiredError,
    PredictionNotFoundError,
    WagerError,
)
from service.models.answer_kinds import Answers
from service.models.model import Model
from service.per_item import apply_to_valid, attempt_each
from service.replicas.upkeep import Upkeep
from service.rounds.batching import ITEMS_AT_ONCE, Batcher
from service.schemas.rounds import FeedbackAnswer, FeedbackRequest
from service.store.base import Feedback, FeedbackResult, FeedbackStatus
from service.store.records.outcomes import Outcome
from service.wording.values import quoted, shown

_REFUSALS: dict[FeedbackStatus, tuple[type[WagerError], str, str]] = {
    FeedbackStatus.UNKNOWN: (PredictionNotFoundError, "there is no prediction {id}", "prediction_id"),
    FeedbackStatus.EXPIRED: (PredictionExpiredError, "the window of prediction {id} has closed", "prediction_id"),
    FeedbackStatus.INCONSISTENT: (
        InconsistentFeedbackError,
        "contradicts {truth} of prediction {id}",
        "correct",
    ),
    FeedbackStatus.LABEL_NEEDED: (
        LabelNeededError,
        "missing; the learner of this model needs {truth} if the prediction was wrong",
        "{truth}",
    ),
    FeedbackStatus.BROKEN: (BrokenPredictionError, "the record of prediction {id} is damaged", "prediction_id"),
    FeedbackStatus.NEWER: (NewerVersionError, "a newer version wrote prediction {id}", "prediction_id"),
}


class FeedbackJoiner:
    """Joins feedback with the predictions of one model.

    Args:
        model: the model that made the predictions.
        environment: provides the store and the clock.
        upkeep: receives the number of the newest recorded round.
    """

    def __init__(self, model: Model, environment: Environment, upkeep: Upkeep) -> None:
        self._model = model
        self._environment = environment
        self._upkeep = upkeep
        self._batcher: Batcher[Feedback, FeedbackResult] = Batcher(self._join, ITEMS_AT_ONCE)

    @property
    def idle(self) -> bool:
        """Whether no feedback is queued or in flight."""
        return self._batcher.idle

    async def give(self, request: FeedbackRequest) -> FeedbackAnswer:
        """Record the feedback; return the recorded outcome of its prediction.

        Raises:
            WagerError: if the feedback is refused.
        """
        result = await self._batcher.submit(_read(self._model.answers, request))
        answer = _to_answer(request, result, self._model.answers.truth_field)
        if isinstance(answer, WagerError):
            raise answer
        return answer

    async def give_all(self, requests: Sequence[FeedbackRequest]) -> list[FeedbackAnswer | Exception]:
        """Handle each request as `give` does; return errors instead of raising them."""
        results = await apply_to_valid(
            self._batcher.submit_all, attempt_each(partial(_read, self._model.answers), requests)
        )
        truth_field = self._model.answers.truth_field
        return [
            result if isinstance(result, Exception) else _to_answer(request, result, truth_field)
            for request, result in zip(requests, results, strict=True)
        ]

    async def _join(self, feedback: list[Feedback]) -> list[FeedbackResult]:
        model, environment = self._model, self._environment
        results = await environment.store.add_feedback(model.key, feedback, model.feedback_rules, environment.now())
        recorded = [outcome.round for status, outcome in results if status is FeedbackStatus.RECORDED and outcome]
        self._upkeep.note_rounds(max(recorded, default=0))
        return results


def _read(answers: Answers, request: FeedbackRequest) -> Feedback:
    return Feedback(request.prediction_id, request.correct, answers.read(request))


def _to_answer(request: FeedbackRequest, result: FeedbackResult, truth_field: str) -> FeedbackAnswer | WagerError:
    """Convert a result to the recorded outcome, or to the error that refuses the feedback."""
    text, (status, outcome) = str(request.prediction_id), result
    if outcome is None:
        error, detail, field = _REFUSALS[status]
        return error(detail.format(id=quoted(text), truth=truth_field), field.format(truth=truth_field))
    if status is FeedbackStatus.CONFLICT:
        return _conflict(request, outcome, truth_field)
    found: Literal["recorded", "duplicate"] = "recorded" if status is FeedbackStatus.RECORDED else "duplicate"
    return FeedbackAnswer(text, outcome.correct, found, outcome.round)


def _conflict(request: FeedbackRequest, first: Outcome, truth_field: str) -> FeedbackConflictError:
    """Return the error of feedback that differs from the first one, in `correct` or only in the truth."""
    prediction = f"the first feedback for prediction {quoted(str(request.prediction_id))}"
    recorded = f"recorded correct: {shown(first.correct)}"
    if request.correct is not None and request.correct != first.correct:
        return FeedbackConflictError(f"got {shown(request.correct)}; {prediction} {recorded}", "correct")
    return FeedbackConflictError(f"differs from {prediction}, which {recorded}", truth_field)
