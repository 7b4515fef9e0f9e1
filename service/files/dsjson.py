"""Reads Vowpal Wabbit's dsjson (`--dsjson`): one decision per line, with its actions, probabilities and cost."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from service.files.errors import FileError
from service.files.lines import read_lines
from service.files.rows import Row, RowError, Shape, checked_label, checked_number, checked_propensity, outcome_of

CostRule: TypeAlias = Literal["negate", "complement"]
"""How a cost becomes a reward: `negate` is -cost, and `complement` 1 - cost."""


class DsjsonReader:
    """Reads a file in dsjson. Lines without a cost, and those to skip (`_skipLearn`), are counted and left out.

    Args:
        path: the file, compressed or not.
        costs: how a cost becomes a reward.
        action_id: the feature of an action that is its id, such as `item.id`; by default `_tag`, or its number.
    """

    def __init__(self, path: Path, costs: CostRule = "negate", action_id: str | None = None) -> None:
        self._path, self._costs, self._action_id = path, costs, action_id
        self.skipped = 0

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of the file.

        Args:
            shape: of the model; None yields actions with features.

        Raises:
            FileError: if a line is damaged, or does not fit the model.
        """
        self.skipped = 0
        for number, text in read_lines(self._path):
            place = f"line {number}"
            try:
                found = self._round(text, shape)
            except RowError as error:
                raise FileError(self._path, place, str(error)) from None
            if found is None:
                self.skipped += 1
            else:
                yield Row(place, found)

    def _round(self, text: str, shape: Shape | None) -> dict[str, Any] | None:
        line = _parsed(text)
        if "_label_cost" not in line or line.get("_skipLearn") is True:
            if not {"c", "EventId", "_skipLearn"} & set(line):
                raise RowError("is not dsjson: it has neither _label_cost nor c")
            return None
        context, order, chosen = line.get("c"), line.get("a"), _chosen(line)
        if not isinstance(context, dict):
            raise RowError(f"c: got {type(context).__name__}; must be an object")
        found = {"propensity": _propensity(line), **self._outcome(line)}
        if (at := line.get("Timestamp")) is not None:
            found["at"] = _moment(at)
        shared = {name: value for name, value in context.items() if not name.startswith("_")}
        multi = context.get("_multi")
        actions = _actions(multi, order)
        if not 1 <= chosen <= len(actions):
            raise RowError(f"_label_Action: got {chosen}; the line has {len(actions)} actions")
        ids = [self._id(action, number) for number, action in enumerate(actions, 1)]
        if shape is not None and not shape.has_actions:
            return found | _fixed(shape, ids, chosen) | _context(shape, converted(shared))
        listed = [{"id": id_, "features": _features(action)} for id_, action in zip(ids, actions, strict=True)]
        if len(set(ids)) < len(ids):
            raise RowError("c._multi: two actions have the same id; choose another one with --action-id")
        return found | {"context": converted(shared), "actions": listed, "label": ids[chosen - 1]}

    def _outcome(self, line: Mapping[str, Any]) -> dict[str, Any]:
        cost = checked_number(line["_label_cost"], "_label_cost")
        if self._costs == "complement":
            return outcome_of(1.0 - cost, "_label_cost")
        try:
            return outcome_of(-cost + 0.0, "_label_cost")
        except RowError as error:
            raise RowError(f"{error}; for costs from 0 to 1, use --costs complement") from None

    def _id(self, action: Mapping[str, Any], number: int) -> str:
        if self._action_id is None:
            return str(action.get("_tag") or number)
        value: Any = action
        for name in self._action_id.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            raise RowError(f"c._multi: action {number} has no {self._action_id}")
        return str(value)


def _parsed(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"is not JSON: {error}") from None
    if not isinstance(line, dict):
        raise RowError(f"is not dsjson: it is a JSON {type(line).__name__}, not an object")
    return line


def _chosen(line: Mapping[str, Any]) -> int:
    """Return the number of the chosen action, from 1."""
    order = line.get("a")
    chosen = line.get("_label_Action", order[0] if isinstance(order, list) and order else None)
    if type(chosen) is not int:
        raise RowError(f"_label_Action: got {chosen!r}; must be the number of an action, from 1")
    return chosen


def _propensity(line: Mapping[str, Any]) -> float:
    listed = line.get("p")
    given = line.get("_label_probability", listed[0] if isinstance(listed, list) and listed else None)
    return checked_propensity(given, "_label_probability")


def _moment(at: Any) -> str:
    """Return a timestamp with a time zone and at most microseconds: VW writes seven digits, and a Z or nothing."""
    if not isinstance(at, str):
        raise RowError(f"Timestamp: got {at!r}; must be a text")
    main, _, fraction = at.removesuffix("Z").partition(".")
    return f"{main}.{fraction[:6]}Z" if fraction.isdigit() else main + "Z" if not fraction else at


def _actions(multi: Any, order: Any) -> list[dict[str, Any]]:
    if multi is None and isinstance(order, list):
        return [{} for _ in order]
    if not isinstance(multi, list) or not multi or not all(isinstance(each, dict) for each in multi):
        raise RowError("c._multi: must be a list of objects, one for each action")
    return multi


def _features(action: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = converted({name: value for name, value in action.items() if not name.startswith("_")})
    return found


def _fixed(shape: Shape, ids: Sequence[str], chosen: int) -> dict[str, Any]:
    """Return the label of a model with labels: by the id of the action, or by its number."""
    label = ids[chosen - 1]
    if label not in shape.labels and len(ids) == len(shape.labels):
        label = list(shape.labels)[chosen - 1]
    return {"label": checked_label(shape, label, "the chosen action")}


def _context(shape: Shape, context: Any) -> dict[str, Any]:
    if shape.kind == "named":
        return {"context": context}
    if shape.kind == "none":
        return {}
    raise RowError(f"the model has {shape.kind} features; dsjson needs a model with named ones")


def converted(value: Any) -> Any:
    """Return features of VW's JSON as named features: lists of numbers and objects become objects."""
    if isinstance(value, dict):
        return {name: converted(each) for name, each in value.items() if each is not None and not name.startswith("_")}
    if not isinstance(value, list) or all(isinstance(each, str) for each in value):
        return value
    if all(isinstance(each, dict) for each in value):
        joined: dict[str, Any] = {}
        for each in value:
            joined.update(each)
        if len(joined) == sum(map(len, value)):
            return converted(joined)
    return {str(i): converted(each) for i, each in enumerate(value) if each is not None}
