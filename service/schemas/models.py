"""Schemas of models. Requests are strict: no coercions, no NaN or infinities, no unknown fields."""

from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    StringConstraints,
    Tag,
    create_model,
)
from pydantic_core import PydanticCustomError, PydanticUndefined

from learners.field_docstrings import DescribedFields, field_docstrings
from service.actions.definition import ActionsDefinition
from service.contexts.registry import Features, no_features
from service.error_messages.patterns import NAME
from service.error_messages.values import quoted, shown
from service.json_values import JsonObject
from service.schemas.costs import Budget, Costs, CostWeight
from service.schemas.flags import Ofrep, Values
from service.schemas.problems import Problem
from service.schemas.rules import Rules
from service.strict_body import Body

Label = Annotated[str, StringConstraints(min_length=1, max_length=256)]

MOST_LABELS = 100_000  # maximum labels of a model, retired ones included


def several(labels: list[str]) -> list[str]:
    """Check that there are at least two labels, all different; return them."""
    if len(labels) < 2:
        message = "got {given}; a model needs at least 2 labels"
        raise PydanticCustomError("too_few_labels", message, {"given": shown(labels)})
    return unique(labels)


def unique(labels: list[str]) -> list[str]:
    """Check that labels are all different; return them."""
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            message = "got {label} twice; must be unique"
            raise PydanticCustomError("duplicate_labels", message, {"label": quoted(label)})
        seen.add(label)
    return labels


class ExpiryReward(Body):
    """A reward for predictions that expire without feedback."""

    reward: Annotated[float, Field(ge=0, le=1)]
    """The reward, for models whose learner accepts rewards."""


OnExpiry = Annotated[
    Annotated[Literal["drop", "incorrect"], Tag("word")] | Annotated[ExpiryReward, Tag("object")],
    Discriminator(lambda given: "object" if isinstance(given, (dict, ExpiryReward)) else "word"),
]


class FixedLabel(Body):
    """A holdout that always answers one label."""

    label: Label


class Holdout(Body):
    """A share of the requests that another policy answers, for comparison: the learner does not learn from them."""

    fraction: Annotated[float, Field(gt=0, lt=1)]
    """The share of the requests, chosen at random."""
    policy: Annotated[
        Annotated[Literal["uniform", "baseline"], Tag("name")] | Annotated[FixedLabel, Tag("label")],
        Discriminator(lambda given: "label" if isinstance(given, (dict, FixedLabel)) else "name"),
    ]
    """`uniform` draws an eligible label, `baseline` answers the baseline in the request, and an object with `label`
    answers this label, or draws an eligible one if it is not eligible."""


class Freshness(Body):
    """How new the state of a prediction is."""

    max_lag_seconds: Annotated[float, Field(ge=0, le=60)] = 0.0
    """A prediction includes every round that was acknowledged more than this time before its request. 0 means every
    round that was acknowledged before the request. Changes of the model are never late."""


SHORTEST_WINDOW, LONGEST_WINDOW = 0.001, 366 * 86_400.0  # seconds


RewardMeaning = Literal["accuracy", "clicks", "value"]
"""What the mean reward is: the share of right answers, the click rate, or a mean value."""


class Policies(Body):
    """The policies of a model. `PATCH /models/{name}` can change each of them."""

    window_seconds: Annotated[float, Field(ge=SHORTEST_WINDOW, le=LONGEST_WINDOW)] = 86_400.0
    """How long a prediction accepts feedback. A request that sets `on_expiry` to other than `drop` must give it: choose
    the time within which nearly all feedback arrives, such as 95 % of the clicks. A model that had such an `on_expiry`
    keeps its window."""
    late_feedback: Literal["reject", "accept"] = "reject"
    """Whether to accept feedback after the window, until the prediction is deleted one hour later."""
    on_expiry: OnExpiry = "drop"
    """What a prediction without feedback becomes when its window closes: no round, or a round that is incorrect or has
    this reward. If clients only report successes, such as clicks, use `incorrect`. A request that sets or changes it
    sets `learn` as well, unless it gives `learn`."""
    learn: Literal["on_arrival", "at_window_close"] = "on_arrival"
    """When feedback becomes a round. At window close, feedback that arrives early has no advantage over silence, so it
    is the default of a request that sets `on_expiry` to other than `drop`. With `on_arrival`, such a model follows
    clicks for a whole window before it learns from silence, and has a warning."""
    reward: RewardMeaning = "accuracy"
    """What a reward of 1 means, for the words of statistics and verdicts: a right answer (`accuracy`), a click or
    another action of the user (`clicks`), or the largest `value`, such as revenue as a share of the highest price. It
    changes nothing that the model learns."""
    retain_rounds: Annotated[int, Field(ge=0, le=1_000_000_000)] = 100_000
    """The minimum number of latest rounds that the log keeps, for reading and replay."""
    retain_seconds: Annotated[float, Field(ge=60, le=100 * 366 * 86_400)] | None = None
    """The longest that the log keeps a round, for contexts with personal data; by default, only `retain_rounds` counts.
    Older rounds are deleted within two minutes, but the last round stays until another follows."""
    mode: Literal["online", "logging", "frozen"] = "online"
    """`online` answers and learns. `logging` draws from the `policy` of the request, or uniformly, and learns. `frozen`
    answers and records rounds, but does not learn from them."""
    holdout: Annotated[Holdout | None, Field(examples=[None])] = None
    """A share of the requests that another policy answers; null for none."""
    rules: Annotated[Rules | None, Field(examples=[None])] = None
    """Bounds on the probabilities of labels, of groups of labels, or of tagged actions; null for none."""
    costs: Annotated[Costs | None, Field(examples=[None])] = None
    """What the answers of up to 1,000 labels cost, in any unit, such as dollars; the others cost 0. Only learners that
    estimate rewards can weigh costs: `fastcb`, `squarecb` and `epsilon-greedy-ridge`. With actions, each action of a
    request brings its `cost`."""
    cost_weight: CostWeight = 0.0
    """λ, the reward that a cost of 1 is worth: the learner decides by estimated reward - λ cost. It learns only the
    rewards, so λ may change at any time. With 0, costs are recorded, but do not count."""
    budget: Annotated[Budget | None, Field(examples=[None])] = None
    """A bound on the mean cost, which sets λ by itself; null for none. Needs an `on_expiry` other than `drop`."""
    values: Annotated[Values | None, Field(examples=[None])] = None
    """What OpenFeature clients get for up to 1,000 labels: a boolean, a string, a number or an object; the others are
    their own value. At most 64 KiB as JSON; null for none. If one is a fraction, all numbers become fractions."""
    ofrep: Ofrep = Ofrep()
    """Whether bulk evaluations of flags include the model, and how long an answer sticks."""
    freshness: Freshness = Freshness()
    """How new the state of a prediction is. Several workers serve a model with much traffic at a lower cost if its
    predictions may lag."""


POLICIES = tuple(Policies.model_fields)  # the names of the policies


def policies_of(model: Policies) -> JsonObject:
    """Return the values of the policies, by name."""
    return {name: getattr(model, name) for name in POLICIES}


ModelName = Annotated[
    str,
    StringConstraints(pattern=NAME),
    Field(description="1 to 64 letters, digits, `.`, `_` or `-`; the first is a letter or digit."),
]


class Answer(DescribedFields, BaseModel):
    """The base of all responses."""


class LearnerChoice(DescribedFields, BaseModel):
    """An algorithm and its hyperparameters, which `GET /learners` describes. All hyperparameters are optional."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    algorithm: str
    """The algorithm's name, such as `fastcb`."""


def read_short_form(given: object) -> object:
    """Expand an algorithm's bare name to an object; refuse all but objects and null."""
    if isinstance(given, str):
        return {"algorithm": given}
    if given is None or isinstance(given, (dict, LearnerChoice)):
        return given
    message = 'got {given}; must be an algorithm\'s name or an object with "algorithm"'
    raise PydanticCustomError("learner_type", message, {"given": shown(given)})


class _Essentials(Body):
    """The parts of a definition that no policy change replaces."""

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
    """Instead of labels: each request brings the actions to choose from, with features."""
    features: Annotated[Features, Field(default_factory=no_features)]
    """Features of contexts. Unset: contexts have none, and are absent or `{}`."""
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
    learner: JsonObject
    """The algorithm, by its current name, and all hyperparameters, including defaults."""


class _ModelFields(Policies, _Subject):
    model_config = ConfigDict(extra="ignore")  # unlike requests, which refuse unknown fields

    created_at: datetime
    rounds_seen: int
    """The number of rounds: predictions with recorded feedback, and expired ones that `on_expiry` made rounds."""
    predictions: int
    """The number of predictions, with or without feedback."""
    correct: int
    """The number of rounds with a correct answer."""
    total_reward: Annotated[float, Field(examples=[871.0])]
    """The sum of the rewards of the rounds; a correct answer has reward 1."""
    abstained: Annotated[int, Field(examples=[0])]
    """The number of rounds whose answer abstained: neither correct nor wrong."""


ChangeKind = Literal["labels", "policies", "reset", "rollback", "promote", "clone", "import"]


class ChangeNote(Answer):
    """One change of a model."""

    number: int
    """Counted from 1."""
    kind: ChangeKind
    """A change of `labels` may change policies too. After `clone` or `import`, the model continues another model's
    state; earlier changes are the other model's."""
    at: datetime
    by: Annotated[str | None, Field(examples=[None])]
    """The id of the API key that made it; null if no keys were required."""
    added: list[str]
    """Labels that it added."""
    retired: list[str]
    """Labels that it retired."""
    policies: JsonObject
    """New values of policies."""
    snapshot: Annotated[str | None, Field(examples=[None])] = None
    """The kept snapshot to which the model returned; for a promotion, the kept snapshot of the shadow."""
    shadow: Annotated[str | None, Field(examples=[None])] = None
    """The shadow that was promoted."""
    replaced: Annotated[JsonObject | None, Field(examples=[None])] = None
    """The learner that the shadow replaced."""
    learner: Annotated[JsonObject | None, Field(examples=[None])] = None
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
    definition: JsonObject
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
    learner has reached, such as `max_features`: each starts with the hyperparameter to raise, in a new model. Then
    outliers among the `features`, which the learner clipped. Workers update limits and outliers every few seconds."""
    damaged_rounds: int = 0
    """The number of unreadable rounds. The model continues without them."""
    damage: Annotated[list[DamageNote] | None, Field(examples=[None])] = None
    """The first unreadable parts; null if all data can be read."""


class ModelSummary(_ModelFields):
    """A model in a list. Instead of its labels, and of the `sets` of its learner, it has only their numbers."""

    label_count: int


class UnreadableModel(Answer):
    """A model that cannot be read, in a list of models."""

    name: str
    problem: Problem
    """The problem that `GET /models/{name}` returns."""


class ModelList(Answer):
    """A page of models."""

    models: list[ModelSummary | UnreadableModel]
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""
    total: int
    """The number of models that the API key allows and `search` finds, on all pages."""


class LearnerDescription(Answer):
    """A learner with its defaults: its guarantee, the norm it needs, and the JSON Schema of its hyperparameters."""

    algorithm: str
    answer: Literal["label", "level", "label-set", "ranking"]
    """The kind of answer: one label; one label of an ordered list; a set of labels; all labels, ranked."""
    summary: str
    guarantee: str
    """The proven bound for the default hyperparameters. `GET /models/{name}` has a model's bound. It assumes that every
    label is eligible in every round, and that no label was added."""
    norm: Literal["none", "unit", "scale", "reject"]
    """The default of `features.norm` for new models."""
    intercept: bool
    """Whether the learner allows an intercept; the default of `features.intercept` for new models."""
    norm_bound_on: Literal["length", "entries"]
    """What `norm_bound` limits: the Euclidean norm of a context, or the magnitude of each number."""
    accepts_rewards: bool
    """Whether feedback may have a `reward` between 0 and 1."""
    labels_grow: bool
    """Whether labels can be added to a model."""
    recommended: bool
    hyperparameters: JsonObject


class LearnerList(Answer):
    """All learners."""

    learners: list[LearnerDescription]


_DifferentLabels = Annotated[list[Label], FailFast(), Field(max_length=MOST_LABELS), AfterValidator(unique)]


class LabelChanges(Body):
    """Labels to add and to retire. Retired labels are never answered again, and their names are never used again."""

    add: _DifferentLabels = Field(default=[])
    """New labels, for a learner whose labels can grow."""
    retire: _DifferentLabels = Field(default=[])
    """Labels of the model. At least 2 others remain."""


class _PatchFields(Body):
    """Changes of a model. Fields that are left out stay as they are."""

    labels: LabelChanges | None = None


_POLICY_DOCSTRINGS = field_docstrings(Policies)


def _optional(name: str) -> Any:
    field = copy(Policies.model_fields[name])
    field.default, field.default_factory = PydanticUndefined, lambda: None  # a factory is not in the JSON Schema
    field.description = _POLICY_DOCSTRINGS[name]
    return Policies.model_fields[name].annotation, field


if TYPE_CHECKING:
    ModelPatch = _PatchFields
else:
    _policies = {name: _optional(name) for name in Policies.model_fields}
    ModelPatch = create_model("ModelPatch", __base__=_PatchFields, __doc__=_PatchFields.__doc__, **_policies)
