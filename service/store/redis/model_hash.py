"""A model's hash, as it is read: what is damaged there is said of that model, and of no other."""

import math
from collections.abc import Sequence
from typing import Any

from service.errors import StoreCorruptError
from service.store.stored_models import ListedModel, ModelKey, StoredModel

NAME_ERRORS = "surrogateescape"
"""How names that are no text are read, so that a list goes on behind them."""

_COUNTERS = ("rounds", "predictions", "correct")

_LATEST = 253_402_300_799.0
"""The last second of the year 9999."""


def corrupt(name: str, what: str) -> StoreCorruptError:
    """Return the error that says what cannot be read of a model."""
    return StoreCorruptError(f"model {name!r} cannot be read: {what}")


def read_model(name: str, fields: dict[bytes, bytes]) -> StoredModel | None:
    """Return a model from all fields of its hash; None where there are none.

    Raises:
        StoreCorruptError: if one that is needed is missing, or is not what it should be.
    """
    if not fields:
        return None
    key = ModelKey(name, _text(name, "incarnation", fields.get(b"incarnation")))
    definition = _text(name, "definition", fields.get(b"definition"))
    created_at = _moment(name, fields.get(b"created_at"))
    rounds, predictions, correct = (count(name, field, fields.get(field.encode())) for field in _COUNTERS)
    damaged = count(name, "damaged", fields.get(b"damaged", b"0"))
    return StoredModel(key, definition, created_at, rounds, predictions, correct, damaged)


def read_listed(name: str, reply: Sequence[Any]) -> ListedModel | None:
    """Return a model from what `list_model.lua` brings; None where there is none.

    Raises:
        StoreCorruptError: as `read_model`.
    """
    there, definition_bytes, (incarnation, created_at, rounds, predictions, correct, summary) = reply
    if not there:
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
    )


def count(name: str, field: str, value: bytes | None) -> int:
    """Return a counter.

    Raises:
        StoreCorruptError: if it is missing, or no number from 0 on.
    """
    if value is None or not value.isdigit() or len(value) > 19 or (value[:1] == b"0" and value != b"0"):
        raise corrupt(name, f"its {field} {'are missing' if value is None else 'are no number'}")
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
        raise corrupt(name, f"its created_at is {'missing' if value is None else 'no moment'}")
    return seconds
