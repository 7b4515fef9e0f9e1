"""What happens to a context before a learner sees it: a norm policy, and a constant feature.

A context of d numbers becomes one of d numbers, or of d + 1 with an intercept. The policies need the bound X:

- `none` leaves the numbers as they are, but clips them to 1e100, so that their squares are finite. The constant is 1.
- `scale` shortens what is longer than the room for it; `unit` gives every context but 0 the length of the room.
- `reject` changes nothing: the caller refuses what is longer than the room.

The room is X. With an intercept, context and constant share the bound: the constant is X/2, and the room √3/2 X, so
that the result has norm X at most.
"""

import math
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


def prepare(contexts: Contexts, preparation: Preparation) -> Contexts:
    """Return contexts as the learner sees them, without overflow and without loss of tiny numbers.

    Args:
        contexts: n contexts, already checked; not changed.
        preparation: the policy, the bound and the intercept.
    """
    policy, _, intercept, d = preparation
    lengthens, shortens = int(intercept), policy in ("scale", "unit")
    if policy == "reject" and not intercept:
        return contexts
    size = len(contexts.values) + lengthens * contexts.n
    starts = np.empty(contexts.n + 1, np.int64) if intercept else contexts.starts
    indices = _indices(contexts, intercept, d, size)
    room = preparation.room if shortens else math.inf
    result = Contexts(starts, indices, np.empty(size), contexts.shared)
    _write(contexts, result, room, policy == "unit", lengthens, d, preparation.constant)
    return result


def _indices(contexts: Contexts, intercept: bool, d: int, size: int) -> IntArray:
    if not intercept:
        return contexts.indices
    return np.arange(d + 1, dtype=np.int64) if contexts.shared else np.empty(size, np.int64)


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
