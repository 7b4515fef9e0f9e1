"""Damage records: the unreadable rounds and snapshots of a model."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

_SNAPSHOT = b"snapshot"
_FIELD = re.compile(rb"(snapshot|\d{1,18})-(\d{1,18})")


class DamagedSnapshotError(Exception):
    """A snapshot is damaged. Requests fail only if the log no longer has all of its rounds.

    Attributes:
        round_count: number of rounds in the snapshot, according to its fields; 0 if unreadable.
    """

    def __init__(self, detail: str, round_count: int = 0) -> None:
        super().__init__(detail)
        self.round_count = round_count


class Damage(NamedTuple):
    """Unreadable rounds of the log, or an unreadable snapshot."""

    first: int  # round; 1 for a snapshot
    last: int  # round; for a snapshot, the last that it includes
    entry: int  # last round of the entry that contains the damage
    reason: str
    snapshot: bool = False
    found_at: float | None = None  # seconds since the epoch on the store's clock; None until recorded


class DamageRecord(NamedTuple):
    """The recorded damage of a model. Each new range of rounds changes the version."""

    version: int
    found: list[Damage]  # sorted by round


def decode_damage(fields: Mapping[bytes, bytes]) -> list[Damage]:
    """Decode a model's damage hash, sorted by round. Skip invalid fields, as the hash may be damaged as well."""
    found = (_damage(name, value) for name, value in fields.items())
    return sorted((each for each in found if each is not None), key=lambda each: (each.first, each.last))


def _damage(name: bytes, value: bytes) -> Damage | None:
    if (match := _FIELD.fullmatch(name)) is None:
        return None
    begin, end = match.groups()
    try:
        decoded = json.loads(value)
        entry, reason, at = int(decoded["entry"]), str(decoded["reason"]), float(decoded["at"])
    except (ValueError, TypeError, KeyError):
        entry, reason, at = 0, "not known", 0.0
    if begin == _SNAPSHOT:
        return Damage(1, int(end), entry, reason, True, at)
    return Damage(int(begin), int(end), entry, reason, False, at)
