"""The service's answers as frozen dataclasses, and the function that reads them from JSON.

`raw` is the whole JSON object. Fields that the client does not know are ignored, so that it can read the answers of
newer services.
"""

import types
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from wager_client.errors import ProblemError, UnexpectedAnswerError

Json = Mapping[str, Any]  # a JSON object


_LOCAL = {"local": True}  # marks fields that `read` does not take from the JSON object


@dataclass(frozen=True)
class Slot:
    """One of the answers to a request with `top`. Send its feedback with its `prediction_id`."""

    prediction_id: str | None
    label: str
    propensity: float | None
    rules_left_out: tuple[str, ...] | None = None  # as in `Prediction`
    is_default: bool = field(default=False, metadata=_LOCAL)


@dataclass(frozen=True)
class Prediction:
    """An answer of a model, or the caller's default answer.

    Attributes:
        label: the label or level, or the id of an action; None if the answer has several labels, or with `top`.
        is_default: whether this is the caller's default, because the service was away. The model never learns from it.
    """

    prediction_id: str | None  # for feedback, but slots have ids; None for a default answer
    model: str
    label: str | None = None
    labels: tuple[str, ...] | None = None  # the set or ranking; None if the model answers one label
    propensity: float | None = None  # the probability of the answer; None for a default answer, or with `top`
    rounds_seen: int | None = None
    expires_at: datetime | None = None
    distribution: Mapping[str, float] | None = None  # each label's probability, or that it is in the set; if requested
    holdout: bool = False  # whether the holdout's policy answered instead of the model's
    slots: tuple[Slot, ...] | None = None  # the answers in order, with `top`
    rules_left_out: tuple[str, ...] | None = None  # the rules that the eligible labels could not obey; None if none
    is_default: bool = field(default=False, metadata=_LOCAL)
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Feedback:
    """The result of sending feedback.

    Attributes:
        correct: whether the answer was right; None if the reward is neither 0 nor 1, the answer abstained, or the
            feedback was ignored.
        abstained: whether the answer abstained, which is neither right nor wrong.
        status: `recorded`; `duplicate` if it was recorded before; `ignored` for a default answer, which is never sent.
        round: the number of the round; None while the feedback waits for the window to close, or if it was ignored.
    """

    prediction_id: str | None
    status: str
    correct: bool | None = None
    reward: float | None = None
    abstained: bool = False
    round: int | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Activation:
    """The result of an activation. `status` is `activated`, `duplicate`, or `ignored` for a default answer."""

    prediction_id: str | None
    status: str
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Model:
    """A model and its counts.

    Attributes:
        etag: identifies the definition, for `change_model`; None if the service did not return it.
    """

    name: str
    labels: tuple[str, ...]
    learner: Json
    created_at: datetime
    rounds_seen: int
    predictions: int
    correct: int
    total_reward: float
    abstained: int = 0  # the number of rounds whose answer abstained, which is neither right nor wrong
    retired_labels: tuple[str, ...] = ()
    features: Json | None = None
    actions: Json | None = None
    guarantee: str = ""
    warnings: tuple[str, ...] = ()
    etag: str | None = field(default=None, metadata=_LOCAL)
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ModelSummary:
    """A model in a list. If the service cannot read it, `problem` is the reason, and the counts are None."""

    name: str
    label_count: int | None = None
    rounds_seen: int | None = None
    predictions: int | None = None
    correct: int | None = None
    total_reward: float | None = None
    abstained: int | None = None
    problem: ProblemError | None = field(default=None, metadata=_LOCAL)
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Round:
    """One round of a model's log: a prediction and its outcome."""

    round: int
    prediction_id: str
    outcome: str
    context: Any
    predicted_at: datetime
    feedback_at: datetime
    label: str | None = None
    labels: tuple[str, ...] | None = None
    propensity: float | None = None
    correct: bool | None = None
    reward: float | None = None
    abstained: bool = False  # whether the answer abstained, which is neither right nor wrong
    true_label: str | None = None
    true_labels: tuple[str, ...] | None = None
    eligible: tuple[str, ...] | None = None
    holdout: bool = False
    cost: float | None = None  # what the answer cost; None if neither model nor request had costs
    cost_weight: float | None = None  # the reward that a cost of 1 was worth; None if another policy decided
    costs: Mapping[str, float] | None = None  # what each label cost, if the request said so
    rounds_seen: int = 0  # the rounds in the log that the answer took into account
    changes_seen: int = 0  # the changes of the model that the answer took into account
    changes: int = 0  # the changes in the log before this round
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Explanation:
    """A model's features, scores and distribution for a context, or for each action."""

    model: str
    rounds_seen: int
    scores: Mapping[str, float] | None = None
    distribution: Mapping[str, float] | None = None
    features: tuple[Any, ...] = ()
    base_rates: Json | None = None
    actions: tuple[Any, ...] | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Outcome:
    """The feedback of a prediction, or what its model made of silence: then `outcome` is `expired`.

    Attributes:
        correct: whether the answer was right; None if the reward is neither 0 nor 1.
        round: the number of the round; None while the feedback waits for the window to close.
    """

    outcome: str
    reward: float
    feedback_at: datetime
    correct: bool | None = None
    abstained: bool = False
    true_label: str | None = None
    true_labels: tuple[str, ...] | None = None
    round: int | None = None


@dataclass(frozen=True)
class Decision:
    """A stored prediction explained: what its model knew, what it chose from, what it drew, and what became of it.

    Attributes:
        status: `open`, `waiting`, `inactive`, `expired` or `recorded`.
        cost: what the answer cost, of the `costs` of all that it could be; None if nothing had costs.
        cost_weight: the reward that a cost of 1 was worth; None if another policy decided.
        distribution: the probability of each label or action to choose from; None if `reason` says why it is unknown.
        draw: the random number that is stored, and `u` the whole one, which drew the answer.
        outcome: None without feedback.
    """

    prediction_id: str
    model: str
    status: str
    propensity: float
    expires_at: datetime
    rounds_seen: int
    changes_seen: int
    learner: Json
    mode: str
    label: str | None = None
    labels: tuple[str, ...] | None = None
    holdout: bool | None = None
    predicted_at: datetime | None = None
    context: Any = None
    actions: tuple[Any, ...] | None = None
    action_count: int | None = None
    eligible: tuple[str, ...] | None = None
    rules: Json | None = None
    rules_left_out: tuple[str, ...] | None = None
    cost: float | None = None
    cost_weight: float | None = None
    costs: Mapping[str, float] | None = None
    budget: Json | None = None
    holdout_policy: Any = None
    distribution: Mapping[str, float] | None = None
    scores: Mapping[str, float] | None = None
    draw: float | None = None
    u: float | None = None
    reason: str | None = None
    outcome: Outcome | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Health:
    """The state of the service and of its store."""

    status: str
    store: str = ""
    durability: str = ""
    warnings: tuple[str, ...] = ()
    raw: Json = field(default_factory=dict, repr=False, compare=False)


_T = TypeVar("_T")


def read(kind: type[_T], given: object, **more: object) -> _T:
    """Convert a JSON object to a dataclass. Raises `UnexpectedAnswerError` if it does not fit.

    The field `raw`, if the dataclass has one, is the object. `more` are the values of fields that are not in it.
    """
    if not isinstance(given, Mapping):
        raise UnexpectedAnswerError(f"got {str(given)[:100]!r} for a {kind.__name__}; must be an object")
    try:
        return kind(**_values(kind, given), **more)
    except (TypeError, ValueError) as error:
        raise UnexpectedAnswerError(f"cannot read a {kind.__name__}: {error}") from error


def _values(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (hint, required) in _hints(cast(Hashable, kind)).items():
        if name == "raw":
            values[name] = given
        elif name in given:
            values[name] = _value_of(hint, given[name])
        elif required:
            raise ValueError(f"{name} is missing")
    return values


@cache
def _hints(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field that `read` takes, and whether it is required."""
    hints = get_type_hints(kind)
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
        if not each.metadata.get("local")
    }


def _value_of(hint: Any, given: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # X | None
        return None if given is None else _value_of(arguments[0], given)
    if given is None and hint is not Any:
        raise ValueError("a value is null")
    if origin is tuple:
        return tuple(_value_of(arguments[0], each) for each in given)
    if hint is datetime:
        return datetime.fromisoformat(given)
    if hint is float and isinstance(given, int) and not isinstance(given, bool):
        return float(given)
    if hasattr(hint, "__dataclass_fields__"):
        return read(hint, given)
    if hint is not Any and isinstance(hint, type) and not isinstance(given, hint):
        raise TypeError(f"got {given!r}; must be {hint.__name__}")
    return given
