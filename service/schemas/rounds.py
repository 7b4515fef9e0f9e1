"""Bodies about predictions, feedback and rounds."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import (
    ConfigDict,
    Field,
    SkipValidation,
)

from service.contexts.registry import GivenContext, ShownContext
from service.schemas.ids import GivenId, QualifiedId
from service.schemas.models import _DESCRIBED, Answer, Label, ModelName
from service.schemas.problems import Problem
from service.strict_body import Body, FirstError


class PredictRequest(Body):
    """Asks for an answer."""

    model: ModelName
    context: GivenContext
    prediction_id: GivenId | None = None
    """Asking again with the same id and context returns the stored prediction."""
    include_distribution: bool = False
    """Whether to answer the probability of every label. A model that answers rankings refuses it."""


@dataclass
class PredictAnswer:
    """An answer drawn from a known distribution, and the probability it was drawn with."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    prediction_id: str
    model: str
    label: str | None
    """The label, or level; null where the model answers several."""
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The labels of a set, or all labels as ranked, the first one first; null where the model answers one."""
    propensity: float | None
    """The probability of this very answer, in (0, 1]; null for a stored one that version 0.1.0 could not express."""
    rounds_seen: int
    """Rounds the model had learned from when it answered."""
    expires_at: datetime
    """When the window for feedback closes."""
    distribution: dict[str, float] | None = None
    """The probability of each label, in a set that of being in it, if asked for; null when a stored prediction is
    returned."""


class PredictBatchRequest(Body):
    """Asks for many answers at once; each context succeeds or fails by itself."""

    model: ModelName
    contexts: Annotated[list[SkipValidation[GivenContext]], Field(min_length=1)]
    """One for each prediction."""
    prediction_ids: list[SkipValidation[GivenId]] | None = None
    """Your own ids, one for each context."""
    include_distribution: bool = False
    """Whether to answer the probability of every label. A model that answers rankings refuses it."""


class FeedbackRequest(Body):
    """Says whether a prediction was right: by the bit, or by the truth, or by both."""

    prediction_id: QualifiedId
    correct: bool | None = None
    """Whether the answer was right; one of several labels only if it was exactly right."""
    true_label: Label | None = None
    """The label, or level, that would have been right; it decides `correct`."""
    true_labels: Annotated[list[Label], FirstError(), Field(max_length=100_000)] | None = None
    """Of a model that answers several labels: the right set, or all labels in the right order; decides `correct`."""


@dataclass
class FeedbackAnswer:
    """What is on record for the prediction."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    prediction_id: str
    correct: bool
    status: Literal["recorded", "duplicate"]
    round: int
    """The number of the round it made, counted from 1."""


class FeedbackBatchRequest(Body):
    """Many feedbacks at once; each succeeds or fails by itself."""

    feedback: Annotated[list[SkipValidation[FeedbackRequest]], Field(min_length=1)]
    """One for each prediction."""


@dataclass
class PredictBatchAnswer:
    """An answer or a problem for each context, in order."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    predictions: list[PredictAnswer | Problem]


@dataclass
class FeedbackBatchAnswer:
    """An answer or a problem for each feedback, in order."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    results: list[FeedbackAnswer | Problem]


class WebhookAnswer(Answer):
    """What became of a webhook."""

    status: Literal["recorded", "duplicate", "ignored"]
    feedback: Annotated[FeedbackAnswer | None, Field(examples=[None])] = None
    """What is on record; null where it was ignored."""
    reason: Annotated[Problem | None, Field(examples=[None])] = None
    """Why it was ignored."""


class RoundLine(Answer):
    """One line of a model's log."""

    round: int
    prediction_id: str
    label: str | None
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The set or ranking of a model that answers several labels."""
    propensity: float | None
    correct: bool
    true_label: str | None
    true_labels: Annotated[list[str] | None, Field(examples=[None])]
    context: ShownContext
    rounds_seen: int
    """Rounds the model had learned from when it predicted."""
    predicted_at: datetime
    feedback_at: datetime
