"""Feedback: parses requests, groups them, joins them with predictions in the store, and answers them."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from service import errors
from service.background.upkeep import Upkeep
from service.choice.answers import Answers
from service.environment import Environment
from service.error_messages.values import quoted, shown
from service.models.model import Model
from service.models.policies import reward_refused
from service.per_item import apply_to_valid, indices_of, map_results
from service.prediction_id import wire_form
from service.replicas.replica import Replica
from service.rounds.group_commit import ITEMS_AT_ONCE, GroupCommit
from service.schemas.fast_decoders import FeedbackInput
from service.schemas.rounds import ActivateAnswer, ActivateRequest, FeedbackAnswer
from service.store.records.outcomes import Outcome
from service.store.values import Feedback, FeedbackResult, FeedbackRules, FeedbackStatus


async def activate(model: Model, environment: Environment, request: ActivateRequest) -> ActivateAnswer:
    """Allow feedback for a prediction; raise an error if it is unknown, expired or unreadable."""
    text = str(request.prediction_id)
    status = await environment.store.activate(request.prediction_id, model.key.incarnation, environment.now())
    if status is FeedbackStatus.RECORDED:
        return ActivateAnswer(text, "activated")
    if status is FeedbackStatus.DUPLICATE:
        return ActivateAnswer(text, "duplicate")
    error, detail, field = REFUSALS[status]
    refusal: errors.WagerError = error(detail.format(id=quoted(text)), field)
    raise refusal


_AT_ONCE = 2  # maximum batches in flight: the store joins one while the worker answers the other
_BYTES_TOGETHER, _FEWEST_TOGETHER = 2**14, 16  # limits of `_room`; the store joins 16 KiB in about half a millisecond
_ATTEMPTS = 3  # maximum attempts to join feedback while the history of the model changes
_CONTEXT_BYTES = 1024  # assumed bytes of a context if contexts differ in size
_ID = "prediction_id"
_LOST = "the store has lost changes of the model that prediction {id} has seen, so its answer may mean another label"
_INACTIVE = "prediction {id} is not activated; send it to POST /activate first"
_NEEDED = "missing; the learner of this model needs {truth} if the prediction was wrong"
REFUSALS: dict[FeedbackStatus, tuple[type[errors.WagerError], str, str]] = {
    FeedbackStatus.UNKNOWN: (errors.PredictionNotFoundError, "there is no prediction {id}", _ID),
    FeedbackStatus.EXPIRED: (errors.PredictionExpiredError, "the window of prediction {id} has closed", _ID),
    FeedbackStatus.INCONSISTENT: (
        errors.InconsistentFeedbackError,
        "contradicts the {truth} sent with it, given the answer of prediction {id}",
        "correct",
    ),
    FeedbackStatus.ACTIVATION_NEEDED: (errors.NotActivatedError, _INACTIVE, _ID),
    FeedbackStatus.HISTORY_LOST: (errors.HistoryLostError, _LOST, _ID),
    FeedbackStatus.LABEL_NEEDED: (errors.LabelNeededError, _NEEDED, "{truth}"),
    FeedbackStatus.BROKEN: (errors.BrokenPredictionError, "the record of prediction {id} is damaged", _ID),
    FeedbackStatus.NEWER: (errors.NewerVersionError, "a newer version wrote prediction {id}", _ID),
}

_OF_ABSTENTIONS = {
    FeedbackStatus.INCONSISTENT: ", or the prediction abstained, which is neither right nor wrong",
    FeedbackStatus.LABEL_NEEDED: ", or if it abstained",
}
"""What these refusals say in addition if the model may abstain."""


class FeedbackJoiner:
    """Joins feedback with the predictions of one model."""

    def __init__(self, replica: Replica, environment: Environment, upkeep: Upkeep) -> None:
        self._replica, self._environment, self._upkeep = replica, environment, upkeep
        self._commits = GroupCommit[Feedback, FeedbackResult](_AT_ONCE)

    @property
    def idle(self) -> bool:
        """Whether no feedback is waiting or in flight."""
        return self._commits.idle

    async def give(self, request: FeedbackInput) -> FeedbackAnswer:
        """Record the feedback; return the outcome recorded for its prediction."""
        answer: FeedbackAnswer | Exception
        try:
            result = await self._commits.submit(_parsed(self._replica.model, request), self._join, self._room)
        except (errors.UnknownLabelError, errors.OtherHistoryError):  # another worker may have changed the model
            (answer,) = await self.give_all([request])
        else:
            answer = _to_answer(request, result, self._replica.model.choice.answers)
        if isinstance(answer, Exception):
            raise answer from None
        return answer

    async def give_all(self, requests: Sequence[FeedbackInput]) -> list[FeedbackAnswer | Exception]:
        """Handle each request as `give` does; return errors instead of raising them."""
        results = await self._results(requests)
        answers = self._replica.model.choice.answers
        return [
            result if isinstance(result, Exception) else _to_answer(request, result, answers)
            for request, result in zip(requests, results, strict=True)
        ]

    async def _results(
        self, requests: Sequence[FeedbackInput], attempts: int = _ATTEMPTS
    ) -> list[FeedbackResult | Exception]:
        """Parse and join feedback; if the history of the model changes in between, catch up and try again."""
        submit = partial(self._commits.submit_all, handle=self._join, room=self._room, most=ITEMS_AT_ONCE)
        results = await apply_to_valid(submit, await self._parse_all(requests))
        lost = indices_of(results, errors.OtherHistoryError)
        if lost and attempts > 1:
            await self._replica.catch_up()
            again = await self._results([requests[i] for i in lost], attempts - 1)
            for i, result in zip(lost, again, strict=True):
                results[i] = result
        return results

    async def _parse_all(self, requests: Sequence[FeedbackInput]) -> list[Feedback | Exception]:
        """Parse feedback. If a label is unknown, another worker may have added it, so catch up and try again."""
        before = self._replica.model
        parsed = map_results(partial(_parsed, before), requests)
        if indices_of(parsed, errors.UnknownLabelError):
            await self._replica.catch_up()
            if self._replica.model is not before:
                return map_results(partial(_parsed, self._replica.model), requests)
        return parsed

    @property
    def _room(self) -> int:
        """The maximum number of items in a batch that begins with a single item; larger rounds need smaller batches."""
        records = self._replica.model.choice.records
        size = records.round_bytes if records.fixed_size else records.round_bytes + _CONTEXT_BYTES
        return min(ITEMS_AT_ONCE, max(_FEWEST_TOGETHER, _BYTES_TOGETHER // size))

    async def _join(self, feedback: Sequence[Feedback]) -> list[FeedbackResult]:
        model, environment = self._replica.model, self._environment
        if any([each.truth is not None and each.digest != model.digest for each in feedback]):
            raise errors.OtherHistoryError(f"model {model.name!r} has changed; try again")
        results = await environment.store.add_feedback(model.key, feedback, feedback_rules(model), environment.now())
        if FeedbackStatus.EXPIRED in {status for status, _ in results}:
            await self._replica.catch_up()
            if feedback_rules(self._replica.model) != feedback_rules(model):  # another worker has changed them
                return await self._join(feedback)
        recorded = [outcome.round for status, outcome in results if status is FeedbackStatus.RECORDED and outcome]
        self._upkeep.note_rounds(max(recorded, default=0))
        return results


def feedback_rules(model: Model) -> FeedbackRules:
    """Return the rules by which the store judges feedback for a model."""
    late = model.definition.late_feedback == "accept"
    return FeedbackRules(late, model.learner.needs_true_label, model.change_count, model.digest)


def _parsed(model: Model, request: FeedbackInput) -> Feedback:
    if request.reward is not None and not model.learner.accepts_rewards:
        raise reward_refused(model.learner, request.reward, "reward")
    truth = model.choice.answers.read(request)
    return Feedback(request.prediction_id, request.correct, truth, request.reward, model.digest)


def _to_answer(request: FeedbackInput, result: FeedbackResult, answers: Answers) -> FeedbackAnswer | errors.WagerError:
    (status, outcome), text, truth = result, wire_form(*request.prediction_id), answers.truth_field
    if outcome is None:
        error, detail, field = REFUSALS[status]
        detail += _OF_ABSTENTIONS.get(status, "") if answers.may_abstain else ""
        return error(detail.format(id=quoted(text), truth=truth), field.format(truth=truth))
    if status is FeedbackStatus.CONFLICT:
        return _conflict(request, outcome, truth)
    word: Literal["recorded", "duplicate"] = "recorded" if status is FeedbackStatus.RECORDED else "duplicate"
    return FeedbackAnswer(text, outcome.correct, outcome.reward, outcome.abstained, word, outcome.round or None)


def _conflict(request: FeedbackInput, first: Outcome, truth_field: str) -> errors.FeedbackConflictError:
    """Return the error for feedback that differs from the first: in `reward`, in `correct` or only in the truth."""
    prediction = f"the first feedback for prediction {quoted(str(request.prediction_id))}"
    what = "correct" if first.correct is not None else "reward"
    recorded = f"recorded {what}: {shown(getattr(first, what))}"
    if request.reward is not None:
        return errors.FeedbackConflictError(f"got {shown(request.reward)}; {prediction} {recorded}", "reward")
    if request.correct is not None and request.correct != first.correct:
        return errors.FeedbackConflictError(f"got {shown(request.correct)}; {prediction} {recorded}", "correct")
    return errors.FeedbackConflictError(f"differs from {prediction}, which {recorded}", truth_field)
