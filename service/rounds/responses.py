"""Predictions as a client is told them."""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from learners.base import FloatArray
from service.errors import PredictionConflictError, StoreError
from service.models.model import Model
from service.schemas.rounds import PredictAnswer
from service.store.records.records import Kept, Made

_log = logging.getLogger(__name__)


def told(
    model: Model, ids: Iterable[str], kept: Made | Kept, chances: Iterable[FloatArray | None]
) -> list[PredictAnswer]:
    """N predictions that were made together.

    Args:
        model: that made them.
        ids: with the model's name.
        kept: the predictions.
        chances: for each the probabilities of the labels (K,), or None where they are not to be told.
    """
    name, labels, seen = model.name, model.definition.labels, kept.rounds_seen
    moment, shown = datetime.fromtimestamp(kept.expires_at, UTC), model.answers.show(kept.outputs)
    return [
        PredictAnswer(id_, name, label, several, p or None, seen, moment, _listed(labels, row))
        for id_, (label, several), p, row in zip(ids, shown, kept.propensities.tolist(), chances, strict=True)
    ]


def told_again(model: Model, own_id: str, fingerprint: bytes, record: bytes) -> PredictAnswer | Exception:
    """A prediction that was stored before, or why it is not the answer to this request.

    Args:
        model: that made it.
        own_id: the client's, without the model's name.
        fingerprint: of what is asked for.
        record: of the block of that name.
    """
    full = f"{model.name}:{own_id}"
    try:
        kept = model.format.decode_kept(record)
    except StoreError as error:
        _log.error("prediction %s: %s", full, error.detail)
        return error
    if kept is None or kept.fingerprint != fingerprint:
        return PredictionConflictError(f"prediction {own_id!r} was made before, with another context", "prediction_id")
    (answer,) = told(model, [full], kept, [None])
    return answer


def _listed(labels: Sequence[str], chances: FloatArray | None) -> dict[str, float] | None:
    return None if chances is None else dict(zip(labels, chances.tolist(), strict=True))
