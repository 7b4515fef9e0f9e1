"""Rounds in files: the form that every reader yields, and the shared checks."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from service.error_messages.json_text import check_pairs
from service.error_messages.patterns import LEAST_PROPENSITY, MOST_COST, MOST_DEPTH, MOST_NAME, MOST_TEXT
from service.json_values import JsonMapping, JsonObject

_LARGEST = 2**1000
"""Smaller integers can be converted to doubles without overflow."""

ALLOWED = "numbers, booleans, strings and lists of strings or of numbers"
"""The allowed values of features, for messages."""


class Row(NamedTuple):
    """A round in a file, in the form that `POST /models/{name}/rounds` accepts."""

    path: Path  # the file, or the part of a folder
    place: str  # such as `line 3`
    round: JsonObject


class Shape(NamedTuple):
    """The properties of the target model that a reader needs."""

    kind: str  # the kind of its contexts' features: none, dense, sparse or named
    size: int
    labels: Mapping[str, int]  # the numbers of the labels; empty for a model with actions
    has_actions: bool
    costs: Mapping[str, float] = {}  # what each label costs, if the model says so
    retired: frozenset[str] = frozenset()  # the labels that are retired


class RowError(ValueError):
    """A row is not a valid round; the message names the field."""


def listed(names: Sequence[str]) -> str:
    """Return the names of columns or labels, for messages."""
    first = ", ".join(names[:20])
    return first if len(names) <= 20 else f"{first} and {len(names) - 20} more"


def json_of(text: str) -> Any:
    """Parse JSON, and check that its strings are valid Unicode."""
    try:
        if "\\u" in text:
            check_pairs(text.encode())
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"is not JSON: {error}") from None


def shape_of(model: JsonMapping) -> Shape:
    """Return the shape of a model from the answer of `GET /models/{name}`."""
    features, labels = model["features"], model["labels"]
    numbers = {label: number for number, label in enumerate(labels)}
    costs = {} if model.get("costs") is None else dict.fromkeys(labels, 0.0) | model["costs"]
    retired = frozenset(model.get("retired_labels") or ())
    size, has_actions = int(features.get("size") or 0), model.get("actions") is not None
    return Shape(features["kind"], size, numbers, has_actions, costs, retired)


def checked_label(shape: Shape | None, label: object, field: str) -> str:
    """Check a label, or the id of an action; return it. Raises `RowError`, as all checks here do."""
    if not isinstance(label, str) or not label:
        raise RowError(f"{field}: got {label!r}; must be a text")
    if shape is not None and not shape.has_actions and label not in shape.labels:
        raise RowError(f"{field}: got {label!r}; the labels of the model are {listed(list(shape.labels))}")
    return label


def check_choices(found: JsonMapping, shape: Shape | None) -> None:
    """Check that a round's answer was among its choices."""
    actions, eligible = found.get("actions"), found.get("eligible")
    choices = None if actions is None else [checked_label(None, each["id"], "actions.id") for each in actions]
    if choices is not None and len(set(choices)) < len(choices):
        raise RowError("actions: two of them have the same id")
    if eligible is not None:
        if not isinstance(eligible, list) or not eligible or len(set(map(repr, eligible))) < len(eligible):
            raise RowError(f"eligible: got {_short(eligible)}; must be a list of different labels")
        for each in eligible:
            if checked_label(shape, each, "eligible") not in (eligible if choices is None else choices):
                raise RowError(f"eligible: got {each!r}; the round has no action with this id")
        choices = eligible
    for field in ("label", "true_label") if actions is not None else ("label",):
        if choices is not None and found.get(field, choices[0]) not in choices:
            known = "the eligible labels are" if eligible is not None else "the actions of the round are"
            raise RowError(f"{field}: got {found[field]!r}; {known} {listed(choices)}")


def checked_number(value: Any, field: str) -> float:
    """Return a finite number, given as a number or as text."""
    if isinstance(value, bool):
        raise RowError(f"{field}: got {value!r}; must be a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise RowError(f"{field}: got {_short(value)}; must be a number") from None
    if not math.isfinite(number):
        raise RowError(f"{field}: got {number}; must be finite")
    return number


def checked_propensity(value: object, field: str) -> float:
    """Return a valid propensity, given as a number or as text."""
    number = checked_number(value, field)
    if not LEAST_PROPENSITY <= number <= 1.0:
        raise RowError(f"{field}: got {number}; must be in [{LEAST_PROPENSITY:g}, 1]")
    return number


def checked_cost(value: object, field: str) -> float:
    """Return a cost, or the weight of costs, given as a number or as text."""
    number = checked_number(value, field)
    if not 0.0 <= number <= MOST_COST:
        raise RowError(f"{field}: got {number}; must be from 0 to {MOST_COST:,.0f}")
    return number


def checked_moment(value: Any, field: str, zone: tzinfo | None = None) -> str:
    """Convert a time, or its text in ISO 8601, to text in UTC. A time without a zone is in `zone`."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        known = moment.tzinfo is not None and moment.timestamp() >= 0.0
    except (TypeError, ValueError, OverflowError):
        known = False
    if not known:
        given = value.isoformat() if isinstance(value, datetime) else _short(value)
        form = "a time from 1970 on with its time zone, such as 2026-01-02T03:04:05Z"
        raise RowError(f"{field}: got {given}; must be {form}")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def outcome_of(reward: float, field: str) -> JsonObject:
    """Convert a reward to an outcome. For 0 and 1, this is `correct`, which every learner accepts."""
    if not 0.0 <= reward <= 1.0:
        raise RowError(f"{field}: means a reward of {reward}; must be from 0 to 1")
    return {"correct": reward == 1.0} if reward in {0.0, 1.0} else {"reward": reward}


def checked_context(shape: Shape | None, context: object) -> Any:
    """Check a context against the kind of the model's features, if known; return it in the model's form."""
    if shape is None:
        context = {} if context is None else context
        if not isinstance(context, dict | list):
            raise RowError(f"context: got {_short(context)}; must be an object, or a list of numbers")
        check_features(context, "context")
        return context
    if shape.kind == "dense":
        if not isinstance(context, list) or len(context) != shape.size:
            given = f"{len(context)} numbers" if isinstance(context, list) else _short(context)
            raise RowError(f"context: got {given}; the model takes a list of {shape.size} numbers")
        return [checked_number(each, f"context.{i}") for i, each in enumerate(context)]
    if shape.kind == "none":
        return {}
    if not isinstance(context, dict):
        raise RowError(f"context: got {_short(context)}; the model takes an object")
    check_features(context, "context", may_be_sparse=shape.kind == "sparse")
    return context


def check_features(features: JsonMapping | Sequence[Any], field: str, *, may_be_sparse: bool = True) -> None:
    """Check features, as far as possible without the model's definition."""
    if not isinstance(features, Mapping):
        for i, each in enumerate(features):
            checked_number(each, f"{field}.{i}")
    elif may_be_sparse and features.keys() == {"indices", "values"}:
        for name, each in features.items():
            if not isinstance(each, list):
                raise RowError(f"{field}.{name}: got {_short(each)}; must be a list of numbers")
            check_features(each, f"{field}.{name}")
    else:
        _check_named(features, field, "", 1)


def _check_named(features: JsonMapping, field: str, space: str, depth: int) -> None:
    """Check named features, including nested objects."""
    if depth > MOST_DEPTH:
        raise RowError(f"{field}: has objects in more than {MOST_DEPTH} levels")
    for name, value in features.items():
        kind = type(value)
        if len(space) + len(name) > MOST_NAME:
            raise RowError(f"{field}: has a name of {len(space) + len(name)} characters; must have at most {MOST_NAME}")
        if (kind is float and math.isfinite(value)) or (kind is str and len(value) <= MOST_TEXT):
            continue  # the usual case, for speed
        path = f"{space}{name}"
        if kind is dict:
            _check_named(value, field, f"{path}.", depth + 1)
        elif kind is list or kind is str:
            is_vector = kind is list and _NUMBERS.issuperset(map(type, value))
            for each in value if kind is list else [value]:
                (checked_number if is_vector else _check_text)(each, f"{field}.{path}")
        elif kind is float or (kind is int and not -_LARGEST < value < _LARGEST):
            checked_number(value, f"{field}.{path}")
        elif value is not None and kind is not bool and kind is not int:
            raise RowError(f"{field}.{path}: got {_short(value)}; features are {ALLOWED}")


_NUMBERS = frozenset({float, int})


def _check_text(text: object, field: str) -> None:
    if type(text) is not str:
        raise RowError(f"{field}: got {_short(text)} in a list; features are {ALLOWED}")
    if len(text) > MOST_TEXT:
        raise RowError(f"{field}: got {len(text):,} characters; must have at most {MOST_TEXT:,}")


def context_of(shape: Shape | None, names: Sequence[str], values: Sequence[Any]) -> Any:
    """Build a context from a row of features; None marks a missing value."""
    if shape is None or shape.kind == "named":
        found = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        check_features(found, "context", may_be_sparse=False)
        return found
    if shape.kind == "none":
        return {}
    numbers = [checked_number("" if each is None else each, name) for name, each in zip(names, values, strict=True)]
    if len(numbers) != shape.size:
        raise RowError(f"got {len(numbers)} features; the model takes {shape.size}")
    if shape.kind == "dense":
        return numbers
    indices = [i for i, number in enumerate(numbers) if number]
    return {"indices": indices, "values": [numbers[i] for i in indices]}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
