"""Predictions in the form that clients receive."""

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import repeat

import numpy as np

from learners.base import FloatArray
from service.candidates.requests import CandidateSet
from service.errors import PredictionConflictError, StoreError
from service.models.model import Model
from service.prediction_id import SINGLE, wire_form
from service.rounds.deciding import Drawn
from service.rounds.prediction_requests import PredictionBatch, PredictionRequest, fingerprint, held_out
from service.schemas.rounds import PredictAnswer, Slot
from service.store.records.new_predictions import NewPredictions
from service.store.records.stored_prediction import StoredPrediction
from service.wording.values import quoted

_log = logging.getLogger(__name__)


def answer_batch(
    model: Model, batch: PredictionBatch, drawn: Drawn, there: Sequence[bytes | None]
) -> list[PredictAnswer | Exception]:
    """Return the prediction for each request of a batch, or the error that replaces it, in order.

    Args:
        model: the model that predicted.
        batch: the requests.
        drawn: the predictions drawn for them.
        there: for each block, the record already stored under its name, or None.
    """
    if batch.top is not None:
        return _slotted(model, batch, drawn.predictions, there, batch.top)
    listed = [
        _listed(model, drawn.distributions[i], batch, i) if request.include_distribution else None
        for i, request in enumerate(batch.requests)
    ]
    holdout = drawn.predictions.holdout
    answers: list[PredictAnswer | Exception] = []
    answers += _to_answers(
        model, batch.ids(model.name), drawn.predictions, listed, repeat(False) if holdout is None else holdout.tolist()
    )
    for i, record in enumerate(there):
        if record is not None:
            answers[batch.bounds[i]] = _stored_answer(model, batch.blocks[i], batch.fingerprints[i], record)
    for i, each in enumerate(batch.candidates):
        answers[i] = _with_action(answers[i], each)
    return answers


def answer_repeated(model: Model, request: PredictionRequest, record: bytes) -> PredictAnswer | Exception:
    """Return the stored answer to a request, or the error if the record is that of another one.

    Args:
        model: the model that predicted.
        request: with a client's id, and what `read` adds.
        record: stored under this id.

    Raises:
        TypeError: if the request has no id.
    """
    if request.id is None:
        raise TypeError("only a request with an id can be repeated")
    block, mark, candidates = request.id.block, fingerprint(model, request), request.candidates
    if request.options.top is not None:
        made = _stored_or_error(model, block, mark, record)
        return made if isinstance(made, Exception) else _with_slots(model, block, mark, candidates, made)
    answer = _stored_answer(model, block, mark, record)
    return answer if candidates is None else _with_action(answer, candidates)


def _slotted(
    model: Model, batch: PredictionBatch, predictions: NewPredictions, there: Sequence[bytes | None], top: int
) -> list[PredictAnswer | Exception]:
    """Return the answers to a batch of requests with slots."""
    answers = list[PredictAnswer | Exception]()
    for i, (block, mark, record) in enumerate(zip(batch.blocks, batch.fingerprints, there, strict=True)):
        made = _made(predictions, i, top, mark) if record is None else _stored_or_error(model, block, mark, record)
        candidates = batch.candidates[i] if batch.candidates else None
        answers.append(made if isinstance(made, Exception) else _with_slots(model, block, mark, candidates, made))
    return answers


def _made(predictions: NewPredictions, i: int, top: int, mark: bytes) -> StoredPrediction:
    """Return the new predictions in the slots of request i as they are stored."""
    rows, holdout = slice(i * top, (i + 1) * top), predictions.holdout
    mark = held_out(mark) if holdout is not None and holdout[i * top] else mark
    moment, seen = predictions.expires_at, predictions.rounds_seen
    return StoredPrediction(mark, moment, seen, predictions.propensities[rows], predictions.outputs[rows])


def _with_slots(
    model: Model, block: str, mark: bytes, candidates: CandidateSet | None, made: StoredPrediction
) -> PredictAnswer:
    """Return the answer to a request with the predictions in its slots."""
    labels = [label or "" for label, _ in model.answers.show(made.outputs)]
    if candidates is not None:
        left = [action.id for action in candidates.actions]
        labels = [left.pop(int(position)) for position in labels]  # the position among those that were left
    slots = [
        Slot(wire_form(model.name, block, token), label, p)
        for token, (label, p) in enumerate(zip(labels, made.propensities.tolist(), strict=True))
    ]
    moment, held = datetime.fromtimestamp(made.expires_at, UTC), made.fingerprint != mark
    id_ = wire_form(model.name, block, SINGLE)
    return PredictAnswer(id_, model.name, None, None, None, made.rounds_seen, moment, None, held, slots)


def _with_action(answer: PredictAnswer | Exception, candidates: CandidateSet) -> PredictAnswer | Exception:
    """Return an answer with the id of the action in the place of its position."""
    if isinstance(answer, Exception):
        return answer
    return dataclasses.replace(answer, label=candidates.actions[int(answer.label or 0)].id)


def _to_answers(
    model: Model,
    ids: Iterable[str],
    predictions: NewPredictions | StoredPrediction,
    listed: Iterable[dict[str, float] | None],
    holdout: Iterable[bool],
) -> list[PredictAnswer]:
    """Return n predictions made together, in the form that clients receive.

    Args:
        model: the model that made them.
        ids: the wire forms of their ids.
        predictions: n predictions.
        listed: for each, the probabilities of the eligible labels, or None if the response omits them.
        holdout: for each, whether the holdout answered.
    """
    name, seen = model.name, predictions.rounds_seen
    moment, shown = datetime.fromtimestamp(predictions.expires_at, UTC), model.answers.show(predictions.outputs)
    return [
        PredictAnswer(id_, name, label, several, p, seen, moment, row, held_out)
        for id_, (label, several), p, row, held_out in zip(
            ids, shown, predictions.propensities.tolist(), listed, holdout, strict=False
        )
    ]


def _stored_answer(model: Model, block: str, mark: bytes, record: bytes) -> PredictAnswer | Exception:
    """Return a stored prediction, or the error if it does not match this request."""
    predictions = _stored_or_error(model, block, mark, record)
    if isinstance(predictions, Exception):
        return predictions
    id_ = wire_form(model.name, block, SINGLE)
    (answer,) = _to_answers(model, [id_], predictions, [None], [predictions.fingerprint != mark])
    return answer


def _stored_or_error(model: Model, block: str, mark: bytes, record: bytes) -> StoredPrediction | Exception:
    """Return the stored predictions of a request, or the error if they are those of another request."""
    try:
        predictions = model.format.decode_stored(record)
    except StoreError as error:
        _log.error("prediction %s: %s", wire_form(model.name, block, SINGLE), error.detail)
        return error
    if predictions.fingerprint not in (mark, held_out(mark)):
        return PredictionConflictError(
            f"prediction {quoted(block)} already exists, with another context or other options", "prediction_id"
        )
    return predictions


def _listed(model: Model, probabilities: FloatArray, batch: PredictionBatch, i: int) -> dict[str, float]:
    """Return the probabilities (K,) of the labels or actions that request i may be answered with."""
    if batch.candidates:
        return dict(zip([action.id for action in batch.candidates[i].actions], probabilities.tolist(), strict=True))
    labels, eligible = model.definition.labels, batch.eligible[i]
    if not eligible.size:
        return dict(zip(labels, probabilities.tolist(), strict=True))
    return {labels[k]: float(probabilities[k]) for k in np.flatnonzero(eligible)}
