"""Bringing contexts within the norm bound that every theorem assumes."""

from typing import Literal, TypeAlias

import numpy as np

from learners.base import FloatArray

NormPolicy: TypeAlias = Literal["reject", "scale", "unit"]


def within_bound(matrix: FloatArray, policy: NormPolicy, bound: float) -> tuple[FloatArray, FloatArray]:
    """Applies a norm policy to rows (n, d) of finite numbers.

    Args:
        matrix: the contexts; not changed.
        policy: `unit` divides each row by its norm (zero rows stay), times the bound; `scale` does so only
            where the norm exceeds the bound; `reject` changes nothing.
        bound: X > 0.

    Returns:
        The rows to use (n, d), and their norms before (n,), by which a caller rejects.
    """
    largest, scaled = _largest_scaled(matrix)
    scaled_norms = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
    with np.errstate(over="ignore"):
        before = largest * scaled_norms
    if policy == "reject":
        return matrix, before
    unit = scaled * (bound / np.maximum(scaled_norms, 1.0))[:, None]
    return (unit, before) if policy == "unit" else (np.where((before > bound)[:, None], unit, matrix), before)


def _largest_scaled(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest magnitude of each row, and the rows divided by it: their norms lie in [1, √d], or are 0."""
    largest = np.abs(matrix).max(axis=1)
    return largest, matrix / np.where(largest > 0, largest, 1.0)[:, None]
