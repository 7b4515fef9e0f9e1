"""Prepares contexts for a learner: applies a norm policy, and appends a constant feature.

- `none` only clips numbers to ±1e18, so that no learner computes infinity. The constant is 1.
- `scale` shortens contexts longer than `room` to that norm; `unit` scales every context except 0 to that norm.
- `reject` changes nothing: the caller refuses contexts longer than `room`.

`room` is X. With an intercept, context and constant share the bound: the constant is X/2 and `room` is √3/2 X, so that
the result, of d + 1 numbers, has norm X at most.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray, NormPolicy
from learners.checks import check_contexts
from learners.kernels import compiled, row

LARGEST_NUMBER = 1e18  # numbers are clipped to this magnitude if no norm policy makes them smaller


class Preparation(NamedTuple):
    """The preparation of a model's contexts."""

    policy: NormPolicy
    bound: float  # X > 0
    intercept: bool
    n_features: int  # d, without the constant, whose index is d

    @property
    def room(self) -> float:
        """The largest norm of a context before the constant is added; infinite for `none`."""
        if self.policy == "none":
            return math.inf
        return math.sqrt(0.75) * self.bound if self.intercept else self.bound

    @property
    def constant(self) -> float:
        """The value of the constant feature."""
        return 1.0 if self.policy == "none" else self.bound / 2.0


class Rule(NamedTuple):
    """A preparation, encoded for compiled code."""

    changes_nothing: bool
    room: float  # infinite without a norm policy
    to_room: bool  # whether shorter contexts, except 0, are scaled to the norm `room` too
    extra: int  # 1 with an intercept, else 0
    n_features: int  # d, without the constant
    constant: float


class Preparer:
    """Prepares the contexts of one model."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation

    @cached_property
    def rule(self) -> Rule:
        """The preparation, encoded for compiled code."""
        policy, _, intercept, d = self._preparation
        room = self._preparation.room if policy in ("scale", "unit") else math.inf
        changes_nothing, constant = policy == "reject" and not intercept, self._preparation.constant
        return Rule(changes_nothing, room, policy == "unit", int(intercept), d, constant)

    def __call__(self, contexts: Contexts) -> Contexts:
        rule = self.rule
        if rule.changes_nothing:
            return contexts
        starts, indices, size, shared = contexts.starts, contexts.indices, len(contexts.values), contexts.shared
        if rule.extra:
            size += contexts.n
            starts = np.empty(contexts.n + 1, np.int64)
            indices = np.arange(rule.n_features + 1) if shared else np.empty(size, np.int64)
        result = Contexts(starts, indices, np.empty(size), shared)
        _write(rule, contexts, result)
        return result


def prepare(contexts: Contexts, preparation: Preparation) -> Contexts:
    """Return the prepared contexts. For repeated calls, keep a `Preparer`, which encodes the preparation once."""
    return Preparer(preparation)(contexts)


@compiled
def _write(rule: Rule, contexts: Contexts, result: Contexts) -> None:
    n, end, extra = len(contexts.starts) - 1, 0, rule.extra
    if extra:
        result.starts[0] = 0
    for i in range(n):
        indices, values = row(contexts, i)
        start, end = end, end + len(values) + extra
        written = result.values[start : start + len(values)]
        for j in range(len(values)):  # an assignment to a slice is slower, and compiles two seconds longer
            written[j] = values[j]
        if rule.room == math.inf:
            for j in range(len(written)):
                written[j] = min(LARGEST_NUMBER, max(-LARGEST_NUMBER, written[j]))
        else:
            _fit(written, rule.room, rule.to_room)
        if extra:
            result.starts[i + 1] = end
            result.values[end - 1] = rule.constant
            if not contexts.shared:
                for j in range(len(indices)):
                    result.indices[start + j] = indices[j]
                result.indices[end - 1] = rule.n_features


@compiled
def _fit(values: FloatArray, room: float, to_room: bool) -> None:
    """Scale numbers to the norm `room` if theirs is greater or `to_room` is set; zeros stay zeros."""
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


def within_bound(contexts: Contexts, policy: NormPolicy, bound: float) -> Contexts:
    """Apply a norm policy to contexts of finite numbers, without an intercept. Raises `InvalidArrayError`."""
    check_contexts(contexts)
    return prepare(contexts, Preparation(policy, bound, False, 0))


def one_by_one(contexts: Contexts) -> Iterator[Contexts]:
    """Yield each context as a batch of one."""
    starts, indices, values, shared = contexts
    for start, stop in pairwise(starts):
        own = np.array([0, stop - start], dtype=np.int64)
        yield Contexts(own, indices if shared else indices[start:stop], values[start:stop], shared)
