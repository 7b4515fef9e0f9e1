"""What is left to draw in later slots, and the order of the rows of several slots.

The rows of n requests with m slots each are in the order of the requests, and those of a request in that of its slots.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, FloatArray, IntArray

_T = TypeVar("_T", bound=np.generic)


def without(left: BoolArray, labels: IntArray) -> BoolArray:
    """Return what is left (n, K) after a slot is answered with `labels` (n,)."""
    remaining = left.copy()
    remaining[np.arange(len(labels)), labels] = False
    return remaining


def renormalized(distributions: FloatArray, left: BoolArray) -> FloatArray:
    """Return distributions (n, K) given that the answer is one of those left; uniform where none of them has mass."""
    masses = np.where(left, distributions, 0.0)
    totals = masses.sum(axis=1, keepdims=True)
    uniform = left / left.sum(axis=1, keepdims=True)
    given: FloatArray = np.where(totals > 0.0, masses / np.where(totals > 0.0, totals, 1.0), uniform)
    return given


def in_rows(slots: Sequence[npt.NDArray[_T]]) -> npt.NDArray[_T]:
    """Return the values of m slots, each (n, ...), as rows (n * m, ...)."""
    first = slots[0]
    return np.stack(slots, axis=1).reshape(len(slots) * len(first), *first.shape[1:])


def contexts_in_rows(slots: Sequence[Contexts]) -> Contexts:
    """Return the contexts of m slots, n each, as n * m contexts in new arrays."""
    if slots[0].shared:
        matrices = [each.values.reshape(each.n, -1) for each in slots]
        return Contexts.dense(np.stack(matrices, axis=1).reshape(len(slots) * slots[0].n, -1))
    rows = [each.rows(i, i + 1) for i in range(slots[0].n) for each in slots]
    lengths = np.array([len(row.values) for row in rows], np.int64)
    return Contexts.sparse(
        lengths, np.concatenate([row.indices for row in rows]), np.concatenate([row.values for row in rows])
    )
