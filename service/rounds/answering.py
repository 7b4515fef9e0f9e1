"""Predictions in the form that clients receive."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from service import costs
from service.choice.requests import PredictionRequest
from service.error_messages.values import quoted
from service.errors import HistoryLostError, PredictionConflictError, StoreError
from service.models.model import Model
from service.prediction_id import SINGLE, wire_form, wire_forms
from service.rounds.deciding import Decided, fingerprint, held_out
from service.schemas.rounds import PredictAnswer, Slot
from service.store.base import Head
from service.store.records.blocks import StoredPrediction

_log = logging.getLogger(__name__)


def answering_cost(model: Model, requests: Sequence[PredictionRequest], existing: Sequence[Head]) -> int:
    """Return the cost of `answer`: it lists distributions, and reads stored predictions."""
    listed = sum([request.include_distribution for request in requests])
    listed = listed and listed * len(model.definition.labels)
    return listed * costs.LISTED_PROBABILITY + (len(existing) - existing.count(None)) * costs.REPEATED_PREDICTION


def answer(model: Model, parts: Sequence[Decided], existing: Sequence[Head]) -> list[PredictAnswer | Exception]:
    """Return the prediction for each request in order, or the error that replaces it; `existing` are stored blocks."""
    answers, start = list[PredictAnswer | Exception](), 0
    for part in parts:
        stop = start + len(part.blocks)
        answers += _answer_part(model, part, existing[start:stop])
        start = stop
    return answers


def _answer_part(model: Model, decided: Decided, existing: Sequence[Head]) -> list[PredictAnswer | Exception]:
    answers: list[PredictAnswer | Exception] = []
    slotted = decided.requests[0].options.top is not None
    answers += (_slotted_answers if slotted else _single_answers)(model, decided)
    for i, head in enumerate(existing):
        if isinstance(head, bytes):  # alone in its block, as its id is the client's
            answers[i] = _stored_answer(model, decided.requests[i], decided.fingerprints[i], head)
        elif head is not None:
            first, last = (i, i + 1) if slotted else decided.bounds[i : i + 2]
            answers[first:last] = [head] * (last - first)
    return answers


def _single_answers(model: Model, decided: Decided) -> list[PredictAnswer]:
    name, made, shown = (
        model.name,
        decided.predictions,
        model.choice.show(decided.requests, decided.predictions.outputs),
    )
    tokens, spans = decided.tokens, zip(decided.blocks, pairwise(decided.bounds), strict=True)
    ids = [id_ for block, (start, stop) in spans for id_ in wire_forms(name, block, tokens[start:stop])]
    moment, seen, asked = datetime.fromtimestamp(made.expires_at, UTC), made.rounds_seen, enumerate(decided.requests)
    listed = [_listed(model, decided, i) if each.include_distribution else None for i, each in asked]
    held = [False] * len(ids) if made.holdout is None else made.holdout.tolist()
    rows = zip(ids, shown, made.propensities.tolist(), listed, held, strict=True)
    return [PredictAnswer(id_, name, *answer, p, seen, moment, row, held) for id_, answer, p, row, held in rows]


def _listed(model: Model, decided: Decided, i: int) -> dict[str, float]:
    starts, eligible, _ = decided.chosen.candidates
    own = slice(starts[i], starts[i + 1])
    return model.choice.distribution(decided.requests[i], decided.chosen.probabilities[own], eligible[own])


def _slotted_answers(model: Model, decided: Decided) -> list[PredictAnswer]:
    made, answers = decided.predictions, list[PredictAnswer]()
    for i, (start, stop) in enumerate(pairwise(decided.bounds)):
        held = made.holdout is not None and bool(made.holdout[start])
        rows = made.propensities[start:stop], made.outputs[start:stop]
        stored = StoredPrediction(b"", made.expires_at, made.rounds_seen, *rows)
        answers.append(_with_slots(model, decided.requests[i], decided.blocks[i], stored, held))
    return answers


def _with_slots(
    model: Model, request: PredictionRequest, block: str, stored: StoredPrediction, held: bool
) -> PredictAnswer:
    shown = model.choice.show([request] * len(stored.outputs), stored.outputs)
    slots = [
        Slot(wire_form(model.name, block, token), label or "", p)
        for token, ((label, _), p) in enumerate(zip(shown, stored.propensities.tolist(), strict=True))
    ]
    id_, moment = wire_form(model.name, block, SINGLE), datetime.fromtimestamp(stored.expires_at, UTC)
    return PredictAnswer(id_, model.name, None, None, None, stored.rounds_seen, moment, None, held, slots)


def answer_repeated(model: Model, request: PredictionRequest, record: bytes) -> PredictAnswer | Exception:
    """Return the stored answer to a parsed request with a client's id, or the error if another request used the id."""
    return _stored_answer(model, request, fingerprint(model, request), record)


def _lost(block: str) -> HistoryLostError:
    detail = f"the store has lost changes of the model that prediction {quoted(block)} has seen; use another id"
    return HistoryLostError(detail, "prediction_id")


def _stored_answer(model: Model, request: PredictionRequest, mark: bytes, record: bytes) -> PredictAnswer | Exception:
    block = "" if request.id is None else request.id.block
    try:
        if not model.has_seen(*model.choice.records.history_of(record)):
            return _lost(block)
        stored = model.choice.records.decode_stored(record)
    except StoreError as error:
        _log.error("prediction %s: %s", wire_form(model.name, block, SINGLE), error.detail)
        return error
    if stored.fingerprint not in (mark, held_out(mark)):
        detail = f"prediction {quoted(block)} already exists, with another context or other options"
        return PredictionConflictError(detail, "prediction_id")
    held = stored.fingerprint != mark
    if request.options.top is not None:
        return _with_slots(model, request, block, stored, held)
    id_, moment = wire_form(model.name, block, SINGLE), datetime.fromtimestamp(stored.expires_at, UTC)
    (answer,), (p,) = model.choice.show([request], stored.outputs), stored.propensities.tolist()
    return PredictAnswer(id_, model.name, *answer, p, stored.rounds_seen, moment, None, held)
