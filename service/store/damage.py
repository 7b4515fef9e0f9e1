"""What cannot be read of a model, as the store keeps it."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

_SNAPSHOT = b"snapshot"
_FIELD = re.compile(rb"(snapshot|\d{1,18})-(\d{1,18})")


class DamagedSnapshotError(Exception):
    """A snapshot is damaged. No request fails for it while the log has all that it has seen.

    Attributes:
        round_count: the rounds that it has seen, by its own account; 0 where that cannot be read.
    """

    def __init__(self, detail: str, round_count: int = 0) -> None:
        super().__init__(detail)
        self.round_count = round_count


class Damage(NamedTuple):
    """Rounds of the log, or a snapshot, that cannot be read."""

    first: int  # round; 1 of a snapshot
    last: int  # round; the last that a snapshot has seen
    entry: int  # the last round of the entry that they are in
    reason: str
    snapshot: bool = False
    found_at: float | None = None  # seconds since the epoch, by the store's clock; None before it is recorded


class DamageRecord(NamedTuple):
    """What is on record as damaged. The version changes with each new range of rounds."""

    version: int
    found: list[Damage]  # in the order of rounds


def decode_damage(fields: Mapping[bytes, bytes]) -> list[Damage]:
    """What the hash of a model's damage says, in the order of rounds. It may be damaged as well."""
    found = (_damage(name, value) for name, value in fields.items())
    return sorted((each for each in found if each is not None), key=lambda each: (each.first, each.last))


def _damage(name: bytes, value: bytes) -> Damage | None:
    if (match := _FIELD.fullmatch(name)) is None:
        return None
    begin, end = match.groups()
    try:
        said = json.loads(value)
        entry, reason, at = int(said["entry"]), str(said["reason"]), float(said["at"])
    except (ValueError, TypeError, KeyError):
        entry, reason, at = 0, "not known", 0.0
    if begin == _SNAPSHOT:
        return Damage(1, int(end), entry, reason, True, at)
    return Damage(int(begin), int(end), entry, reason, False, at)
