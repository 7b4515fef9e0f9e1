"""What happens to a context before a learner sees it: a norm policy, and a constant feature.

A context of d numbers becomes one of d numbers, or of d + 1 with an intercept. The policies need the bound X:

- `none` leaves the numbers as they are, but clips them to 1e100, so that their squares are finite. The constant is 1.
- `scale` shortens what is longer than the room for it; `unit` gives every context but 0 the length of the room.
- `reject` changes nothing: the caller refuses what is longer than the room.

The room is X. With an intercept, context and constant share the bound: the constant is X/2, and the room √3/2 X, so
that the result has norm X at most.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray, IntArray, NormPolicy
from learners.kernels import compiled, row

LARGEST_NUMBER = 1e100
"""Numbers are clipped to this magnitude if no norm policy makes them smaller."""


class Preparation(NamedTuple):
    """How the contexts of a model are prepared."""

    policy: NormPolicy
    bound: float  # X > 0
    intercept: bool
    n_features: int  # d, without the constant, whose index is d

    @property
    def room(self) -> float:
        """The largest norm of a context before the constant is added; infinite without a policy."""
        if self.policy == "none":
            return math.inf
        return math.sqrt(0.75) * self.bound if self.intercept else self.bound

    @property
    def constant(self) -> float:
        """The value of the constant feature."""
        return 1.0 if self.policy == "none" else self.bound / 2.0


class Preparer:
    """Prepares the contexts of one model.

    Args:
        preparation: the policy, the bound and the intercept.
    """

    def __init__(self, preparation: Preparation) -> None:
        policy, _, self._intercept, self._n_features = preparation
        self._changes_nothing = policy == "reject" and not self._intercept
        self._room = preparation.room if policy in ("scale", "unit") else math.inf
        self._to_room, self._constant = policy == "unit", preparation.constant

    @cached_property
    def _every_index(self) -> IntArray:
        """The indices of a dense context with the constant."""
        return np.arange(self._n_features + 1, dtype=np.int64)

    def __call__(self, contexts: Contexts) -> Contexts:
        """Return contexts as the learner sees them, without overflow and without loss of tiny numbers.

        Args:
            contexts: n contexts, already checked; not changed.
        """
        if self._changes_nothing:
            return contexts
        starts, indices, size, shared = contexts.starts, contexts.indices, len(contexts.values), contexts.shared
        if self._intercept:
            size += contexts.n
            starts = np.empty(contexts.n + 1, np.int64)
            indices = self._every_index if shared else np.empty(size, np.int64)
        result = Contexts(starts, indices, np.empty(size), shared)
        rule = self._room, self._to_room, int(self._intercept), self._n_features, self._constant
        _write(contexts, result, *rule)
        return result


def prepare(contexts: Contexts, preparation: Preparation) -> Contexts:
    """Prepare contexts once: see `Preparer`."""
    return Preparer(preparation)(contexts)


@compiled
def _write(
    contexts: Contexts,
    result: Contexts,
    room: float,
    to_room: bool,
    extra: int,
    d: int,
    constant: float,
) -> None:
    """Write prepared contexts; `to_room` gives all the length of the room, `extra` is 1 with an intercept, else 0."""
    n, end = len(contexts.starts) - 1, 0
    if extra:
        result.starts[0] = 0
    for i in range(n):
        indices, values = row(contexts, i)
        start, end = end, end + len(values) + extra
        written = result.values[start : start + len(values)]
        _copy(values, written)
        if room == math.inf:
            _clip(written)
        else:
            _fit(written, room, to_room)
        if extra:
            result.starts[i + 1] = end
            result.values[end - 1] = constant
            if not contexts.shared:
                result.indices[start : end - 1] = indices
                result.indices[end - 1] = d


@compiled
def _copy(values: FloatArray, written: FloatArray) -> None:
    for j in range(len(values)):  # faster than an assignment to a slice
        written[j] = values[j]


@compiled
def _clip(values: FloatArray) -> None:
    for j in range(len(values)):
        values[j] = min(LARGEST_NUMBER, max(-LARGEST_NUMBER, values[j]))


@compiled
def _fit(values: FloatArray, room: float, to_room: bool) -> None:
    """Scale numbers to the norm `room`, if they are longer or if all shall have it; zeros stay zeros."""
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    if largest == 0.0:
        return
    total = 0.0
    for value in values:
        total += (value / largest) * (value / largest)
    norm = math.sqrt(total)  # in units of the largest number, so from 1 to √nnz
    if to_room or largest > room / norm:
        factor = room / norm
        for j in range(len(values)):
            values[j] = values[j] / largest * factor
