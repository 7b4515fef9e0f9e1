"""Explains a stored prediction: what the model knew, what it chose from, what it drew, and what became of it."""

import asyncio
from typing import Any, Literal, NamedTuple

import numpy as np

from learners.base import NO_LABEL
from service import costs, kernels, request_context
from service.choice.answers import NOTHING, Shown
from service.choice.candidates import EVERY
from service.choice.choice import LoggedChoice
from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import ModelNotFoundError, NewerVersionError, StoreCorruptError, WagerError
from service.models.learner_choice import hyperparameters
from service.models.model import Model
from service.prediction_id import PredictionId
from service.registry.past_decisions import (
    Redecided,
    decided_again,
    eligible_in,
    held_out_again,
    is_held_out,
    logged_again,
    unknowable,
)
from service.registry.round_log import moment, price_of
from service.replicas.past_fold import PastFold
from service.replicas.starts import model_after
from service.replicas.tails import Position
from service.rounds.feedback import REFUSALS
from service.schemas.decisions import DecisionAnswer, DecisionOutcome
from service.schemas.rounds import LoggedAction
from service.store.log_entries import read_page
from service.store.records.layout import EXPIRED, FEEDBACK, INACTIVE, OPEN, PENDING
from service.store.records.optional_fields import LogRows
from service.store.records.outcomes import bit_of
from service.store.records.records import PredictionRecord
from service.store.values import FeedbackStatus, LogEntry

_MOST_FOLDS = 2  # maximum folds at once in a worker: each needs a state
_ATTEMPTS = 3  # maximum attempts to read a prediction and its model while others change the model

Status = Literal["open", "waiting", "inactive", "expired", "recorded"]


class _Found(NamedTuple):
    """A stored prediction."""

    id: PredictionId
    newest: Model  # whose labels and changes include those that the prediction has seen
    model: Model  # after the changes that the prediction has seen
    record: PredictionRecord
    row: LogRows | None  # (1,), of the record or of the log; None if neither has it any more


class ExplainedDecisions:
    """Explains stored predictions of any model."""

    def __init__(self, environment: Environment) -> None:
        self._store, self._compute, self._models = environment.store, environment.compute, environment.models
        self._now, self._folds = environment.now, asyncio.Semaphore(_MOST_FOLDS)

    async def explain(self, id_: PredictionId) -> DecisionAnswer:
        """Explain a prediction. Recomputing its distribution folds at most `past_fold.MOST_ROUNDS` rounds.

        Raises:
            ModelNotFoundError: if the model does not exist.
            PredictionNotFoundError: if the prediction does not exist, or is no longer stored.
            HistoryLostError: if the store has lost changes that the prediction has seen.
            BrokenPredictionError: if its record is damaged.
            NewerVersionError: if a newer version wrote its record, or data that the fold needs.
        """
        request_context.note_model(id_.model)
        found = await self._find(id_)
        redecided = await self._redecided(found)
        return _answer(found, redecided, self._now())

    async def _find(self, id_: PredictionId) -> _Found:
        for _ in range(_ATTEMPTS):
            newest, record = await self._read(id_)
            if record is not None:
                break
        else:
            raise _refusal(FeedbackStatus.HISTORY_LOST, id_)
        model = await model_after(self._store, self._compute, newest, record.changes_seen)
        return _Found(id_, newest, model, record, record.row or await self._logged(id_, newest, record))

    async def _read(self, id_: PredictionId) -> tuple[Model, PredictionRecord | None]:
        """Return the model and the prediction; None if it has seen changes that the model, as it was read, lacks."""
        stored = await self._store.get_model(id_.model)
        if stored is None:
            raise ModelNotFoundError(f"there is no model {quoted(id_.model)}", "prediction_id")
        model = await self._models.read(stored)
        block = await self._store.read_block(model.key, id_.block)
        if block is None:
            raise _refusal(FeedbackStatus.UNKNOWN, id_)
        run, cost = self._compute.run_in_thread_if_costly, len(block) * costs.DECODED_BYTE
        try:
            if not model.has_seen(*model.choice.records.history_of(block)):
                return model, None
            record = await run(cost, model.name, model.choice.records.prediction, block, id_.token)
        except NewerVersionError as error:
            raise _refusal(FeedbackStatus.NEWER, id_) from error
        except StoreCorruptError as error:
            raise _refusal(FeedbackStatus.BROKEN, id_) from error
        if record is None:
            raise _refusal(FeedbackStatus.UNKNOWN, id_)
        return model, record

    async def _logged(self, id_: PredictionId, model: Model, record: PredictionRecord) -> LogRows | None:
        """Return the round of a prediction in the log; None if it has none, or if the log no longer keeps it."""
        number = int(record.outcome["round"][0])
        if not number:
            return None
        entries = (await self._store.read_tail(model.key, number - 1, 1)).entries
        cost = sum(len(entry.payload) for entry in entries) * costs.DECODED_BYTE
        return await self._compute.run_in_thread_if_costly(cost, model.name, _row_of, model, entries, number, id_)

    async def _redecided(self, found: _Found) -> Redecided:
        model, row, run = found.model, found.row, self._compute.run
        if row is None:
            return Redecided(reason=_lacking(found.record))
        await kernels.wait_for(model)
        if model.definition.actions is not None:
            return logged_again(model, row, found.newest.choice.logged(row, 0).actions)
        if (reason := unknowable(model, row)) is not None:
            return Redecided(reason=reason)
        if is_held_out(row):
            return await run(model.name, held_out_again, model, row)
        place = Position(found.record.rounds_seen, found.record.changes_seen)
        async with self._folds:
            try:
                past = await PastFold(found.newest, place, self._store, self._compute).past()
            except StoreCorruptError as error:
                return Redecided(reason=f"The state that decided cannot be restored: {error.detail}.")
            return await run(model.name, decided_again, past, row)


def _refusal(status: FeedbackStatus, id_: PredictionId) -> WagerError:
    error, detail, field = REFUSALS[status]
    return error(detail.format(id=quoted(str(id_))), field)


def _row_of(model: Model, entries: list[LogEntry], number: int, id_: PredictionId) -> LogRows | None:
    """Return the row of a round among entries of the log, if the round is of this prediction."""
    own = [entry for entry in entries if entry.block == id_.block]
    for rows in [stretch.rows for stretch in read_page(model.choice.records, own) if stretch.rows is not None]:
        for i in np.flatnonzero((rows.table["round"] == number) & (rows.table["token"] == id_.token)).tolist():
            return rows.row(i)
    return None


def _lacking(record: PredictionRecord) -> str:
    number = int(record.outcome["round"][0])
    if number:
        return f"The log no longer keeps round {number:,}, which had the context."
    return "The prediction was dropped without a round, and its context with it."


def _answer(found: _Found, redecided: Redecided, now: float) -> DecisionAnswer:
    record, definition = found.record, found.model.definition
    return DecisionAnswer(
        prediction_id=str(found.id),
        model=found.id.model,
        status=_status(found, now),
        propensity=record.propensity,
        expires_at=moment(record.expires_at),
        rounds_seen=record.rounds_seen,
        changes_seen=record.changes_seen,
        **_request(found),
        mode=definition.mode,
        rules=definition.rules,
        budget=definition.budget,
        learner=hyperparameters(found.model.learner),
        **redecided._asdict(),
        outcome=_outcome(found),
    )


def _status(found: _Found, now: float) -> Status:
    record = found.record
    if record.kind == PENDING:
        return "waiting"
    if record.kind in (FEEDBACK, EXPIRED):
        return "recorded" if record.outcome["round"][0] else "expired"
    accepts_late = record.kind == OPEN and found.newest.definition.late_feedback == "accept"
    if now > record.expires_at and not accepts_late:
        return "expired"
    return "inactive" if record.kind == INACTIVE else "open"


def _request(found: _Found) -> dict[str, Any]:
    """Return the fields that only the body of a prediction, or its round, has."""
    row, holdout = found.row, found.model.definition.holdout
    logged = LoggedChoice(_shown(found, found.record.output), NOTHING, None)
    if row is not None:
        logged = found.newest.choice.logged(row, 0)
    held_out, actions = row is not None and is_held_out(row), logged.actions
    eligible = EVERY if row is None else eligible_in(found.model, row)
    return {
        "label": logged.answer.label,
        "labels": logged.answer.labels,
        "holdout": None if row is None else held_out,
        "holdout_policy": holdout.policy if holdout is not None and held_out else None,
        "predicted_at": None if row is None else moment(row.table["predicted_at"][0]),
        "draw": None if row is None else float(row.table["residual_uniform"][0]),
        "context": logged.context,
        "actions": None if actions is None else [LoggedAction(**each._asdict()) for each in actions.actions],
        "action_count": None if actions is None else actions.n,
        **_price(found),
        "eligible": [found.model.definition.labels[k] for k in np.flatnonzero(eligible)] if eligible.size else None,
    }


def _price(found: _Found) -> dict[str, Any]:
    """Return the cost of the answer, λ, and the costs of the eligible labels or the stored actions; None if unknown."""
    nothing, row, model = {"cost": None, "cost_weight": None, "costs": None}, found.row, found.model
    priced = {} if row is None else price_of(model, row, 0)
    if row is None or not priced:
        return nothing
    if model.definition.actions is not None:
        actions = found.newest.choice.logged(row, 0).actions
        return nothing | priced | {"costs": {each.id: each.cost or 0.0 for each in actions.actions}}
    bills, eligible = model.choice.bills(row), eligible_in(model, row)
    costs = np.empty(0) if bills is None else bills.prices.costs[0]
    among = range(len(model.definition.labels)) if not eligible.size else np.flatnonzero(eligible).tolist()
    return nothing | priced | {"costs": {model.definition.labels[k]: float(costs[k]) for k in among}}


def _shown(found: _Found, answers: Any) -> Shown:
    """Return an answer or a truth (1, ...), as stored; nothing for actions, whose ids are elsewhere, and if unknown."""
    if found.model.definition.actions is not None or (answers == NO_LABEL).all():
        return NOTHING
    return found.newest.choice.answers.show(answers)[0]


def _outcome(found: _Found) -> DecisionOutcome | None:
    kind, outcome = found.record.kind, found.record.outcome[0]
    if kind in (OPEN, INACTIVE) or (kind == EXPIRED and not outcome["round"]):
        return None
    reward, right = float(outcome["reward"]), _shown(found, found.record.outcome["truth"])
    correct = bit_of(reward)
    return DecisionOutcome(
        outcome="expired" if kind == EXPIRED else "feedback",
        correct=correct,
        reward=reward,
        abstained=correct is None and right.label is not None,
        true_label=right.label,
        true_labels=right.labels,
        feedback_at=moment(outcome["feedback_at"]),
        round=int(outcome["round"]) or None,
    )
