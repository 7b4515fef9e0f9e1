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

from service.actions.definition import ActionsDefinition
from service.contexts.registry import Features, no_features
from service.schemas.labels import MOST_LABELS, Label, several
from service.schemas.policies import Policies
from service.schemas.problems import Problem
from service.strict_body import Body
from service.wording.patterns import NAME
from service.wording.values import shown

ModelName = Annotated[
    str,
    StringConstraints(pattern=NAME),
    Field(description="1 to 64 letters, digits, `.`, `_` or `-`; the first is a letter or digit."),
]


_DESCRIBED = ConfigDict(use_attribute_docstrings=True)


class Answer(BaseModel):
    """The base of all responses. The docstrings of the fields describe them in openapi.json."""

    model_config = _DESCRIBED


class LearnerChoice(BaseModel):
    """An algorithm and its hyperparameters, which `GET /learners` describes. All hyperparameters are optional."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, use_attribute_docstrings=True)

    algorithm: str
    """The algorithm's name, such as `fastcb`."""


def read_short_form(given: object) -> object:
    """Expand an algorithm's bare name to an object; refuse lists and numbers."""
    if isinstance(given, str):
        return {"algorithm": given}
    if given is None or isinstance(given, (dict, LearnerChoice)):
        return given
    message = 'got {given}; must be an algorithm\'s name or an object with "algorithm"'
    raise PydanticCustomError("learner_type", message, {"given": shown(given)})


class _Essentials(Body):
    """What no change of a model replaces."""

    name: ModelName
    labels: Annotated[
        list[Label],
        FailFast(),
        Field(max_length=MOST_LABELS, json_schema_extra={"minItems": 2, "uniqueItems": True}),
        AfterValidator(several),
    ] = Field(default_factory=list)
    """The K labels to choose from: at least 2, all different. List ordered levels from lowest to highest.
    Leave them out for a model with actions."""
    actions: ActionsDefinition | None = None
    """In the place of labels: each request brings the actions to choose from, with features."""
    features: Annotated[Features, Field(default_factory=no_features)]
    """The features of contexts. Without it, the model has none: its contexts are absent or `{}`."""
    learner: Annotated[
        LearnerChoice | None, BeforeValidator(read_short_form, json_schema_input_type=LearnerChoice | str | None)
    ] = None
    """The learner; by default the recommended one. A string means an object with this `algorithm` only."""


class ModelDefinition(Policies, _Essentials):
    """The definition of a new model."""


class DamageNote(Answer):
    """Stored data that cannot be read."""

    what: Literal["rounds", "snapshot"]
    first: int
    """The first missing round; 1 for a snapshot."""
    last: int
    reason: str
    found_at: datetime


class _Subject(Answer):
    name: str
    features: Features
    actions: Annotated[ActionsDefinition | None, Field(examples=[None])] = None
    """The features of actions; null for a model with labels."""
    learner: dict[str, Any]
    """The algorithm, by its current name, and all hyperparameters, including defaults."""


class _ModelFields(Policies, _Subject):
    model_config = ConfigDict(extra="ignore")  # unlike requests

    created_at: datetime
    rounds_seen: int
    """The number of rounds: predictions with recorded feedback, and expired ones that `on_expiry` made rounds."""
    predictions: int
    """The number of predictions, with or without feedback."""
    correct: int
    """The number of rounds with a correct answer."""
    reward: Annotated[float, Field(examples=[871.0])]
    """The sum of the rewards of the rounds; a correct answer has reward 1."""


ChangeKind = Literal["labels", "policies", "reset", "rollback", "promote", "clone", "import"]


class ChangeNote(Answer):
    """One change of a model."""

    number: int
    """Counted from 1."""
    kind: ChangeKind
    """`labels` may change policies as well. `clone` and `import` begin a model with the state of another one; the
    changes before them are those of the other one."""
    at: datetime
    by: Annotated[str | None, Field(examples=[None])]
    """The id of the API key that made it; null if no keys were required."""
    added: list[str]
    """Labels that it added."""
    retired: list[str]
    """Labels that it retired."""
    policies: dict[str, Any]
    """New values of policies."""
    snapshot: Annotated[str | None, Field(examples=[None])] = None
    """The kept snapshot to which it returned; for a promotion, that of the shadow."""
    shadow: Annotated[str | None, Field(examples=[None])] = None
    """The shadow that was promoted."""
    replaced: Annotated[dict[str, Any] | None, Field(examples=[None])] = None
    """The learner that the shadow replaced."""
    learner: Annotated[dict[str, Any] | None, Field(examples=[None])] = None
    """The learner with which the model continues; null for the one it had."""
    model: Annotated[str | None, Field(examples=[None])] = None
    """The other model, of a clone or an import."""


class ModelChanges(Answer):
    """The changes of a model since its creation."""

    count: int
    latest: list[ChangeNote]
    """The last changes, the newest first."""


class ChangeList(Answer):
    """A page of the changes of a model since its creation."""

    count: int
    """The number of changes of the model."""
    definition: dict[str, Any]
    """The definition before the first change. A policy that it lacks has its default."""
    changes: list[ChangeNote]
    """The oldest first."""
    next_after: int | None
    """The `after` of the next page; null on the last page."""


class ModelAnswer(_ModelFields):
    """A model and its counts."""

    labels: list[str]
    """All labels, in the order of their numbers. Retired labels are included. Empty for a model
    with actions."""
    retired_labels: list[str] = []
    """Labels that are never answered again, in the order of their numbers."""
    changes: ModelChanges
    guarantee: str
    """The proven bound for these hyperparameters, and its assumptions."""
    warnings: Annotated[list[str], Field(examples=[[]])] = []
    """Policies that are likely wrong, such as `learn`: each starts with the name of the policy. Then limits that the
    learner has reached, such as `max_features`: each starts with the hyperparameter to raise, in a new model. Workers
    update the limits every few seconds."""
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
