"""The importance-weighted estimate of the logistic loss's gradient from bandit feedback.

The published code of PNewtron writes ±1/K where the estimate needs (K - 1)/K on the served label, which biases it.
Here E[c] = p - e_y exactly.
"""

from learners.base import FloatArray
from learners.kernels import compiled, compiled_sum
from learners.mathematics.exploration import softmax


@compiled
def gradient_estimate(
    alpha: float, s: FloatArray, label: int, correct: bool, propensity: float, coefficients: FloatArray
) -> float:
    """Write c (K,) with E[c] = softmax(αs) - e_y over the drawn label; return κ, the weight of the squared gradient."""
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
    """Return the inner product of two vectors."""
    total = 0.0
    for k in range(len(left)):
        total += left[k] * right[k]
    return total
