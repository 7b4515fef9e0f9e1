"""Norm policies without an intercept, and iteration over single contexts."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from learners.base import Contexts, NormPolicy
from learners.context_checks import check_contexts
from learners.mathematics.preparation import Preparation, prepare


def within_bound(contexts: Contexts, policy: NormPolicy, bound: float) -> Contexts:
    """Apply a norm policy to contexts of finite numbers, without an intercept.

    Args:
        contexts: the contexts; not changed.
        policy: see `learners.mathematics.preparation`.
        bound: X > 0.

    Raises:
        InvalidArrayError: if the contexts are invalid; the message names the field.
    """
    check_contexts(contexts)
    return prepare(contexts, Preparation(policy, bound, False, 0))


def one_by_one(contexts: Contexts) -> Iterator[Contexts]:
    """Yield each context as a batch of one."""
    starts, indices, values, shared = contexts
    for start, stop in pairwise(starts):
        own = np.array([0, stop - start], dtype=np.int64)
        yield Contexts(own, indices if shared else indices[start:stop], values[start:stop], shared)
