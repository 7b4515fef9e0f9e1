"""Bringing contexts within the norm bound that every theorem assumes."""

from typing import Literal, TypeAlias

import numpy as np

from learners.base import Contexts, FloatArray

NormPolicy: TypeAlias = Literal["reject", "scale", "unit"]


def within_bound(contexts: Contexts, policy: NormPolicy, bound: float) -> Contexts:
    """Applies a norm policy to contexts of finite numbers; neither overflows nor loses tiny ones.

    Args:
        contexts: each with at least one entry; not changed.
        policy: `unit` divides each by its norm and multiplies by the bound, zeros stay zero; `scale`
            does so only where the norm exceeds the bound; `reject` changes nothing, the caller refuses.
        bound: X > 0.
    """
    if policy == "reject" or contexts.n == 0:
        return contexts
    heads, lengths = contexts.starts[:-1], np.diff(contexts.starts)
    # Divided by their largest magnitude, contexts have norms in [1, √nnz], or are zero.
    largest = np.maximum.reduceat(np.abs(contexts.values), heads)
    scaled = contexts.values / np.repeat(np.where(largest > 0, largest, 1.0), lengths)
    norms = np.sqrt(np.add.reduceat(scaled * scaled, heads))
    unit: FloatArray = scaled * np.repeat(bound / np.maximum(norms, 1.0), lengths)
    if policy == "unit":
        return contexts._replace(values=unit)
    with np.errstate(over="ignore"):
        too_long = largest * norms > bound
    return contexts._replace(values=np.where(np.repeat(too_long, lengths), unit, contexts.values))
