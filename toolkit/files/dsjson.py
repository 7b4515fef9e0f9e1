"""Reads and writes Vowpal Wabbit's dsjson: one decision per line, with its actions, probabilities and cost."""

import json
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any, NamedTuple

from service.json_values import JsonMapping, JsonObject
from toolkit.files.lines import FileError
from toolkit.files.rows import (
    RowError,
    Shape,
    check_features,
    checked_label,
    checked_moment,
    checked_number,
    checked_propensity,
    json_of,
    outcome_of,
)

_TOLERANCE, _SUM_TOLERANCE = 1e-5, 1e-3
"""Maximum relative difference between the two fields with the chosen action's probability, and maximum difference
between 1 and the sum of all probabilities. VW writes them in single precision, some of its clients with 6 digits."""


class Dsjson(NamedTuple):
    """Converts lines of dsjson.

    Attributes:
        costs: `negate` for the reward -cost, or `complement` for the reward 1 - cost.
        action_id: the feature that is an action's id, such as `item.id`; None for its `_tag` or else its number.
    """

    costs: str = "negate"
    action_id: str | None = None

    def round_of(self, text: str, shape: Shape | None) -> JsonObject | None:
        """Convert a line to a round; return None if it has no cost, or has `_skipLearn`. Raises `RowError`."""
        line = json_of(text)
        if not isinstance(line, dict):
            raise RowError(f"is not dsjson: it is a JSON {type(line).__name__}, not an object")
        if "_label_cost" not in line or line.get("_skipLearn") is True:
            if not {"c", "EventId", "_skipLearn"} & set(line):
                raise RowError("is not dsjson: it has neither _label_cost nor c")
            return None
        context = line.get("c")
        chosen = line.get("_label_Action", _first(line.get("a")))  # the number of the chosen action, from 1
        if type(chosen) is not int:
            raise RowError(f"_label_Action: got {chosen!r}; must be the number of an action, from 1")
        if not isinstance(context, dict):
            raise RowError(f"c: got {type(context).__name__}; must be an object")
        propensity = checked_propensity(line.get("_label_probability", _first(line.get("p"))), "_label_probability")
        found = {"propensity": propensity, **self._outcome(line)}
        if (at := line.get("Timestamp")) is not None:
            found["at"] = checked_moment(at, "Timestamp", UTC)
        actions = _actions(context.get("_multi"), line.get("a"))
        _check_order(line, chosen, propensity, len(actions))
        ids = [self._id(action, number) for number, action in enumerate(actions, 1)]
        if shape is not None and not shape.has_actions:
            return found | _fixed(shape, ids, chosen, context)
        if len(set(ids)) < len(ids):
            raise RowError("c._multi: two actions have the same id; choose another one with --action-id")
        found |= {"context": _features(context, "c"), "label": ids[chosen - 1]}
        features = [_features(action, f"c._multi.{i}") for i, action in enumerate(actions)]
        return found | {"actions": [{"id": id_, "features": each} for id_, each in zip(ids, features, strict=True)]}

    def _outcome(self, line: JsonMapping) -> JsonObject:
        cost = checked_number(line["_label_cost"], "_label_cost")
        if self.costs == "complement":
            return outcome_of(1.0 - cost, "_label_cost")
        try:
            return outcome_of(-cost + 0.0, "_label_cost")  # + 0.0 avoids -0.0
        except RowError as error:
            raise RowError(f"{error}; for costs from 0 to 1, use --costs complement") from None

    def _id(self, action: JsonMapping, number: int) -> str:
        if self.action_id is None:
            return str(action.get("_tag") or number)
        value: Any = action
        for name in self.action_id.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            raise RowError(f"c._multi: action {number} has no {self.action_id}")
        return str(value)


def _first(values: object) -> Any:
    return values[0] if isinstance(values, list) and values else None


def _actions(multi: object, order: object) -> list[JsonObject]:
    if multi is None and isinstance(order, list):
        return [{} for _ in order]
    if not isinstance(multi, list) or not multi or not all(isinstance(each, dict) for each in multi):
        raise RowError("c._multi: must be a list of objects, one for each action")
    return multi


def _check_order(line: JsonMapping, chosen: int, propensity: float, n: int) -> None:
    """Check VW's redundant fields: `a` lists the actions and `p` their probabilities, the chosen one first."""
    order, p = line.get("a"), line.get("p")
    is_order = isinstance(order, list) and all(type(each) is int for each in order)
    if order is not None and not (is_order and sorted(order) == list(range(1, n + 1))):
        raise RowError(f"a: got {_cut(order)}; must be the numbers from 1 to {n}, the chosen one first")
    if not 1 <= chosen <= n:
        raise RowError(f"_label_Action: got {chosen}; the line has {n} actions")
    if order is not None and order[0] != chosen:
        raise RowError(f"_label_Action: got {chosen}; a begins with {order[0]}")
    if p is None:
        return
    numbers = list(p) if isinstance(p, list) else []
    for i, each in enumerate(numbers):
        if type(each) is not float or not 0.0 <= each <= 1.0:
            numbers[i] = checked_number(each, f"p.{i}")
    if len(numbers) != n or min(numbers) < 0.0 or abs(sum(numbers) - 1.0) > _SUM_TOLERANCE:
        raise RowError(f"p: got {_cut(p)}; must be {n} probabilities that sum to 1, that of the chosen action first")
    if order is not None and abs(numbers[0] - propensity) > _TOLERANCE * propensity:
        raise RowError(f"_label_probability: got {propensity}; p begins with {p[0]}")


def _cut(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fixed(shape: Shape, ids: Sequence[str], chosen: int, context: JsonObject) -> JsonObject:
    """Return the context and the label for a model with labels.

    The label is the id of the chosen action. If the model has no such label, but as many labels as the line has
    actions, it is the label with the number of the action.
    """
    label = ids[chosen - 1]
    if label not in shape.labels and len(ids) == len(shape.labels):
        label = list(shape.labels)[chosen - 1]
    found: JsonObject = {"label": checked_label(shape, label, "the chosen action")}
    if shape.kind not in ("named", "none"):
        raise RowError(f"the model has {shape.kind} features; dsjson needs a model with named ones")
    return found | ({"context": _features(context, "c")} if shape.kind == "named" else {})


def _features(value: JsonObject, field: str) -> JsonObject:
    features: JsonObject = converted(value)
    check_features(features, field, may_be_sparse=False)
    return features


def converted(value: object) -> Any:
    """Convert VW's features to named ones.

    Nulls, and names that begin with `_`, are left out. Lists become objects, except lists of strings.
    """
    if isinstance(value, dict):
        return {name: converted(each) for name, each in value.items() if each is not None and not name.startswith("_")}
    if not isinstance(value, list) or all(isinstance(each, str) for each in value):
        return value
    if all(isinstance(each, dict) for each in value):
        joined = {name: inner for each in value for name, inner in each.items()}
        if len(joined) == sum(map(len, value)):
            return converted(joined)
    return {str(i): converted(each) for i, each in enumerate(value) if each is not None}


def dsjson_line(
    labels: Sequence[str], line: JsonMapping, distribution: Sequence[float] | None, path: Path
) -> JsonObject:
    """Convert a line of a log to a dsjson object.

    `labels` are the model's labels at the prediction. Without a distribution, the probability that remains is divided
    equally among the labels or actions that were not chosen. Raises `FileError` if dsjson cannot express the line.
    """
    if line["label"] is None:
        raise FileError(path, f"round {line['round']}", "has several labels; use ndjson")
    if any(map(_has_vector, [line["context"], *(each["features"] for each in line.get("actions") or ())])):
        raise FileError(path, f"round {line['round']}", "has a vector, which dsjson cannot express; use ndjson")
    multi, ids, p = _listed(labels, line, distribution, path)
    chosen = ids.index(line["label"])
    order = [chosen, *(i for i in range(len(ids)) if i != chosen)]
    if p is None:
        p = [(1.0 - line["propensity"]) / max(1, len(ids) - 1)] * len(ids)
    p[chosen] = line["propensity"]
    cost = 0.0 - line["reward"]
    return {
        "_label_cost": cost,
        "_label_probability": line["propensity"],
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
        "Version": "1",
        "EventId": line["prediction_id"],
        "Timestamp": line["predicted_at"],
        "a": [i + 1 for i in order],
        "c": {**_shared(line["context"]), "_multi": multi},
        "p": [p[i] for i in order],
        "_original_label_cost": cost,
        "_round": line["round"],
    }


def _listed(
    labels: Sequence[str], line: JsonMapping, distribution: Sequence[float] | None, path: Path
) -> tuple[list[JsonObject], list[str], list[float] | None]:
    """Return the objects for `_multi`, the ids, and the probabilities if known, of all actions or eligible labels."""
    actions = line.get("actions")
    if actions is not None:
        if len(actions) < (line["action_count"] or 0):
            detail = 'has only the chosen action; dsjson needs a model with "log_actions": "all"'
            raise FileError(path, f"round {line['round']}", detail)
        listed = [{"_tag": each["id"], **_shared(each["features"])} for each in actions]
        return listed, [each["id"] for each in actions], None if distribution is None else list(distribution)
    ids = line["eligible"] or list(labels)
    numbers = {label: k for k, label in enumerate(labels)}
    multi = [{"_tag": label, "label": {"label": label}} for label in ids]
    return multi, ids, None if distribution is None else [distribution[numbers[label]] for label in ids]


def _shared(context: object) -> JsonObject:
    """Convert features for VW: a list of numbers, or sparse features, become one namespace."""
    if isinstance(context, list):
        return {"x": {str(i): value for i, value in enumerate(context)}}
    if isinstance(context, dict) and set(context) == {"indices", "values"}:
        return {"x": {str(i): value for i, value in zip(context["indices"], context["values"], strict=True)}}
    found: JsonObject = _members(context or {})
    return found


def _has_vector(features: object) -> bool:
    """Return whether named features have a list of numbers."""
    if not isinstance(features, dict) or set(features) == {"indices", "values"}:
        return False
    lists = [each for each in features.values() if isinstance(each, list) and each and not isinstance(each[0], str)]
    return bool(lists) or any(map(_has_vector, features.values()))


def _members(value: object) -> Any:
    """Convert the parts of a value that VW would read differently: lists of strings, and names that begin with `_`."""
    if isinstance(value, dict):
        return {
            f"{name.lstrip('_')}_" if name.startswith("_") else name: _members(each) for name, each in value.items()
        }
    return dict.fromkeys(value, 1) if isinstance(value, list) else value
