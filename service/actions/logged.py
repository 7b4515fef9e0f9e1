"""Logged actions: the JSON in the part `actions` of a prediction's record.

The JSON is `{"n": number of candidates, "chosen": position in "actions", "actions": [[id, features]]}`. By default,
"actions" has only the chosen action; with `log_actions: all`, it has each candidate as `[id, features, probability]`.
An action with a tag is `[id, features, probability or null, tag]`.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from service.actions.definition import GivenAction
from service.errors import StoreCorruptError


class Logged(NamedTuple):
    """One action in the log."""

    id: str
    features: Any  # as the client sent them
    probability: float | None  # None if it is unknown, or if the log has only the chosen action
    tag: str | None


class LoggedActions(NamedTuple):
    """The actions of a prediction in the log."""

    chosen: str  # the id of the chosen action
    n: int  # the number of candidates
    actions: list[Logged]  # only the chosen action, or all candidates


def as_sent(given: object) -> Any:
    """Return a parsed context, or the features of an action, as the JSON value that the client sent; {} for None."""
    return given.model_dump() if isinstance(given, BaseModel) else {} if given is None else given


def encode(actions: Sequence[GivenAction], chosen: int, distribution: Sequence[float | None] | None) -> bytes:
    """Encode the chosen action; with a `distribution`, in which None is an unknown probability, encode all actions."""
    if distribution is None:
        kept = [_kept(actions[chosen])]
    else:
        kept = [_kept(each, p) for each, p in zip(actions, distribution, strict=True)]
    return to_json({"n": len(actions), "chosen": chosen if distribution is not None else 0, "actions": kept})


def _kept(action: GivenAction, *probability: float | None) -> list[Any]:
    stored = [action.id, as_sent(action.features), *probability]
    return stored if action.tag is None else [*stored[:2], probability[0] if probability else None, action.tag]


def to_json(value: object) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode(part: bytes) -> LoggedActions:
    """Decode the actions of a round; raise `StoreCorruptError` if they are invalid."""
    try:
        content = json.loads(part)
        found = [Logged(str(id_), features, *(*rest, None, None)[:2]) for id_, features, *rest in content["actions"]]
        return LoggedActions(found[content["chosen"]].id, int(content["n"]), found)
    except (ValueError, LookupError, TypeError) as error:
        raise StoreCorruptError(f"the actions of a round cannot be read: {error}") from error
