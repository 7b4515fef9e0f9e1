"""Norm policies, which keep contexts within the bound of the theorems, and iteration over single contexts."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from learners.base import Contexts, FloatArray, NormPolicy
from learners.context_checks import check_contexts


def within_bound(contexts: Contexts, policy: NormPolicy, bound: float) -> Contexts:
    """Apply a norm policy to contexts of finite numbers, without overflow and without loss of tiny numbers.

    Args:
        contexts: the contexts; not changed.
        policy: `unit` scales each context to norm X and leaves zeros; `scale` does so only where the norm exceeds
            X; `reject` changes nothing, and the caller refuses contexts beyond X.
        bound: X > 0.

    Raises:
        InvalidArrayError: if the contexts are invalid; the message names the field.
    """
    check_contexts(contexts)
    return within_bound_unchecked(contexts, policy, bound)


def within_bound_unchecked(contexts: Contexts, policy: NormPolicy, bound: float) -> Contexts:
    """Do the same as `within_bound`, for contexts that the caller has checked."""
    lengths = np.diff(contexts.starts)
    heads, lengths = contexts.starts[:-1][lengths > 0], lengths[lengths > 0]
    if policy == "reject" or len(heads) == 0:
        return contexts
    # After division by their largest magnitude, contexts have norms in [1, √nnz], or are zero.
    largest = np.maximum.reduceat(np.abs(contexts.values), heads)
    scaled = contexts.values / np.repeat(np.where(largest > 0, largest, 1.0), lengths)
    norms = np.sqrt(np.add.reduceat(scaled * scaled, heads))
    unit: FloatArray = scaled * np.repeat(bound / np.maximum(norms, 1.0), lengths)
    if policy == "unit":
        return contexts._replace(values=unit)
    with np.errstate(over="ignore"):
        too_long = largest * norms > bound
    return contexts._replace(values=np.where(np.repeat(too_long, lengths), unit, contexts.values))


def one_by_one(contexts: Contexts) -> Iterator[Contexts]:
    """Yield each context as a batch of one."""
    starts, indices, values, shared = contexts
    for start, stop in pairwise(starts):
        own = np.array([0, stop - start], dtype=np.int64)
        yield Contexts(own, indices if shared else indices[start:stop], values[start:stop], shared)
