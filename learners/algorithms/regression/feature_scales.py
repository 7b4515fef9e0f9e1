"""Values relative to the running root mean square of their feature's non-zero values, so that units do not matter.

Stéphane Ross, Paul Mineiro, John Langford, "Normalized Online Learning", UAI 2013, scale each feature by its largest
value so far. One outlier then makes all later values small. A root mean square of clipped values is robust.
"""

import math

from learners.base import FloatArray, IntArray
from learners.kernels import compiled

LARGEST_VALUE = 5.0
"""Relative values are clipped to this magnitude, which bounds the effect of an outlier on scores and on the scale."""

_LARGEST_SCALE = 1e308
"""Keeps the scale finite."""


@compiled
def write_relative(scales: FloatArray, indices: IntArray, values: FloatArray, z: FloatArray) -> None:
    """Write x_i / S_i, clipped, to z (nnz,); 0 for a feature without a scale. `scales` (R, 2) holds S and a count."""
    for position in range(len(values)):
        z[position] = _relative(values[position], scales[indices[position], 0])


@compiled
def _relative(x: float, scale: float) -> float:
    return min(LARGEST_VALUE, max(-LARGEST_VALUE, x / scale)) if scale > 0.0 else 0.0


@compiled
def measure(scales: FloatArray, indices: IntArray, values: FloatArray, z: FloatArray) -> float:
    """Take the values x_i ≠ 0 into the scales; write x_i / S_i, clipped, to z (nnz,); return Σ z²."""
    total = 0.0
    for position in range(len(values)):
        i, x = indices[position], abs(values[position])
        scales[i, 1] += 1.0
        if scales[i, 0] > 0.0:
            ratio = min(LARGEST_VALUE, x / scales[i, 0])
            scales[i, 0] = min(_LARGEST_SCALE, scales[i, 0] * math.sqrt(1.0 + (ratio * ratio - 1.0) / scales[i, 1]))
        else:
            scales[i, 0] = x
        z[position] = _relative(values[position], scales[i, 0])
        total += z[position] ** 2
    return total
