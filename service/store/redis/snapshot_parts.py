"""Checks and decodes stored snapshots.

The state of a new snapshot is written in parts to a temporary key, which is then renamed. One check, the first 16
hexadecimal digits of a SHA-1, covers the state, the statistics, the version, the numbers of rounds and changes, and the
digest. Because it covers all parts together, it also detects missing parts and parts of another snapshot.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from service.errors import NewerVersionError
from service.store.values import DamagedSnapshotError, Snapshot

SNAPSHOT_VERSION = 1
"""Version of the format of snapshots. Newer ones are refused."""

_FIELDS = {b"version", b"rounds", b"changes", b"tally", b"at", b"check", b"damaged", b"digest"}
"""The known fields, apart from the parts of the state, whose names are numbers."""

_MOST_DIGITS = 15  # the store's scripts count in float64


def check_of(snapshot: Snapshot, version: int) -> str:
    """Return the check of a snapshot, which also names the temporary key of its parts."""
    seen = snapshot.round_count, snapshot.change_count, snapshot.digest
    numbers = (version, *seen, len(snapshot.statistics), len(snapshot.state))
    check = hashlib.sha1(repr(numbers).encode() + snapshot.statistics, usedforsecurity=False)
    check.update(snapshot.state)
    return check.hexdigest()[:16]


async def read_snapshot(fields: Mapping[bytes, bytes]) -> Snapshot:
    """Decode a snapshot from its hash. If it has several parts, join and check them in a thread.

    Raises:
        NewerVersionError: if a newer version wrote it.
        DamagedSnapshotError: if a number is invalid or the check does not match.
    """
    several = sum(name.isdigit() for name in fields) > 1
    return await asyncio.to_thread(_checked, fields) if several else _checked(fields)


def _checked(fields: Mapping[bytes, bytes]) -> Snapshot:
    version = _number(fields, b"version")
    unknown = sorted(name for name in fields if not name.isdigit() and name not in _FIELDS)
    if version > SNAPSHOT_VERSION or unknown:
        what = f"field {unknown[0]!r}" if unknown else f"version {version}"
        raise NewerVersionError(f"the snapshot has {what}, which this version does not support")
    rounds, changes = _number(fields, b"rounds"), _number(fields, b"changes")
    parts = [fields[name] for name in sorted(fields) if name.isdigit()]
    state = parts[0] if len(parts) == 1 else _joined(parts)
    tally, digest = fields.get(b"tally", b""), fields.get(b"digest", b"")
    snapshot = Snapshot(rounds, state, statistics=tally, change_count=changes, digest=digest)
    if fields.get(b"check") != check_of(snapshot, version).encode():
        raise DamagedSnapshotError("its check is wrong", rounds)
    return snapshot


def _number(fields: Mapping[bytes, bytes], name: bytes) -> int:
    text = fields.get(name, b"")
    if text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    rounds = 0 if name == b"rounds" else _number(fields, b"rounds")
    raise DamagedSnapshotError(f"its {name.decode()} is not a number", rounds)


def _joined(parts: Sequence[bytes]) -> memoryview:
    """Join the parts. `bytes.join` would hold the interpreter's lock while it copies many megabytes."""
    whole = np.empty(sum(map(len, parts)), np.uint8)
    start = 0
    for part in parts:
        whole[start : start + len(part)] = np.frombuffer(part, np.uint8)
        start += len(part)
    return whole.data
