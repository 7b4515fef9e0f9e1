"""Rows of state for the features that occurred: a hash table from features to rows.

A learner with hashed features has a number of possible features far above the number that occurs. It keeps one row of
weights for each feature that occurred, in the order of first occurrence. The table is open addressing with linear
probing. A feature whose row has its number needs no probing, as in dense contexts without zeros.
"""

from typing import NamedTuple

import numpy as np

from learners.base import Contexts, IntArray
from learners.kernels import compiled, row

SMALLEST_VALUE = 1e-100
"""A feature value below this counts as zero: its square would underflow."""

_MOST_PROBES = 128
"""Slots to read for one feature. At most half of the slots are in use, so features that are not chosen to collide need
fewer. A client that chooses them only loses its own model's features."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: Knuth's multiplicative hashing
_HALF_WORD = np.uint64(32)

USED, IGNORED = range(2)
"""The entries of `FeatureRows.counts`."""

READ, ADD, ADD_OR_IGNORE = range(3)
"""Modes of `to_rows`."""


class FeatureRows(NamedTuple):
    """The table, as views of a state's arrays. Corrupt arrays give wrong rows, but never one outside the arrays."""

    features: IntArray  # (R,), the feature of each row in use
    slots: IntArray  # (2R,), 1 + row, or 0 where the slot is empty
    counts: IntArray  # (2,), rows in use, and entries of folded contexts that were ignored for lack of a row


@compiled
def rows_in_use(rows: FeatureRows) -> int:
    """Return the number of rows in use, at most the arrays' length even if the state is corrupt."""
    return max(0, min(int(rows.counts[USED]), len(rows.features)))


@compiled
def _find(features: IntArray, slots: IntArray, used: int, feature: int) -> int:
    """Return the row of a feature, or -1 if it has none."""
    if feature < used and features[feature] == feature:
        return feature
    at = _first_slot(len(slots), feature)
    for _ in range(min(len(slots), _MOST_PROBES)):
        found: int = slots[at] - 1
        if found < 0 or (found < used and features[found] == feature):
            return found
        at = np.int64(at + 1 if at + 1 < len(slots) else 0)
    return -1


@compiled
def _first_slot(n_slots: int, feature: int) -> np.int64:
    hashed = (np.uint64(feature) * _MULTIPLIER) >> _HALF_WORD
    return np.int64((hashed * np.uint64(n_slots)) >> _HALF_WORD)


@compiled
def index_features(rows: FeatureRows) -> None:
    """Fill empty slots with all rows in use."""
    rows.slots[:] = 0
    for number in range(rows_in_use(rows)):
        _occupy(rows.slots, rows.features[number], number)


@compiled
def _occupy(slots: IntArray, feature: int, new: int) -> bool:
    """Enter a row; return whether there was an empty slot."""
    at = _first_slot(len(slots), feature)
    for _ in range(min(len(slots), _MOST_PROBES)):
        if slots[at] == 0:
            slots[at] = new + 1
            return True
        at = np.int64(at + 1 if at + 1 < len(slots) else 0)
    return False


@compiled
def to_rows(rows: FeatureRows, contexts: Contexts, result: Contexts, start: int, mode: int) -> int:
    """Write contexts from `start` on with rows as indices, without zeros and without features that have no row.

    Args:
        rows: the table; changed if the mode is not `READ`.
        contexts: n contexts.
        result: room for n contexts with as many entries; its starts are correct up to `start`.
        start: the first context to write.
        mode: what to do with a new feature. `READ` skips it. `ADD` gives it a row, or stops where none is left.
            `ADD_OR_IGNORE` gives it a row, or counts the entry as ignored where none is left. Either ignores a feature
            that has no slot.

    Returns:
        The context where no row was left, or n.
    """
    features, slots, counts = rows
    starts, indices, values, _ = result
    used, end = rows_in_use(rows), starts[start]
    for i in range(start, len(starts) - 1):
        entries, numbers = row(contexts, i)
        for position in range(len(numbers)):
            feature, x = entries[position], numbers[position]
            if abs(x) < SMALLEST_VALUE:
                continue
            found = _find(features, slots, used, feature)
            if found < 0 and mode != READ:
                if used == len(features) and mode == ADD:
                    return i
                if used < len(features) and _occupy(slots, feature, used):
                    features[used], found = feature, used
                    used += 1
                    counts[USED] = used
                else:
                    counts[IGNORED] += 1
            if found >= 0:
                indices[end], values[end] = found, x
                end += 1
        starts[i + 1] = end
    return len(starts) - 1
