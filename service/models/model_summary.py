"""Summaries of models: definitions without labels, stored alongside them, so that lists need not read the labels.

A summary is valid if it can be read, its learner can be built, and it records the length of the stored definition.
Otherwise the reader falls back to the definition, which also shows what is wrong.
"""

from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from service.contexts.registry import Features
from service.errors import InvalidInputError
from service.models.model import Model, choose_learner, hyperparameters
from service.schemas.models import LearnerChoice

_MOST_BYTES = 16_384
"""Maximum bytes of a summary, which contains few hyperparameters."""


class Summary(BaseModel):
    """A definition without its labels."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    label_count: int
    features: Features
    learner: dict[str, Any]
    window_seconds: float
    late_feedback: str
    retain_rounds: int
    definition_bytes: int


def summary_of(model: Model, definition: str) -> Summary:
    """Return the summary of a model.

    Args:
        model: the model.
        definition: the stored definition.
    """
    defined = model.definition
    return Summary(
        label_count=len(defined.labels),
        features=defined.features,
        learner=hyperparameters(model.learner),
        window_seconds=defined.window_seconds,
        late_feedback=defined.late_feedback,
        retain_rounds=defined.retain_rounds,
        definition_bytes=len(definition.encode()),
    )


def read_summary(text: bytes | None, definition_bytes: int) -> Summary | None:
    """Return a stored summary; None if it is invalid."""
    if text is None or len(text) > _MOST_BYTES:
        return None
    summary = _parsed(text)
    return summary if summary is not None and summary.definition_bytes == definition_bytes else None


@lru_cache(maxsize=1024)
def _parsed(text: bytes) -> Summary | None:
    try:
        summary = Summary.model_validate_json(text)
        choose_learner(LearnerChoice(**summary.learner), summary.label_count, summary.features)
    except (ValidationError, InvalidInputError, TypeError):
        return None
    return summary
