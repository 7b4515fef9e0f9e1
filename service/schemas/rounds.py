"""Schemas of predictions, feedback and rounds."""

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
    """A request for one prediction."""

    model: ModelName
    context: GivenContext
    prediction_id: GivenId | None = None
    """Your own id. Repeating a request with the same id and context returns the stored prediction."""
    include_distribution: bool = False
    """Whether to return the probability of every label. Models that answer rankings refuse it."""


@dataclass
class PredictAnswer:
    """An answer drawn from a known distribution, with its probability."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    prediction_id: str
    model: str
    label: str | None
    """The label or level; null if the model answers several labels."""
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The labels of a set, or all labels from first to last rank; null if the model answers one label."""
    propensity: float | None
    """The probability of this answer, in (0, 1]; null if version 0.1.0 stored it as 0."""
    rounds_seen: int
    """The number of rounds that the model had learned from."""
    expires_at: datetime
    """When the feedback window closes."""
    distribution: dict[str, float] | None = None
    """The probability of each label, or of its membership in a set. Null if not requested, and for a stored
    prediction."""


class PredictBatchRequest(Body):
    """A request for many predictions. Each context succeeds or fails individually."""

    model: ModelName
    contexts: Annotated[list[SkipValidation[GivenContext]], Field(min_length=1)]
    """One for each prediction."""
    prediction_ids: list[SkipValidation[GivenId]] | None = None
    """Your own ids, one for each context."""
    include_distribution: bool = False
    """Whether to return the probability of every label. Models that answer rankings refuse it."""


class FeedbackRequest(Body):
    """Feedback for one prediction: `correct`, the truth, or both."""

    prediction_id: QualifiedId
    correct: bool | None = None
    """Whether the answer was right. An answer of several labels is right only if all of it is."""
    true_label: Label | None = None
    """The label or level that is right. It determines `correct`."""
    true_labels: Annotated[list[Label], FirstError(), Field(max_length=100_000)] | None = None
    """For a model that answers several labels: the right set, or all labels in the right order. It determines
    `correct`."""


@dataclass
class FeedbackAnswer:
    """The recorded feedback of a prediction."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    prediction_id: str
    correct: bool
    status: Literal["recorded", "duplicate"]
    round: int
    """The number of the round, counted from 1."""


class FeedbackBatchRequest(Body):
    """Feedback for many predictions. Each item succeeds or fails individually."""

    feedback: Annotated[list[SkipValidation[FeedbackRequest]], Field(min_length=1)]
    """One for each prediction."""


@dataclass
class PredictBatchAnswer:
    """A prediction or a problem for each context, in order."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    predictions: list[PredictAnswer | Problem]


@dataclass
class FeedbackBatchAnswer:
    """A result or a problem for each feedback item, in order."""

    __pydantic_config__: ClassVar[ConfigDict] = _DESCRIBED

    results: list[FeedbackAnswer | Problem]


class WebhookAnswer(Answer):
    """The result of a webhook."""

    status: Literal["recorded", "duplicate", "ignored"]
    feedback: Annotated[FeedbackAnswer | None, Field(examples=[None])] = None
    """The recorded feedback; null if the webhook was ignored."""
    reason: Annotated[Problem | None, Field(examples=[None])] = None
    """Why the webhook was ignored; null otherwise."""


class RoundLine(Answer):
    """One round in a model's log."""

    round: int
    prediction_id: str
    label: str | None
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The set or ranking; null if the model answers one label."""
    propensity: float | None
    correct: bool
    true_label: str | None
    true_labels: Annotated[list[str] | None, Field(examples=[None])]
    context: ShownContext
    """The context that the model learns from: after the norm policy, so it may differ from the one sent."""
    rounds_seen: int
    """The number of rounds that the model had learned from when it predicted."""
    predicted_at: datetime
    feedback_at: datetime
