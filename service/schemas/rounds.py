"""Schemas of predictions, feedback, rounds and imported rounds."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    SkipValidation,
    TypeAdapter,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from learners.field_docstrings import described
from service.actions.definition import ActionId, GivenActions
from service.contexts.kind import without_default
from service.contexts.registry import GivenContext, ShownContext
from service.error_messages.patterns import GIVEN_ID, LEAST_PROPENSITY, QUALIFIED_ID, SOURCE
from service.error_messages.values import shown
from service.prediction_id import PredictionId
from service.schemas.costs import Costs, CostWeight
from service.schemas.models import MOST_LABELS, Answer, Label, ModelName, unique
from service.schemas.problems import Problem
from service.strict_body import Body, FirstError

_AnswerT = TypeVar("_AnswerT")


@dataclass_transform()
def answer(kind: type[_AnswerT]) -> type[_AnswerT]:
    """Convert a frequent response to a dataclass. The docstrings of its fields appear in openapi.json."""
    new = dataclass(kind)
    new.__get_pydantic_json_schema__ = classmethod(described)  # type: ignore[attr-defined]
    new.__pydantic_core_schema__ = TypeAdapter(new).core_schema  # type: ignore[attr-defined]  # once, not per route
    return new


_OURS = re.compile(r"(^|:)~[^:]*\Z")


def _not_ours(given: object) -> Any:
    if isinstance(given, str) and _OURS.search(given):
        message = "got {given}; ids that begin with ~ are reserved for the service"
        raise PydanticCustomError("reserved_id", message, {"given": shown(given)})
    return given


def _parsed(parse: Callable[[str], PredictionId], pattern: str) -> CoreSchema:
    text, written = core_schema.str_schema(pattern=pattern), core_schema.to_string_ser_schema()
    return core_schema.no_info_after_validator_function(parse, text, serialization=written)


QualifiedId = Annotated[
    PredictionId,
    GetPydanticSchema(lambda *_: _parsed(PredictionId.parse, QUALIFIED_ID)),
    Field(description="`<model>:<id>`, as `/predict` returns it."),
]
GivenId = Annotated[
    PredictionId,
    GetPydanticSchema(
        lambda *_: _parsed(lambda text: PredictionId.parse(text if ":" in text else f":{text}"), GIVEN_ID)
    ),
    BeforeValidator(_not_ours),
    Field(
        description="Your own id, unique within the model, optionally after `<model>:`. It must not begin with `~`, "
        "which marks ids of the service."
    ),
]
"""The parsed id's `model` is empty if the request omits it."""


_Eligible = Annotated[list[Label], FirstError(), Field(min_length=1, max_length=MOST_LABELS), AfterValidator(unique)]


MOST_SLOTS = 100  # maximum slots of an answer; each slot is stored in its own record

Top = Annotated[int, Field(ge=1, le=MOST_SLOTS)]


class PredictItem(Body):
    """A request for one prediction, without the model."""

    context: Annotated[GivenContext, Field(json_schema_extra=without_default)] = None
    """Absent or `{}` if the model has no features."""
    actions: GivenActions | None = None
    """The actions to choose from, for a model with actions: up to 10,000, with different ids."""
    prediction_id: GivenId | None = None
    """Your own id. Repeating a request with the same id returns the stored prediction. All other fields but
    `include_distribution` must be the same."""
    include_distribution: bool = False
    """Whether to return the probability of every eligible label. Models that answer rankings refuse it."""
    eligible: _Eligible | None = None
    """The labels to choose from, for this request; by default all labels that are not retired. The distribution and
    the propensity are over these labels."""
    baseline: Label | None = None
    """The label that you would choose yourself. A holdout with the policy `baseline` answers it."""
    policy: dict[Label, Annotated[float, Field(gt=0, le=1)]] | None = None
    """The probability of each label to draw from, for a model in the mode `logging`; uniform if left out."""
    costs: Costs | None = None
    """What labels cost in this request, in place of the model's costs. For actions, each action has its own."""
    cost_weight: CostWeight | None = None
    """λ for this request, in place of the model's: the reward that a cost of 1 is worth."""
    activated: bool = True
    """Whether the prediction takes feedback at once. If not, activate it when its answer is shown; otherwise it expires
    without a round."""
    top: Top | None = None
    """The number of labels or actions to answer, in order and all different, up to 100. Each is a prediction with its
    own feedback: see `slots` in the answer."""


class _Named(Body):
    model: ModelName


class PredictRequest(PredictItem, _Named):
    """A request for one prediction."""


class ActivateRequest(Body):
    """A prediction whose answer is shown."""

    prediction_id: QualifiedId


@answer
class ActivateAnswer:
    """An active prediction, which takes feedback."""

    prediction_id: str
    status: Literal["activated", "duplicate"]
    """`duplicate` if the prediction was active before."""


@answer
class Slot:
    """One of the answers to a request with `top`. Each slot is a prediction: send feedback for it with its own id."""

    prediction_id: str
    """The id of the request, a colon, and the number of the slot, from 0."""
    label: str
    propensity: float
    """The probability of this label given the labels of the earlier slots, in (0, 1]."""
    rules_left_out: Annotated[list[str] | None, Field(examples=[None])] = None
    """As in an answer without slots; a label of an earlier slot is not eligible."""


@answer
class PredictAnswer:
    """An answer drawn from a known distribution, with its probability."""

    prediction_id: str
    model: str
    label: str | None
    """The label or level, or the id of an action; null if the model answers several labels, and with `top`."""
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The labels of a set, or all labels from first to last rank; null if the model answers one label."""
    propensity: float | None
    """The probability of this answer, in (0, 1]; null with `top`."""
    rounds_seen: int
    """The number of rounds in the log that the answer takes into account."""
    expires_at: datetime
    """When the feedback window closes."""
    distribution: dict[str, float] | None = None
    """The probability of each eligible label, or of its membership in a set. Null if not requested, and for a stored
    prediction."""
    holdout: bool = False
    """Whether the holdout answered. The model does not learn from such a prediction."""
    slots: Annotated[list[Slot] | None, Field(examples=[None])] = None
    """The answers in order, if the request has `top`. Send feedback with the slots' ids, not with `prediction_id`."""
    rules_left_out: Annotated[list[str] | None, Field(examples=[None])] = None
    """The rules that the eligible labels or actions could not obey, such as `floor.control`: at most ten, then how many
    more. Null if there are none, and for a stored prediction."""


class PredictBatchRequest(Body):
    """A request for many predictions. Each context succeeds or fails individually."""

    model: ModelName
    contexts: Annotated[list[SkipValidation[GivenContext]], Field(min_length=1)] | None = None
    """One for each prediction."""
    items: Annotated[list[SkipValidation[PredictItem]], Field(min_length=1)] | None = None
    """One request per prediction, without the model; replaces `contexts` and `prediction_ids`."""
    prediction_ids: list[SkipValidation[GivenId | None]] | None = None
    """Your own ids, one for each context; null where the service makes one."""
    include_distribution: bool = False
    """Whether to return the probability of every label, for contexts, and for items without this field. Models that
    answer rankings refuse it."""
    activated: bool = True
    """Whether the predictions take feedback at once, for contexts, and for items without this field."""
    top: Top | None = None
    """The number of slots of each answer, for contexts, and for items without this field."""


class FeedbackRequest(Body):
    """Feedback for one prediction: `correct`, the truth, or both; or only `reward`."""

    prediction_id: QualifiedId
    correct: bool | None = None
    """Whether the answer was right. An answer of several labels is right only if all of it is."""
    reward: Annotated[float | None, Field(ge=0, le=1)] = None
    """How good the answer was, for models whose learner accepts rewards. 1 is correct, and 0 is wrong."""
    true_label: Label | None = None
    """The label or level that is right. It determines `correct`. A label that represents abstaining cannot be right."""
    true_labels: Annotated[list[Label], FirstError(), Field(max_length=100_000)] | None = None
    """For a model that answers several labels: the right set, or all labels in the right order. It determines
    `correct`."""


@answer
class FeedbackAnswer:
    """The recorded feedback of a prediction."""

    prediction_id: str
    correct: bool | None
    """Null if the reward is neither 0 nor 1."""
    reward: Annotated[float, Field(examples=[1.0])]
    abstained: Annotated[bool, Field(examples=[False])]
    """Whether the answer abstained, which is neither right nor wrong: `correct` is null, and `reward` is 1 minus the
    learner's `abstention_cost`."""
    status: Literal["recorded", "duplicate"]
    round: int | None
    """The number of the round, counted from 1; null while the feedback waits for the window to close."""


class FeedbackBatchRequest(Body):
    """Feedback for many predictions. Each item succeeds or fails individually."""

    feedback: Annotated[list[SkipValidation[FeedbackRequest]], Field(min_length=1)]
    """One for each prediction."""


@answer
class PredictBatchAnswer:
    """A prediction or a problem for each context, in order."""

    predictions: list[PredictAnswer | Problem]


@answer
class FeedbackBatchAnswer:
    """A result or a problem for each feedback item, in order."""

    results: list[FeedbackAnswer | Problem]


class WebhookAnswer(Answer):
    """The result of a webhook."""

    status: Literal["recorded", "duplicate", "ignored"]
    feedback: Annotated[FeedbackAnswer | None, Field(examples=[None])] = None
    """The recorded feedback; null if the webhook was ignored."""
    reason: Annotated[Problem | None, Field(examples=[None])] = None
    """Why the webhook was ignored; null otherwise."""


class LoggedAction(Answer):
    """An action in the log."""

    id: str
    features: ShownContext
    """Its features, as the client sent them."""
    probability: float | None
    """Its probability; null if the log keeps only the chosen action."""
    tag: Annotated[str | None, Field(examples=[None])] = None
    cost: Annotated[float | None, Field(examples=[None])] = None


class RoundLine(Answer):
    """One round in a model's log."""

    round: int
    prediction_id: str
    label: str | None
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The set or ranking; null if the model answers one label."""
    propensity: float
    outcome: Literal["feedback", "expired"]
    """`expired` if the window closed without feedback, and the model's `on_expiry` made the round."""
    correct: bool | None
    """Null if the reward is neither 0 nor 1."""
    reward: Annotated[float, Field(examples=[1.0])]
    abstained: Annotated[bool, Field(examples=[False])]
    """Whether the answer abstained, which is neither right nor wrong."""
    true_label: str | None
    true_labels: Annotated[list[str] | None, Field(examples=[None])]
    context: ShownContext
    """The context that the client sent."""
    actions: Annotated[list[LoggedAction] | None, Field(examples=[None])] = None
    """The chosen action, or all actions to choose from if `log_actions` is `all`; null for a model with labels."""
    action_count: Annotated[int | None, Field(examples=[None])] = None
    """The number of actions to choose from; null for a model with labels."""
    eligible: Annotated[list[str] | None, Field(examples=[None])] = None
    """The labels that the prediction could choose from; null if it could choose from every label of the model."""
    holdout: bool = False
    """Whether the holdout answered, so that the model did not learn from the round."""
    cost: Annotated[float | None, Field(examples=[None])] = None
    """What the answer cost; null if neither model nor request had costs."""
    cost_weight: Annotated[float | None, Field(examples=[None])] = None
    """λ in the decision; null without a cost, and if another policy decided, as in an import."""
    costs: Annotated[dict[str, float] | None, Field(examples=[None])] = None
    """The costs that the request gave, in place of the model's."""
    rounds_seen: int
    """The number of rounds in the log that the answer took into account."""
    changes_seen: int
    """The number of changes of the model that the answer took into account."""
    changes: int
    """The number of changes in the log before this round."""
    predicted_at: datetime
    feedback_at: datetime
    """When the feedback arrived, or when the prediction was closed without feedback."""


class PredictionLine(Answer):
    """One prediction that has no round yet."""

    prediction_id: str
    status: Literal["open", "waiting", "inactive"]
    """`open`: it accepts feedback. `waiting`: it has feedback, which counts when its window closes. `inactive`: it must
    be activated before feedback."""
    label: str | None
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The set or ranking; null if the model answers one label."""
    propensity: float
    holdout: bool
    """Whether the holdout's policy answered it."""
    context: ShownContext
    rounds_seen: int
    """The number of rounds in the log that the answer took into account."""
    predicted_at: datetime
    expires_at: datetime
    """When the feedback window closes."""


Source = Annotated[str, Field(min_length=1, max_length=200, pattern=SOURCE)]

_ImportedEligible = Annotated[
    list[ActionId], FirstError(), Field(min_length=1, max_length=MOST_LABELS), AfterValidator(unique)
]


class ImportRound(Body):
    """A complete round: a context, an answer with its propensity, and its outcome; or a context and its true label."""

    context: Annotated[GivenContext, Field(json_schema_extra=without_default)] = None
    """As in `POST /predict`."""
    actions: GivenActions | None = None
    """The actions to choose from, for a model with actions."""
    costs: Costs | None = None
    """As in `POST /predict`."""
    eligible: _ImportedEligible | None = None
    """The labels or actions that could be chosen; by default all that are not retired."""
    label: ActionId | None = None
    """The label, or the id of the action, that was chosen. If it is left out, the model draws one itself, and
    `true_label` says whether it is right."""
    propensity: Annotated[float, Field(ge=LEAST_PROPENSITY, le=1)] | None = None
    """The probability with which the label was chosen; needed with `label`."""
    correct: bool | None = None
    """Whether the label was right."""
    reward: Annotated[float | None, Field(ge=0, le=1)] = None
    """How good the label was; replaces `correct` and `true_label`."""
    true_label: ActionId | None = None
    """The label or action that was right. It determines `correct`."""
    at: Annotated[AwareDatetime, Field(strict=False)] | None = None
    """When the label was chosen; by default now."""
    holdout: bool = False
    """Whether the round is for evaluation only: the model does not learn from it. Only with `label`."""


class ImportRequest(Body):
    """Consecutive rounds of a source, such as a file."""

    source: Source
    """What distinguishes the source from all others of the model, such as a digest of the file."""
    offset: Annotated[int, Field(ge=0, le=2**53)]
    """The number of rounds of the source before these."""
    rounds: Annotated[list[ImportRound], FirstError(), Field(min_length=1)]
    """All of them are checked before the first is imported."""


@answer
class ImportAnswer:
    """The progress of an import."""

    source: str
    status: Literal["recorded", "duplicate"]
    """`duplicate` if every round of the request had been imported before."""
    imported: int
    """The number of rounds that this request imported."""
    position: int
    """The number of rounds imported from the source so far: the `offset` of the next request."""
    rounds_seen: int
    """The number of rounds in the log."""


class ImportedSource(Answer):
    """The progress of one source."""

    source: str
    position: int
    """The number of rounds imported from it so far: the `offset` of the next request."""
    at: datetime
    """When the last request named it."""


class ImportList(Answer):
    """The sources of imported rounds, the last used one first; at most 100."""

    imports: list[ImportedSource]
