"""Predictions as a client is told them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from learners.base import FloatArray
from service.model import Model
from service.schemas import PredictAnswer
from service.store.records import Kept, Made


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


def _listed(labels: Sequence[str], chances: FloatArray | None) -> dict[str, float] | None:
    return None if chances is None else dict(zip(labels, chances.tolist(), strict=True))
