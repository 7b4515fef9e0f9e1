"""Decodes a model's hash. If it is damaged, the error names the model."""

import json
import math
from collections.abc import Sequence
from typing import Any

from service.errors import StoreCorruptError
from service.store.stored_models import DIGEST_BYTES, ListedModel, ModelKey, StoredModel

_COUNTERS = ("rounds", "predictions", "correct")

_LATEST = 253_402_300_799.0
"""The last second of the year 9999, in seconds since the epoch."""


def corrupt(name: str, what: str) -> StoreCorruptError:
    """Return the error for a model that cannot be read."""
    return StoreCorruptError(f"model {name!r} cannot be read: {what}")


def read_model(name: str, fields: dict[bytes, bytes]) -> StoredModel | None:
    """Decode a model from all fields of its hash; return None if there are none.

    Raises:
        StoreCorruptError: if a required field is missing or invalid.
    """
    if not fields:
        return None
    key = ModelKey(name, _text(name, "incarnation", fields.get(b"incarnation")))
    definition = _text(name, "definition", fields.get(b"definition"))
    created_at = _moment(name, fields.get(b"created_at"))
    rounds, predictions, correct = (count(name, field, fields.get(field.encode())) for field in _COUNTERS)
    damaged = count(name, "damaged", fields.get(b"damaged", b"0"))
    warnings = _warnings(fields.get(b"warnings", b"[]"))
    partial, history = reward_sum(name, fields.get(b"partial")), _history(name, fields)
    counts = rounds, predictions, correct, damaged, warnings, partial
    digests, abstained = _digests(name, fields, len(history)), count(name, "abstained", fields.get(b"abstained", b"0"))
    return StoredModel(key, definition, created_at, *counts, history, digests, abstained)


def _history(name: str, fields: dict[bytes, bytes]) -> tuple[str, ...]:
    """Decode the changes of the model: one line of JSON each."""
    text, changes = fields.get(b"history", b""), count(name, "changes", fields.get(b"changes", b"0"))
    lines = text.split(b"\n")
    if len(lines) != changes + 1 or lines[-1]:
        raise corrupt(name, f"its history does not have {changes} changes")
    return tuple(_text(name, "history", line) for line in lines[:-1])


def _digests(name: str, fields: dict[bytes, bytes], changes: int) -> bytes:
    digests = fields.get(b"digests", b"")
    if len(digests) != DIGEST_BYTES * (changes + 1) or fields.get(b"digest") != digests[-DIGEST_BYTES:]:
        raise corrupt(name, f"it does not have the digests of {changes} changes")
    return digests


def _warnings(value: bytes) -> tuple[str, ...]:
    """Decode the learner's warnings; return none if they are damaged, because they are not essential."""
    try:
        found = json.loads(value)
    except ValueError:
        return ()
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def read_listed(name: str, reply: Sequence[Any]) -> ListedModel | None:
    """Decode a list entry from the reply of `list_model.lua`; return None if the model does not exist.

    Raises:
        StoreCorruptError: as in `read_model`.
    """
    exists, definition_bytes, (incarnation, created_at, *counters, summary, digest) = reply
    rounds, predictions, correct, partial, abstained, damaged, overview = counters
    if not exists:
        return None
    key = ModelKey(name, _text(name, "incarnation", incarnation))
    if not definition_bytes:
        raise corrupt(name, "its definition is missing")
    return ListedModel(
        key,
        summary,
        definition_bytes,
        _moment(name, created_at),
        count(name, "rounds", rounds),
        count(name, "predictions", predictions),
        count(name, "correct", correct),
        reward_sum(name, partial),
        digest or b"",
        count(name, "abstained", abstained or b"0"),
        count(name, "damaged", damaged or b"0"),
        overview or b"",
    )


def reward_sum(name: str, value: bytes | None) -> float:
    """Decode the sum of the rewards between 0 and 1; 0 if the field is missing.

    Raises:
        StoreCorruptError: if it is not a finite number of at least 0.
    """
    try:
        found = float(value or b"0")
    except ValueError:
        found = math.nan
    if not 0.0 <= found < math.inf:
        raise corrupt(name, "its partial rewards are not a number")
    return found


def count(name: str, field: str, value: bytes | None) -> int:
    """Decode a counter.

    Raises:
        StoreCorruptError: if it is missing, or not a whole number of up to 19 digits without leading zeros.
    """
    if value is None or not value.isdigit() or len(value) > 19 or (value[:1] == b"0" and value != b"0"):
        raise corrupt(name, f"its counter {field!r} is {'missing' if value is None else 'not a number'}")
    return int(value)


def _text(name: str, field: str, value: bytes | None) -> str:
    if not value:
        raise corrupt(name, f"its {field} is missing")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise corrupt(name, f"its {field} is not UTF-8") from None


def _moment(name: str, value: bytes | None) -> float:
    try:
        seconds = math.nan if value is None else float(value)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds <= _LATEST:
        raise corrupt(name, f"its created_at is {'missing' if value is None else 'not a time'}")
    return seconds
