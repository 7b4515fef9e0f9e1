"""Bringing contexts within the norm bound that every theorem assumes."""

from typing import Literal, TypeAlias

import numpy as np

from learners.base import FloatArray

NormPolicy: TypeAlias = Literal["reject", "scale", "unit"]


def within_bound(matrix: FloatArray, policy: NormPolicy, bound: float) -> FloatArray:
    """Applies a norm policy to rows (n, d) of finite numbers; neither overflows nor loses tiny rows.

    Args:
        matrix: the contexts; not changed.
        policy: `unit` divides each row by its norm and multiplies by the bound, zero rows stay zero; `scale`
            does so only where the norm exceeds the bound; `reject` changes nothing, the caller refuses.
        bound: X > 0.
    """
    if policy == "reject":
        return matrix
    # Rows divided by their largest magnitude have norms in [1, √d], or are zero.
    largest = np.abs(matrix).max(axis=1)
    scaled = matrix / np.where(largest > 0, largest, 1.0)[:, None]
    norms = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
    unit: FloatArray = scaled * (bound / np.maximum(norms, 1.0))[:, None]
    if policy == "unit":
        return unit
    with np.errstate(over="ignore"):
        too_long = largest * norms > bound
    return np.where(too_long[:, None], unit, matrix)
