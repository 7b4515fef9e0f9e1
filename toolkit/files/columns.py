"""Assigns meanings to the columns of a table, and converts its rows to rounds."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from service.json_values import JsonMapping, JsonObject
from toolkit.files.rows import (
    RowError,
    Shape,
    check_choices,
    check_features,
    checked_context,
    checked_cost,
    checked_label,
    checked_moment,
    checked_number,
    checked_propensity,
    context_of,
    json_of,
    listed,
    outcome_of,
)

EXPORTED = (
    "round", "prediction_id", "label", "propensity", "reward", "correct", "abstained", "true_label", "context",
    "actions", "action_count", "eligible", "distribution", "holdout", "cost", "cost_weight", "costs", "outcome",
    "rounds_seen", "changes_seen", "changes", "label_count", "labels", "true_labels", "predicted_at", "feedback_at",
)  # fmt: skip
"""The columns that `wager export` writes, in any format. They are never features unless the user chooses them."""

_USED = frozenset(
    {
        "abstained", "correct", "true_label", "context", "actions", "eligible", "holdout", "cost", "costs",
        "predicted_at",
    }
)  # fmt: skip
"""The exported columns that an import reads, besides label, propensity and reward."""


class Chosen(NamedTuple):
    """The user's choice of columns; None and () mean the defaults."""

    label: str | None = None
    propensity: str | None = None
    reward: str | None = None
    features: Sequence[str] = ()
    prefix: str | None = None  # the features are the columns whose names begin with this
    text: Sequence[str] = ()  # features to read as text even if they look like numbers
    abstentions: bool = True  # whether rounds in which the model abstained are read
    costs: bool = True  # whether costs are read
    as_logged: bool = False  # whether the cost of the answer and λ are kept, which no import takes


class Columns(NamedTuple):
    """The columns of a table, by meaning; None if there is none."""

    label: str
    propensity: str | None  # None: `label` is the true label of each row
    reward: str | None
    others: frozenset[str]  # columns of the table that are in `EXPORTED`
    features: tuple[str, ...]
    text: frozenset[str]  # features that are text even if they look like numbers
    abstentions: bool  # whether rounds in which the model abstained are read
    costs: bool  # whether costs are read
    as_logged: bool  # whether the cost of the answer and λ are kept

    @property
    def used(self) -> list[str]:
        """The columns from which rounds are built."""
        plain = [self.label, self.propensity, self.reward, *self.features]
        used = _USED - {"context"} if self.features else _USED
        used = used | {"cost_weight"} if self.as_logged else used
        used = used if self.costs else used - {"cost", "costs"}
        return [name for name in dict.fromkeys((*plain, *sorted(self.others & used))) if name is not None]


def find_columns(header: Sequence[str], chosen: Chosen) -> Columns:
    """Assign meanings to the columns of a table. Raises `RowError` if a necessary column is missing."""
    check_names(header)
    named = [chosen.label, chosen.propensity, chosen.reward, *chosen.features, *chosen.text]
    for name in named:
        if name is not None and name not in header:
            raise RowError(no_column(name, header))
    propensity = chosen.propensity or ("propensity" if "propensity" in header else None)
    reward = chosen.reward or ("reward" if "reward" in header and propensity else None)
    usual = ["label"] if propensity else ["true_label", "label"]
    label = chosen.label or next((name for name in usual if name in header), None)
    if label is None:
        raise RowError(f"has no column 'label'; name it with --label-column. Its columns are {listed(header)}")
    others = frozenset(name for name in EXPORTED if name in header and name not in named)
    if propensity and not (reward or others & {"correct", "true_label"}):
        raise RowError("has propensities but no outcomes; name the column with --reward-column")
    features = _features(header, chosen, {label, propensity, reward, *others})
    flags = chosen.abstentions, chosen.costs, chosen.as_logged
    return Columns(label, propensity, reward, others, features, frozenset(chosen.text), *flags)


def round_of(columns: Columns, row: JsonMapping, shape: Shape | None) -> JsonObject | None:
    """Convert a row, whose missing values are None or "", to a round. Raises `RowError`.

    Return None for an abstention if abstentions are not read. This must not depend on the model's labels, which may
    change: an import continues after the number of rounds that it has read.
    """
    abstained = _flag(_other(columns, row, "abstained"), "abstained")
    if abstained and not columns.abstentions:
        return None
    found = _candidates(columns, row, shape)
    if columns.features or "context" not in columns.others:
        values = [_value(name, row[name], name in columns.text) for name in columns.features]
        found["context"] = context_of(shape, columns.features, values)
    else:
        found["context"] = checked_context(shape, given_context(row["context"]))
    label = checked_label(None if abstained else shape, _text(row[columns.label]), columns.label)
    if abstained and shape is not None and label not in shape.labels:
        raise RowError(f"{columns.label}: got {label!r}, an abstention; add the label, or use --without-abstentions")
    if columns.propensity is None:
        found["true_label"] = label
    else:
        found |= {"label": label, "propensity": checked_propensity(row[columns.propensity], columns.propensity)}
        if (at := _other(columns, row, "predicted_at")) is not None:
            found["at"] = checked_moment(at, "predicted_at")
        if _flag(_other(columns, row, "holdout"), "holdout"):
            found["holdout"] = True
        found |= _outcome(columns, row, shape)
    if columns.costs:
        found |= _costs(columns, row, shape, None if "actions" in found else found.get("label"))
    if columns.as_logged:
        found |= {
            name: checked_cost(value, name)
            for name in ("cost", "cost_weight")
            if (value := _other(columns, row, name)) is not None
        }
    check_choices(found, shape)
    return found


def given_context(value: object) -> Any:
    """Return the context in a cell, which may be JSON text; None if the cell is empty. Raises `RowError`."""
    if _is_missing(value):
        return None
    found = _json(value, "context")
    if not isinstance(found, dict | list):
        raise RowError(f"context: got {json.dumps(found)[:60]}; must be an object, or a list of numbers")
    return found


def check_names(header: Sequence[str]) -> None:
    """Check that the columns of a table have different names. Raises `RowError`."""
    name, count = next(iter(Counter(header).most_common(1)), ("", 0))
    if count > 1:
        raise RowError(f"the column {name!r} occurs twice")


def no_column(name: str, header: Sequence[str]) -> str:
    """Return the message for a column that a table does not have."""
    return f"has no column {name!r}; its columns are {listed(header)}"


def _features(header: Sequence[str], chosen: Chosen, taken: set[str | None]) -> tuple[str, ...]:
    if chosen.features:
        return tuple(chosen.features)
    if chosen.prefix is not None:
        found = tuple(name for name in header if name.startswith(chosen.prefix))
        if not found:
            raise RowError(f"has no column that begins with {chosen.prefix!r}; its columns are {listed(header)}")
        return found
    return () if "context" in taken else tuple(name for name in header if name not in taken)


def _candidates(columns: Columns, row: JsonMapping, shape: Shape | None) -> JsonObject:
    """Return the actions and the eligible labels of a row."""
    found: JsonObject = {}
    actions = _json(_other(columns, row, "actions"), "actions")
    if actions is not None:
        if not isinstance(actions, list) or not all(isinstance(each, dict) and "id" in each for each in actions):
            raise RowError("actions: must be a list of objects with id and features")
        kept = ("tag", "cost") if columns.costs else ("tag",)
        found["actions"] = [
            {"id": each["id"], "features": each.get("features") or {}}
            | {name: each[name] for name in kept if each.get(name) is not None}
            for each in actions
        ]
        for i, each in enumerate(found["actions"]):
            if not isinstance(each["features"], dict | list):
                raise RowError(f"actions.{i}.features: got {each['features']!r}; must be an object")
            check_features(each["features"], f"actions.{i}.features")
            if "cost" in each:
                each["cost"] = checked_cost(each["cost"], f"actions.{i}.cost")
        if len(actions) == 1 and columns.propensity and float(row[columns.propensity] or 1) < 1.0:
            raise RowError('actions: has only the chosen one; only a log with "log_actions": "all" can be imported')
    elif shape is not None and shape.has_actions:
        raise RowError("the model chooses among actions; the file needs a column actions")
    eligible = _json(_other(columns, row, "eligible"), "eligible")
    if eligible is not None:
        found["eligible"] = eligible
    return found


def _outcome(columns: Columns, row: JsonMapping, shape: Shape | None) -> JsonObject:
    if (truth := _other(columns, row, "true_label")) is not None:
        return {"true_label": checked_label(shape, _text(truth), "true_label")}
    if columns.reward is not None and not _is_missing(row[columns.reward]):
        return outcome_of(checked_number(row[columns.reward], columns.reward), columns.reward)
    if (correct := _other(columns, row, "correct")) is not None:
        return {"correct": _flag(correct, "correct")}
    raise RowError("has no outcome: the reward is missing")


def _costs(columns: Columns, row: JsonMapping, shape: Shape | None, answer: str | None) -> JsonObject:
    """Return the costs of labels in a row, with what the answer cost, unless the model says the same of it."""
    costs, paid = _json(_other(columns, row, "costs"), "costs"), _other(columns, row, "cost")
    if costs is not None and not isinstance(costs, dict):
        raise RowError(f"costs: got {json.dumps(costs)[:60]}; must be an object of labels and costs")
    if paid is not None and answer is not None and answer not in (costs or {}) and not columns.as_logged:
        same = shape is not None and shape.costs.get(answer) == checked_cost(paid, "cost")
        costs = costs if same else {**(costs or {}), answer: paid}
    if costs is None:
        return {}
    retired = () if shape is None else shape.retired
    found = dict[str, float]()
    for label, cost in costs.items():
        number = checked_cost(cost, f"costs.{label}")
        if checked_label(shape, label, "costs") not in retired:
            found[label] = number
    return {"costs": found}


def _other(columns: Columns, row: JsonMapping, name: str) -> Any:
    """Return a row's value in a column of `EXPORTED`; None if it is missing."""
    value = row[name] if name in columns.others else None
    return None if _is_missing(value) else value


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value)


def _json(value: object, field: str) -> Any:
    """Parse a string as JSON; return other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json_of(value)
    except RowError as error:
        raise RowError(f"{field}: {error}") from None


def _flag(value: object, field: str) -> bool:
    flags = {"true": True, "1": True, "false": False, "0": False}
    if value is None or isinstance(value, bool):
        return bool(value)
    if (text := str(value).lower()) in flags:
        return flags[text]
    raise RowError(f"{field}: got {value!r}; must be true or false")


def _text(value: object) -> Any:
    """Convert an integer label to text, because a typed column may number the classes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _value(name: str, value: object, is_text: bool) -> Any:
    """Return the value of a feature. Text that is a number becomes one, unless `is_text`."""
    if _is_missing(value):
        return None
    if is_text:
        return str(value)
    if isinstance(value, str):
        try:
            return checked_number(value, "")
        except RowError:
            return value
    return checked_number(value, name) if isinstance(value, float) else value
