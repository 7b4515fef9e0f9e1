"""Isotonic regression, which two output spaces use for projection."""

import numpy as np

from learners.base import FloatArray, IntArray
from learners.kernels import compiled


def nonincreasing_fit(values: FloatArray) -> FloatArray:
    """Return the non-increasing vector nearest to values (n,) in ℓ2, by pooling adjacent violators: O(n)."""
    result = np.empty(len(values))
    _pool(values, np.empty(len(values)), np.empty(len(values), dtype=np.int64), result)
    return result


@compiled
def clipped_fit(values: FloatArray, means: FloatArray, sizes: IntArray) -> None:
    """Replace values (n,) by their non-increasing fit, clipped to [0, 1]; NaN stays NaN. Other arrays are scratch."""
    _pool(values, means, sizes, values)
    clip(values)


@compiled
def clip(values: FloatArray) -> None:
    """Clip values (n,) to [0, 1], in place; NaN stays NaN."""
    for i in range(len(values)):
        if values[i] < 0.0:
            values[i] = 0.0
        elif values[i] > 1.0:
            values[i] = 1.0


@compiled
def _pool(values: FloatArray, means: FloatArray, sizes: IntArray, result: FloatArray) -> None:
    """Write the fit of values to result, which may be the same array."""
    n_blocks = 0
    for value in values:
        mean, size = value, 1
        while n_blocks > 0 and means[n_blocks - 1] <= mean:
            n_blocks -= 1
            total = size + sizes[n_blocks]
            mean += (means[n_blocks] - mean) * (sizes[n_blocks] / total)
            size = total
        means[n_blocks], sizes[n_blocks] = mean, size
        n_blocks += 1
    stop = 0
    for block in range(n_blocks):
        result[stop : stop + sizes[block]] = means[block]
        stop += sizes[block]
