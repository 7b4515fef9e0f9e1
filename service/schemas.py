"""The bodies of requests and answers. Strict: no coercions, no NaN or infinities, no unknown fields."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    SkipValidation,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from service.feature_schemas import Body, Context, Features, FirstError, SparseContext
from service.id_schemas import GivenId, QualifiedId
from service.problem_schemas import Problem

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

ModelName = Annotated[
    str,
    StringConstraints(pattern=NAME_PATTERN),
    Field(description="Letters, digits, `.`, `_` and `-`, at most 64, beginning with a letter or digit."),
]
Label = Annotated[str, StringConstraints(min_length=1, max_length=256)]


def _different_labels(labels: list[str]) -> list[str]:
    if len(labels) < 2:
        raise PydanticCustomError("too_few_labels", "a model needs at least 2 labels")
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            message = "labels must differ: {label} is there twice"
            raise PydanticCustomError("duplicate_labels", message, {"label": label})
        seen.add(label)
    return labels


_DESCRIBED = ConfigDict(use_attribute_docstrings=True)


class Answer(BaseModel):
    """An answer, described by the docstrings of its fields."""

    model_config = _DESCRIBED


class LearnerChoice(BaseModel):
    """An algorithm with its hyperparameters; `GET /learners` describes them. All but `algorithm` are optional."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    algorithm: str
    """Such as `squarecb`."""


class ModelDefinition(Body):
    """Everything that defines a model; nothing of it changes later."""

    name: ModelName
    labels: Annotated[list[Label], FailFast(), Field(max_length=100_000), AfterValidator(_different_labels)]
    """The K labels to choose from, at least 2, all different; levels from the lowest to the highest."""
    features: Features
    learner: LearnerChoice | None = None
    """The learner; without it, the one we recommend."""
    window_seconds: Annotated[float, Field(ge=0.001, le=366 * 86_400)] = 86_400.0
    """How long a prediction waits for its feedback."""
    late_feedback: Literal["reject", "accept"] = "reject"
    """What happens to feedback after the window, as long as the prediction is not forgotten (an hour later)."""
    retain_rounds: Annotated[int, Field(ge=0, le=1_000_000_000)] = 100_000
    """How many of the latest rounds the log keeps at least, for reading and replay."""


class DamageNote(Answer):
    """Something stored that cannot be read."""

    what: Literal["rounds", "snapshot"]
    first: int
    """The first round that is missing; of a snapshot, 1."""
    last: int
    reason: str
    found_at: datetime


class _ModelFacts(Answer):
    name: str
    features: Features
    learner: dict[str, Any]
    """Algorithm and every hyperparameter, defaults included."""
    window_seconds: float
    late_feedback: str
    retain_rounds: int
    created_at: datetime
    rounds_seen: int
    """Rounds in its log: predictions whose feedback was recorded."""
    predictions: int
    """Predictions stored, with or without feedback."""
    correct: int
    """Rounds whose answer was right."""


class ModelAnswer(_ModelFacts):
    """A model, with what has happened to it."""

    labels: list[str]
    guarantee: str
    """What is proved of this learner with these hyperparameters, and under which assumptions."""
    damaged_rounds: int = 0
    """Rounds that cannot be read: the model goes on without them."""
    damage: Annotated[list[DamageNote] | None, Field(examples=[None])] = None
    """The first of them; null where there are none."""


class ModelSummary(_ModelFacts):
    """A model as a list has it: with the number of its labels in their place."""

    label_count: int


class UnreadableModel(Answer):
    """A model that cannot be read; the others of the list are not touched by it."""

    name: str
    problem: Problem
    """What `GET /models/{name}` answers."""


class ModelList(Answer):
    """A page of models in the order of their names."""

    models: list[ModelSummary | UnreadableModel]
    next_cursor: str | None
    """Give it as `cursor` for the next page; null on the last."""


class PredictRequest(Body):
    """Asks for an answer."""

    model: ModelName
    context: Context
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
    contexts: Annotated[list[SkipValidation[Context]], Field(min_length=1)]
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
    context: list[float] | SparseContext
    rounds_seen: int
    """Rounds the model had learned from when it predicted."""
    predicted_at: datetime
    feedback_at: datetime


class Health(Answer):
    """Whether the service can do its work."""

    status: Literal["ready", "alive"]


class Readiness(Health):
    """What the store is and promises."""

    store: str
    durability: str
    warnings: list[str]
