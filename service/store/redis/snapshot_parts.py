"""Snapshots as the store has them: in parts, which are put where readers do not look until all are there."""

import hashlib
from collections.abc import Sequence

import numpy as np

from service.store.base import Snapshot


def digest(snapshot: Snapshot) -> str:
    """Return a name for the parts of a snapshot, the same for the same bytes of the same rounds."""
    return hashlib.blake2b(snapshot.state, digest_size=16, person=snapshot.round_count.to_bytes(8)).hexdigest()


def joined(parts: Sequence[bytes]) -> memoryview:
    """Return parts as one. `bytes.join` would hold the interpreter's lock for all of them, many megabytes."""
    whole = np.empty(sum(map(len, parts)), np.uint8)
    start = 0
    for part in parts:
        whole[start : start + len(part)] = np.frombuffer(part, np.uint8)
        start += len(part)
    return whole.data
