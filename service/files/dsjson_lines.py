"""Writes rounds in Vowpal Wabbit's dsjson. A cost is a negative reward, and actions are counted from 1."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from service.files.errors import FileError


def dsjson_line(
    labels: Sequence[str], line: Mapping[str, Any], distribution: Sequence[float] | None, path: Path
) -> dict[str, Any]:
    """Return a round as an object of dsjson.

    Args:
        labels: those that the model had for the prediction; any for a model with actions.
        line: a line of its log.
        distribution: the probabilities of its labels or actions; None spreads what the chosen one leaves evenly.
        path: the file, for errors.

    Raises:
        FileError: if the log does not have what the format needs.
    """
    if line["label"] is None:
        raise FileError(path, f"round {line['round']}", "has several labels; use ndjson")
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
    labels: Sequence[str], line: Mapping[str, Any], distribution: Sequence[float] | None, path: Path
) -> tuple[list[dict[str, Any]], list[str], list[float] | None]:
    """Return the objects, the ids and the probabilities of all actions, or of the eligible labels."""
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


def _shared(context: Any) -> dict[str, Any]:
    """Return features as VW reads them: a list of numbers, and sparse numbers, as one namespace."""
    if isinstance(context, list):
        return {"x": {str(i): value for i, value in enumerate(context)}}
    if isinstance(context, dict) and set(context) == {"indices", "values"}:
        return {"x": {str(i): value for i, value in zip(context["indices"], context["values"], strict=True)}}
    found: dict[str, Any] = _members(context or {})
    return found


def _members(value: Any) -> Any:
    """Return a value without what VW gives another meaning: texts in lists, and names that begin with `_`."""
    if isinstance(value, dict):
        return {
            f"{name.lstrip('_')}_" if name.startswith("_") else name: _members(each) for name, each in value.items()
        }
    return dict.fromkeys(value, 1) if isinstance(value, list) else value
