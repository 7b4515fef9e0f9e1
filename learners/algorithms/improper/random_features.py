"""Random sets of features that depend on a seed alone, on every machine and in every version."""

import hashlib

import numpy as np

from learners.base import IntArray


def random_features(seed: int, rows: int, n: int, n_features: int) -> IntArray:
    """Return `rows` random sets of n distinct features as indices (rows, n), the same for the same arguments.

    Each row is drawn by Floyd's algorithm with numbers from a hash. A longer table begins with the shorter one.
    """
    table = np.empty((rows, n), dtype=np.int64)
    for i in range(rows):
        chosen: list[int] = []
        for last in range(n_features - n, n_features):
            drawn = _hashed(f"{seed}/{i}/{last}") % (last + 1)
            chosen.append(last if drawn in chosen else drawn)
        table[i] = chosen
    table.flags.writeable = False
    return table


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
