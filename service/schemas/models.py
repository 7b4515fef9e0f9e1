"""Schemas of models. Requests are strict: no coercions, no NaN or infinities, no unknown fields."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from service.contexts.registry import Features
from service.schemas.problems import Problem
from service.strict_body import Body
from service.wording.patterns import NAME
from service.wording.values import quoted, shown

ModelName = Annotated[
    str,
    StringConstraints(pattern=NAME),
    Field(description="1 to 64 letters, digits, `.`, `_` or `-`; the first is a letter or digit."),
]
Label = Annotated[str, StringConstraints(min_length=1, max_length=256)]


def _different_labels(labels: list[str]) -> list[str]:
    if len(labels) < 2:
        message = "got {given}; a model needs at least 2 labels"
        raise PydanticCustomError("too_few_labels", message, {"given": shown(labels)})
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            message = "got {label} twice; labels must be unique"
            raise PydanticCustomError("duplicate_labels", message, {"label": quoted(label)})
        seen.add(label)
    return labels


_DESCRIBED = ConfigDict(use_attribute_docstrings=True)


class Answer(BaseModel):
    """The base of all responses. The docstrings of the fields describe them in openapi.json."""

    model_config = _DESCRIBED


class LearnerChoice(BaseModel):
    """An algorithm and its hyperparameters, which `GET /learners` describes. All hyperparameters are optional."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, use_attribute_docstrings=True)

    algorithm: str
    """The algorithm's name, such as `fastcb`."""


def _read_short_form(given: object) -> object:
    """Expand an algorithm's bare name to an object; refuse lists and numbers."""
    if isinstance(given, str):
        return {"algorithm": given}
    if given is None or isinstance(given, (dict, LearnerChoice)):
        return given
    message = 'got {given}; must be an algorithm\'s name or an object with "algorithm"'
    raise PydanticCustomError("learner_type", message, {"given": shown(given)})


class ModelDefinition(Body):
    """The definition of a model. It never changes."""

    name: ModelName
    labels: Annotated[
        list[Label],
        FailFast(),
        Field(max_length=100_000, json_schema_extra={"minItems": 2, "uniqueItems": True}),
        AfterValidator(_different_labels),
    ]
    """The K labels to choose from: at least 2, all different. List ordered levels from lowest to highest."""
    features: Features
    learner: Annotated[
        LearnerChoice | None, BeforeValidator(_read_short_form, json_schema_input_type=LearnerChoice | str | None)
    ] = None
    """The learner; by default the recommended one. A string means an object with this `algorithm` only."""
    window_seconds: Annotated[float, Field(ge=0.001, le=366 * 86_400)] = 86_400.0
    """How long a prediction accepts feedback."""
    late_feedback: Literal["reject", "accept"] = "reject"
    """Whether to accept feedback after the window, until the prediction is deleted one hour later."""
    retain_rounds: Annotated[int, Field(ge=0, le=1_000_000_000)] = 100_000
    """The minimum number of latest rounds that the log keeps, for reading and replay."""


class DamageNote(Answer):
    """Stored data that cannot be read."""

    what: Literal["rounds", "snapshot"]
    first: int
    """The first missing round; 1 for a snapshot."""
    last: int
    reason: str
    found_at: datetime


class _ModelFields(Answer):
    name: str
    features: Features
    learner: dict[str, Any]
    """The algorithm, by its current name, and all hyperparameters, including defaults."""
    window_seconds: float
    late_feedback: str
    retain_rounds: int
    created_at: datetime
    rounds_seen: int
    """The number of rounds: predictions with recorded feedback."""
    predictions: int
    """The number of predictions, with or without feedback."""
    correct: int
    """The number of rounds with a correct answer."""


class ModelAnswer(_ModelFields):
    """A model and its counts."""

    labels: list[str]
    guarantee: str
    """The proven bound for these hyperparameters, and its assumptions."""
    warnings: Annotated[list[str], Field(examples=[[]])] = []
    """Limits that the learner has reached, such as `max_features`. Each starts with the hyperparameter to raise, in a
    new model. Workers update them every few seconds."""
    damaged_rounds: int = 0
    """The number of unreadable rounds. The model continues without them."""
    damage: Annotated[list[DamageNote] | None, Field(examples=[None])] = None
    """The first unreadable parts; null if all data can be read."""


class ModelSummary(_ModelFields):
    """A model in a list, with the number of its labels instead of the labels."""

    label_count: int


class UnreadableModel(Answer):
    """A model that cannot be read, in a list of models."""

    name: str
    problem: Problem
    """The problem that `GET /models/{name}` returns."""


class ModelList(Answer):
    """A page of models, ordered by name."""

    models: list[ModelSummary | UnreadableModel]
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""
