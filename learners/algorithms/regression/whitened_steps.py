"""Steps of the two logistic models whitened by the second moments of the contexts, for correlated features.

A = (I + Σ z z')⁻¹ over the past contexts is one matrix for all labels. Label k moves by η g_k t A z / c_k, where g_k is
the gradient in its score and c_k sums its curvature, so that t A / c_k estimates the inverse of its Fisher information
if that is proportional to the second moments of all contexts: the Kronecker factors of James Martens, Roger Grosse,
"Optimizing Neural Networks with Kronecker-factored Approximate Curvature", ICML 2015. The matrix takes S² numbers,
however many labels there are. Its update is that of Sherman and Morrison 1950.
"""

from typing import Annotated, NamedTuple, TypeAlias

from learners.algorithms.regression.logistic_models import (
    LARGEST_WEIGHT,
    bounded,
    label_chance,
    log_loss,
    moved,
    softmax_gradient,
)
from learners.base import FloatArray, IntArray, Rounds
from learners.kernels import compiled
from learners.layouts import Layout
from learners.mathematics.linear_algebra import score

Whitening: TypeAlias = Annotated[FloatArray, Layout("float64", ("S", "S"), least=-1.0, most=1.0)]  # A - I
WhitenedWeights: TypeAlias = Annotated[
    FloatArray, Layout("float64", ("S", "K"), least=-LARGEST_WEIGHT, most=LARGEST_WEIGHT)
]

_LABEL_RATE, _SOFTMAX_RATE = 1.0, 2.0  # η: 1 is a Newton step; larger ones learn faster from few rounds
_PRIOR = 2.0  # the initial curvature of a label
_LEAST_CURVATURE = 0.02  # of one round, of a label whose chance is near 0 or 1
_LARGEST_CHANGE = 2.0  # a step is shortened if it would change a score of its context by more


class Whitened(NamedTuple):
    """A context multiplied by A, after A has learned it."""

    direction: FloatArray  # (S,), t A z
    size: float  # t z'A z
    used: int  # rows in use; the others are 0


@compiled
def whiten(deviation: FloatArray, rounds: int, used: int, indices: IntArray, z: FloatArray, v: FloatArray) -> Whitened:
    """Add a context to A, in place; `deviation` (S, S) is A - I, and `rounds`, t, counts this context.

    The first `used` rows are in use, and v (S,) becomes the direction. No entry of A - I is beyond ±1; the bound keeps
    a corrupt one finite.
    """
    v[:] = 0.0
    score(deviation, indices, z, v)
    for position in range(len(z)):
        v[indices[position]] += z[position]
    size = 0.0
    for position in range(len(z)):
        size += z[position] * v[indices[position]]
    size = max(0.0, size)  # rounding errors may make it negative
    factor = 1.0 / (1.0 + size)
    for i in range(used):
        scaled = factor * v[i]
        for j in range(used):
            deviation[i, j] = min(1.0, max(-1.0, deviation[i, j] - scaled * v[j]))
    for i in range(used):
        v[i] *= factor * rounds
    return Whitened(v, size * factor * rounds, used)


@compiled
def step_label(
    W: FloatArray, curvature: FloatArray, k: int, reward: float, indices: IntArray, z: FloatArray, whitened: Whitened
) -> float:
    """Update label k's regression by one whitened step; return its log loss before the step, in nats.

    W (S, K), the weights, and the curvature (K,) change in place.
    """
    chance = label_chance(W, k, indices, z)
    curvature[k] += max(_LEAST_CURVATURE, chance * (1.0 - chance))
    step = _LABEL_RATE * (chance - reward) / (_PRIOR + curvature[k])
    step = bounded(step, abs(step) * whitened.size, _LARGEST_CHANGE)
    for i in range(whitened.used):
        W[i, k] = moved(W[i, k], step * whitened.direction[i])
    return log_loss(chance, reward)


@compiled
def step_softmax(
    V: FloatArray,
    curvature: FloatArray,
    rounds: Rounds,
    t: int,
    indices: IntArray,
    z: FloatArray,
    whitened: Whitened,
    q: FloatArray,
) -> float:
    """Update the softmax model, V (S, K), by round t, in place; q (K,) is scratch space. The rest is as above."""
    loss, largest = softmax_gradient(V, rounds, t, indices, z, q), 0.0
    for k in range(len(q)):
        curvature[k] += q[k] * q[k]
        q[k] *= _SOFTMAX_RATE / (_PRIOR + curvature[k])
        largest = max(largest, abs(q[k]))
    factor = bounded(1.0, largest * whitened.size, _LARGEST_CHANGE)
    for i in range(whitened.used):
        step = factor * whitened.direction[i]
        for k in range(len(q)):
            V[i, k] = moved(V[i, k], step * q[k])
    return loss
