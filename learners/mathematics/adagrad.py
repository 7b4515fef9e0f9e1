"""AdaGrad with one step size per feature.

John Duchi, Elad Hazan, Yoram Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization",
JMLR 2011, with the K weights of a feature as one block.
"""

import math

from learners.base import FloatArray, IntArray
from learners.kernels import compiled
from learners.mathematics.linear_algebra import squared_norm


@compiled
def adaptive_step(
    step: float,
    radius: float,
    coefficients: FloatArray,
    indices: IntArray,
    values: FloatArray,
    weights: FloatArray,
    gradient_sums: FloatArray,
) -> None:
    """Take one step against the gradient x ⊗ coefficients, on weights (d, K) and gradient_sums (d,), in place.

    For each feature i of the context, G_i += ‖coefficients‖² x_i² and W_i -= step / √G_i x_i coefficients; then W_i is
    projected onto the ball of that radius. If all rows of U are in the ball, the regret on linear losses is at
    most Σ_i (2 radius² / step + step) √G_i.
    """
    size = squared_norm(coefficients)
    for position in range(len(values)):
        i, x = indices[position], values[position]
        gradient_sums[i] += size * x * x
        if gradient_sums[i] <= 0.0:
            continue
        w, factor = weights[i], step * x / math.sqrt(gradient_sums[i])
        for k in range(len(coefficients)):
            w[k] -= factor * coefficients[k]
        if radius < math.inf:
            _keep_in_ball(radius, w)


@compiled
def _keep_in_ball(radius: float, w: FloatArray) -> None:
    norm = math.sqrt(squared_norm(w))
    if norm > radius:
        for k in range(len(w)):
            w[k] *= radius / norm
