"""Builds the answers to prediction requests."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice, pairwise

from service import costs
from service.choice.requests import PredictionRequest, Requests
from service.error_messages.values import quoted
from service.errors import HistoryLostError, PredictionConflictError, StoreError
from service.models.model import Model
from service.prediction_id import SINGLE, wire_form, wire_forms
from service.rounds.deciding import Decided, fingerprint, held_out
from service.schemas.rounds import PredictAnswer, Slot
from service.store.records.blocks import StoredPrediction
from service.store.values import Head

_log = logging.getLogger(__name__)


def answering_cost(model: Model, requests: Requests, existing: Sequence[Head]) -> int:
    """Return the cost of `answer` in multiply-adds. It lists distributions, and decodes stored predictions."""
    listed = sum([request.include_distribution for request in requests])
    listed = listed and listed * len(model.definition.labels)
    return listed * costs.LISTED_PROBABILITY + (len(existing) - existing.count(None)) * costs.REPEATED_PREDICTION


def answer(model: Model, batches: Sequence[Decided], existing: Sequence[Head]) -> list[PredictAnswer | Exception]:
    """Return the answer to each request in order, or the error that replaces it.

    `existing` has the store's result for each block: None if the block was stored, the existing record if the block's
    id was in use, or an error.
    """
    answers, heads = list[PredictAnswer | Exception](), iter(existing)
    for decided in batches:
        answers += _answers(model, decided, list(islice(heads, len(decided.blocks))))
    return answers


def _answers(model: Model, decided: Decided, existing: Sequence[Head]) -> list[PredictAnswer | Exception]:
    has_slots = decided.requests[0].options.top is not None
    answers: list[PredictAnswer | Exception] = [*(_with_slots if has_slots else _without_slots)(model, decided)]
    for i, head in enumerate(existing):
        if isinstance(head, bytes):  # the block has a client's id, so it contains this request only
            answers[i] = stored_answer(model, decided.requests[i], head)
        elif head is not None:
            first, last = (i, i + 1) if has_slots else decided.bounds[i : i + 2]
            answers[first:last] = [head] * (last - first)
    return answers


def _without_slots(model: Model, decided: Decided) -> list[PredictAnswer]:
    name, predictions, requests = model.name, decided.predictions, decided.requests
    tokens, spans = decided.tokens, zip(decided.blocks, pairwise(decided.bounds), strict=True)
    ids = [id_ for block, (start, stop) in spans for id_ in wire_forms(name, block, tokens[start:stop])]
    moment, seen = datetime.fromtimestamp(predictions.expires_at, UTC), predictions.rounds_seen
    listed = [_listed(model, decided, i) if each.include_distribution else None for i, each in enumerate(requests)]
    held = [False] * len(ids) if predictions.holdout is None else predictions.holdout.tolist()
    shown = model.choice.show(requests, predictions.outputs)
    rows = zip(ids, shown, predictions.propensities.tolist(), listed, held, strict=True)
    answers = [PredictAnswer(id_, name, *answer, p, seen, moment, row, held) for id_, answer, p, row, held in rows]
    for one, rules in zip(answers, decided.chosen.left_out, strict=False):  # most batches leave out none
        one.rules_left_out = rules or None
    return answers


def _listed(model: Model, decided: Decided, i: int) -> dict[str, float]:
    starts, eligible, *_ = decided.chosen.candidates
    own = slice(starts[i], starts[i + 1])
    return model.choice.distribution(decided.requests[i], decided.chosen.probabilities[own], eligible[own])


def _with_slots(model: Model, decided: Decided) -> list[PredictAnswer]:
    predictions, answers = decided.predictions, list[PredictAnswer]()
    for i, (start, stop) in enumerate(pairwise(decided.bounds)):
        held = predictions.holdout is not None and bool(predictions.holdout[start])
        rows = predictions.propensities[start:stop], predictions.outputs[start:stop]
        stored = StoredPrediction(b"", predictions.expires_at, predictions.rounds_seen, *rows)
        answers.append(_answer_of_block(model, decided.requests[i], decided.blocks[i], stored, held))
        for slot, rules in zip(answers[-1].slots or (), decided.chosen.left_out[start:stop], strict=False):
            slot.rules_left_out = rules or None
    return answers


def _answer_of_block(
    model: Model, request: PredictionRequest, block: str, stored: StoredPrediction, held: bool
) -> PredictAnswer:
    id_, moment = wire_form(model.name, block, SINGLE), datetime.fromtimestamp(stored.expires_at, UTC)
    shown = model.choice.show([request] * len(stored.outputs), stored.outputs)
    propensities, seen = stored.propensities.tolist(), stored.rounds_seen
    if request.options.top is None:
        return PredictAnswer(id_, model.name, *shown[0], propensities[0], seen, moment, None, held)
    slots = [
        Slot(wire_form(model.name, block, token), label or "", p)
        for token, ((label, _), p) in enumerate(zip(shown, propensities, strict=True))
    ]
    return PredictAnswer(id_, model.name, None, None, None, seen, moment, None, held, slots)


def stored_answer(model: Model, request: PredictionRequest, record: bytes) -> PredictAnswer | Exception:
    """Return the answer in the record that has the id of a request.

    Return an error if the record belongs to another request, is unreadable, or saw changes that the store has lost.
    """
    block, mark = "" if request.id is None else request.id.block, fingerprint(model, request)
    try:
        if not model.has_seen(*model.choice.records.history_of(record)):
            detail = f"the store has lost changes of the model that prediction {quoted(block)} has seen; use another id"
            return HistoryLostError(detail, "prediction_id")
        stored = model.choice.records.decode_stored(record)
    except StoreError as error:
        _log.error("prediction %s: %s", wire_form(model.name, block, SINGLE), error.detail)
        return error
    if stored.fingerprint not in (mark, held_out(mark)):
        detail = f"prediction {quoted(block)} already exists, with another context or other options"
        return PredictionConflictError(detail, "prediction_id")
    return _answer_of_block(model, request, block, stored, held=stored.fingerprint != mark)
