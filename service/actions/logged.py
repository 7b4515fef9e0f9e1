"""Logged actions: the JSON in the part `actions` of a prediction's record.

The JSON is `{"n": number of candidates, "chosen": position in "actions", "actions": [[id, features]]}`. By default,
"actions" has only the chosen action; with `log_actions: all`, it has each candidate as `[id, features, probability]`.
An action with a tag or a cost is `[id, features, probability or null, tag or null, cost or null]`. The JSON
replaces each vector by 0. The stored vector of the round contains the chosen action's numbers; the numbers of the other
actions follow the JSON after a newline.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from service.actions.definition import GivenAction
from service.contexts.kind import ContextKind, Take
from service.contexts.vectors import from_bytes
from service.errors import StoreCorruptError


class Logged(NamedTuple):
    """One action in the log."""

    id: str
    features: Any  # as the client sent them
    probability: float | None  # None if it is unknown, or if the log has only the chosen action
    tag: str | None
    cost: float | None


class LoggedActions(NamedTuple):
    """The actions of a prediction in the log."""

    chosen: str  # the id of the chosen action
    n: int  # the number of candidates
    actions: list[Logged]  # only the chosen action, or all candidates


def encode(
    kind: ContextKind[Any], actions: Sequence[GivenAction], chosen: int, distribution: Sequence[float | None] | None
) -> bytes:
    """Encode the chosen action; with a `distribution`, in which None is an unknown probability, encode all actions."""
    n, shares = len(actions), list[tuple[float | None, ...]]()
    if distribution is None:
        actions, chosen, shares = [actions[chosen]], 0, [()]
    else:
        shares = [(p,) for p in distribution]
    split = [kind.split(action.features) for action in actions]
    kept = [_kept(*each) for each in zip(actions, (stored for stored, _ in split), shares, strict=True)]
    numbers = [part for i, (_, part) in enumerate(split) if i != chosen]
    return with_numbers({"n": n, "chosen": chosen, "actions": kept}, numbers)


def _kept(action: GivenAction, stored: Any, probability: Sequence[float | None]) -> list[Any]:
    if (action.tag, action.cost) == (None, None):
        return [action.id, stored, *probability]
    return [action.id, stored, *(probability or [None]), action.tag, action.cost]


def with_numbers(value: object, numbers: Sequence[bytes]) -> bytes:
    """Return compact JSON and, if there are numbers of vectors, a newline and these."""
    return b"\n".join([to_json(value), *filter(None, [b"".join(numbers)])])


def to_json(value: object) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode(kind: ContextKind[Any], part: bytes, take: Take) -> LoggedActions:
    """Decode the actions of a round. `take` returns the vectors of the chosen one.

    Raises `StoreCorruptError` if they are invalid.
    """
    try:
        content, numbers = parsed(part)
        others, found = from_bytes(numbers), list[Logged]()
        for i, (id_, features, *rest) in enumerate(content["actions"]):
            whole = kind.whole(features, take if i == content["chosen"] else others)
            found.append(Logged(str(id_), whole, *(*rest, None, None, None)[:3]))
        return LoggedActions(found[content["chosen"]].id, int(content["n"]), found)
    except (ValueError, LookupError, TypeError) as error:
        raise StoreCorruptError(f"the actions of a round cannot be read: {error}") from error


def parsed(part: bytes) -> tuple[Any, bytes]:
    """Return the JSON value and the numbers in what `with_numbers` returned."""
    text, _, numbers = part.partition(b"\n")
    return json.loads(text), numbers
