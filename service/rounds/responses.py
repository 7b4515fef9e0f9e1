"""Predictions as a client is told them."""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from learners.base import FloatArray
from service.errors import PredictionConflictError, StoreError
from service.models.model import Model
from service.schemas.rounds import PredictAnswer
from service.store.records.records import NewPredictions
from service.store.records.stored_prediction import StoredPrediction

_log = logging.getLogger(__name__)


def to_answers(
    model: Model,
    ids: Iterable[str],
    predictions: NewPredictions | StoredPrediction,
    probabilities: Iterable[FloatArray | None],
) -> list[PredictAnswer]:
    """N predictions that were made together.

    Args:
        model: that made them.
        ids: with the model's name.
        predictions: n of them.
        probabilities: for each the probabilities of the labels (K,), or None where the answer leaves them out.
    """
    name, labels, seen = model.name, model.definition.labels, predictions.rounds_seen
    moment, shown = datetime.fromtimestamp(predictions.expires_at, UTC), model.answers.show(predictions.outputs)
    return [
        PredictAnswer(id_, name, label, several, p or None, seen, moment, _listed(labels, row))
        for id_, (label, several), p, row in zip(
            ids, shown, predictions.propensities.tolist(), probabilities, strict=True
        )
    ]


def stored_answer(model: Model, own_id: str, fingerprint: bytes, record: bytes) -> PredictAnswer | Exception:
    """A prediction that was stored before, or why it is not the answer to this request.

    Args:
        model: that made it.
        own_id: the client's, without the model's name.
        fingerprint: of what is asked for.
        record: of the block of that name.
    """
    full = f"{model.name}:{own_id}"
    try:
        predictions = model.format.decode_stored(record)
    except StoreError as error:
        _log.error("prediction %s: %s", full, error.detail)
        return error
    if predictions is None or predictions.fingerprint != fingerprint:
        return PredictionConflictError(f"prediction {own_id!r} was made before, with another context", "prediction_id")
    (answer,) = to_answers(model, [full], predictions, [None])
    return answer


def _listed(labels: Sequence[str], probabilities: FloatArray | None) -> dict[str, float] | None:
    return None if probabilities is None else dict(zip(labels, probabilities.tolist(), strict=True))
