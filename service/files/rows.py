"""Rounds in files: the form in which every reader yields them, and the checks that all share."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Row(NamedTuple):
    """A round in a file, as `POST /models/{name}/rounds` takes it."""

    place: str  # such as `line 3`
    round: dict[str, Any]


class Shape(NamedTuple):
    """What a reader needs to know of the model that gets the rounds."""

    kind: str  # of the features of its contexts: none, dense, sparse or named
    size: int
    labels: Mapping[str, int]  # the numbers of the labels; empty for a model with actions
    has_actions: bool


class RowError(ValueError):
    """A row does not contain a round; the message names the field."""


def shape_of(model: Mapping[str, Any]) -> Shape:
    """Return the shape of a model from the answer of `GET /models/{name}`."""
    features, labels = model["features"], model["labels"]
    numbers = {label: number for number, label in enumerate(labels)}
    return Shape(features["kind"], int(features.get("size") or 0), numbers, model.get("actions") is not None)


def checked_label(shape: Shape | None, label: Any, field: str) -> str:
    """Return a label or the id of an action.

    Raises:
        RowError: if it is not a text, or the model does not have it.
    """
    if not isinstance(label, str) or not label:
        raise RowError(f"{field}: got {label!r}; must be a text")
    if shape is not None and not shape.has_actions and label not in shape.labels:
        known = ", ".join(list(shape.labels)[:10])
        raise RowError(f"{field}: got {label!r}; the labels of the model are {known}")
    return label


def checked_number(value: Any, field: str) -> float:
    """Return a finite number, also from its text.

    Raises:
        RowError: if it is none.
    """
    if isinstance(value, bool):
        raise RowError(f"{field}: got {value!r}; must be a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise RowError(f"{field}: got {_short(value)}; must be a number") from None
    if not math.isfinite(number):
        raise RowError(f"{field}: got {number}; must be finite")
    return number


def checked_propensity(value: Any, field: str) -> float:
    """Return a probability above 0.

    Raises:
        RowError: if it is not in (0, 1].
    """
    number = checked_number(value, field)
    if not 0.0 < number <= 1.0:
        raise RowError(f"{field}: got {number}; must be above 0 and at most 1")
    return number


def outcome_of(reward: float, field: str) -> dict[str, Any]:
    """Return the outcome of a round with a reward: `correct` for 0 and 1, which every learner accepts.

    Raises:
        RowError: if the reward is not in [0, 1].
    """
    if not 0.0 <= reward <= 1.0:
        raise RowError(f"{field}: means a reward of {reward}; must be from 0 to 1")
    return {"correct": reward == 1.0} if reward in {0.0, 1.0} else {"reward": reward}


def checked_context(shape: Shape | None, context: Any) -> Any:
    """Return a context of the model's kind.

    Raises:
        RowError: if it is of another kind or length.
    """
    if shape is None:
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
    return context


def context_of(shape: Shape | None, names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return the context of a row of features; None marks a missing one.

    Raises:
        RowError: if they do not fit the model.
    """
    if shape is None or shape.kind == "named":
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}
    if shape.kind == "none":
        return {}
    numbers = [checked_number("" if each is None else each, name) for name, each in zip(names, values, strict=True)]
    if len(numbers) != shape.size:
        raise RowError(f"got {len(numbers)} features; the model takes {shape.size}")
    if shape.kind == "dense":
        return numbers
    indices = [i for i, number in enumerate(numbers) if number]
    return {"indices": indices, "values": [numbers[i] for i in indices]}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
