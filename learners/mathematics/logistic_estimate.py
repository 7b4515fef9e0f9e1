"""The gradient of the logistic loss, estimated from the bit.

The published code of PNewtron writes ±1/K where the estimate needs (K - 1)/K on the label served, which biases it; here
E[c] = p - e_y exactly.
"""

from learners.base import FloatArray
from learners.kernels import compiled, compiled_sum
from learners.mathematics.exploration import softmax


@compiled
def gradient_estimate(
    alpha: float, s: FloatArray, label: int, correct: bool, propensity: float, coefficients: FloatArray
) -> float:
    """Writes c (K,), over the label drawn softmax(αs) - e_y in expectation; returns κ, the weight of its square."""
    K = len(s)
    for k in range(K):
        coefficients[k] = alpha * s[k]
    softmax(coefficients, coefficients)
    size = (coefficients[label] - 1.0 if correct else coefficients[label]) / propensity
    coefficients[:] = -size / K
    coefficients[label] += size
    return propensity if correct else 1.0


@compiled_sum
def inner(left: FloatArray, right: FloatArray) -> float:
    """The inner product of two vectors."""
    total = 0.0
    for k in range(len(left)):
        total += left[k] * right[k]
    return total
