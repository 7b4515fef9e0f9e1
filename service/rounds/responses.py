"""Predictions in the form that clients receive."""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from learners.base import FloatArray
from service.errors import PredictionConflictError, StoreError
from service.models.model import Model
from service.prediction_id import SINGLE, wire_form
from service.rounds.deciding import Drawn
from service.rounds.prediction_requests import PredictionBatch
from service.schemas.rounds import PredictAnswer
from service.store.records.records import NewPredictions
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
    rows = enumerate(batch.requests)
    probabilities = [drawn.distributions[i] if request.include_distribution else None for i, request in rows]
    answers: list[PredictAnswer | Exception] = []
    answers += _to_answers(model, batch.ids(model.name), drawn.predictions, probabilities)
    for i, record in enumerate(there):
        if record is not None:
            answers[batch.bounds[i]] = _stored_answer(model, batch.blocks[i], batch.fingerprints[i], record)
    return answers


def _to_answers(
    model: Model,
    ids: Iterable[str],
    predictions: NewPredictions | StoredPrediction,
    probabilities: Iterable[FloatArray | None],
) -> list[PredictAnswer]:
    """Return n predictions made together, in the form that clients receive.

    Args:
        model: the model that made them.
        ids: the wire forms of their ids.
        predictions: n predictions.
        probabilities: for each, the probabilities of the labels (K,), or None if the response omits them.
    """
    name, labels, seen = model.name, model.definition.labels, predictions.rounds_seen
    moment, shown = datetime.fromtimestamp(predictions.expires_at, UTC), model.answers.show(predictions.outputs)
    return [
        PredictAnswer(id_, name, label, several, p or None, seen, moment, _listed(labels, row))
        for id_, (label, several), p, row in zip(
            ids, shown, predictions.propensities.tolist(), probabilities, strict=True
        )
    ]


def _stored_answer(model: Model, block: str, fingerprint: bytes, record: bytes) -> PredictAnswer | Exception:
    """Return a stored prediction, or the error if it does not match this request."""
    id_ = wire_form(model.name, block, SINGLE)
    try:
        predictions = model.format.decode_stored(record)
    except StoreError as error:
        _log.error("prediction %s: %s", id_, error.detail)
        return error
    if predictions is None or predictions.fingerprint != fingerprint:
        return PredictionConflictError(
            f"prediction {quoted(block)} already exists, with another context", "prediction_id"
        )
    (answer,) = _to_answers(model, [id_], predictions, [None])
    return answer


def _listed(labels: Sequence[str], probabilities: FloatArray | None) -> dict[str, float] | None:
    return None if probabilities is None else dict(zip(labels, probabilities.tolist(), strict=True))
