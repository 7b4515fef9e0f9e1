"""Bodies about models. Strict: no coercions, no NaN or infinities, no unknown fields."""

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
    Field(description="Letters, digits, `.`, `_` and `-`, at most 64, beginning with a letter or digit."),
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
    """An answer, described by the docstrings of its fields."""

    model_config = _DESCRIBED


class LearnerChoice(BaseModel):
    """An algorithm with its hyperparameters; `GET /learners` describes them. All but `algorithm` are optional."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    algorithm: str
    """Such as `squarecb`."""


def _read_short_form(given: object) -> object:
    """Return an algorithm's bare name as the object that it is short for."""
    if isinstance(given, str):
        return {"algorithm": given}
    if given is None or isinstance(given, (dict, LearnerChoice)):
        return given
    message = 'got {given}; must be an algorithm\'s name or an object with "algorithm"'
    raise PydanticCustomError("learner_type", message, {"given": shown(given)})


class ModelDefinition(Body):
    """Everything that defines a model; nothing of it changes later."""

    name: ModelName
    labels: Annotated[
        list[Label],
        FailFast(),
        Field(max_length=100_000, json_schema_extra={"minItems": 2, "uniqueItems": True}),
        AfterValidator(_different_labels),
    ]
    """The K labels to choose from, at least 2, all different; levels from the lowest to the highest."""
    features: Features
    learner: Annotated[
        LearnerChoice | None, BeforeValidator(_read_short_form, json_schema_input_type=LearnerChoice | str | None)
    ] = None
    """The learner; by default the recommended one. A string is short for an object with this `algorithm`."""
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


class _ModelFields(Answer):
    name: str
    features: Features
    learner: dict[str, Any]
    """Algorithm, by its name of today, and every hyperparameter, defaults included."""
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


class ModelAnswer(_ModelFields):
    """A model, with what has happened to it."""

    labels: list[str]
    guarantee: str
    """What is proved of this learner with these hyperparameters, and under which assumptions."""
    damaged_rounds: int = 0
    """Rounds that cannot be read: the model goes on without them."""
    damage: Annotated[list[DamageNote] | None, Field(examples=[None])] = None
    """The first of them; null where there are none."""


class ModelSummary(_ModelFields):
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
