"""The weak learners of AdaBoost.OLM++. Each predicts one label, better than chance under the costs of its round.

Row y of the costs C (K, K) contains the cost of each label if y is true. The costs depend on the predecessors'
probabilities σ: if p is the true distribution, Σ_y p_y C(y, k) = (constant + σ_k - p_k)/K, so the cheapest label is the
one that σ underestimates most. Cost regression and FOLKLORE learn to predict it, so that later members correct earlier
ones. Perceptrons move to another label after every mistake, so their votes vary, and their edge is smaller.
"""

from typing import Literal, Protocol, TypeAlias

import numpy as np

from learners.algorithms.improper.folklore import learn, predict, surrogate_constant
from learners.base import FloatArray
from learners.kernels import compiled
from learners.mathematics.exploration import leader, softmax
from learners.mathematics.linear_algebra import packed_identity

Name: TypeAlias = Literal["perceptron", "few-features", "cost-regression", "folklore"]  # the kinds of weak learners

_REGULARIZATION = 1.0  # λ of the cost regression
_COMPARATOR_BOUND = 10.0  # B of FOLKLORE
_NORM_BOUND = 2.0**0.5  # the norm bound of few features (x_S/X, 1)


class WeakLearner(Protocol):
    """A kind of weak learner. Its memory is a matrix; its n features are x, or (x_S/X, 1) for a few features S."""

    sees_few: bool  # whether it sees only a few features

    def memory_shape(self, n: int, n_labels: int) -> tuple[int, int]:
        """Return the rows and columns of the memory."""

    def start(self, memory: FloatArray, n: int, n_labels: int) -> None:
        """Initialize a zeroed memory for an untrained weak learner, in place."""

    def cost(self, n: int, n_labels: int) -> int:
        """Return the multiply-adds of a prediction or an update, whichever takes more."""

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:
        """Return the predicted label; costs[y, k] of (K, K) is the cost of predicting k if y is true."""

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
        """Learn in place from the true label y and row y of the costs (K,); `named` is the label that was predicted."""


class CostPerceptron(WeakLearner):
    """A multiclass Perceptron whose step is the cost of its prediction. Its memory is (n, K)."""

    def __init__(self, *, sees_few: bool) -> None:
        self.sees_few = sees_few

    def memory_shape(self, n: int, n_labels: int) -> tuple[int, int]:
        return n, n_labels

    def start(self, memory: FloatArray, n: int, n_labels: int) -> None:
        """Keep zero weights."""

    def cost(self, n: int, n_labels: int) -> int:
        return n * n_labels

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:
        """Return the highest-scoring label."""
        return _leading(memory, x, len(costs))

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
        """After a mistake, add cost · context to the true label's weights; subtract it from the predicted label's."""
        step = costs[named] * x
        memory[:, y] += step
        memory[:, named] -= step


class CostRegression(WeakLearner):
    """Ridge regression of every label's advantage: K times how much cheaper the label is than a uniform guess.

    The advantage is Σ_j C(y, j) - K C(y, k) = 1[k = y] - σ_k, the negative gradient of the logistic loss at the scores.
    The memory is (n, K + n): the weights, then the inverse of λI + Σ xx'.
    """

    sees_few = True

    def memory_shape(self, n: int, n_labels: int) -> tuple[int, int]:
        return n, n_labels + n

    def start(self, memory: FloatArray, n: int, n_labels: int) -> None:
        memory[:, n_labels:] = np.eye(n) / _REGULARIZATION

    def cost(self, n: int, n_labels: int) -> int:
        return 2 * n * (n_labels + n)

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:
        """Return the label with the largest predicted advantage."""
        return _leading(memory, x, len(costs))

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
        """Add the round to the regression, whether the predicted label was right or wrong."""
        _regress(memory, x, costs)


class FewFeaturesFolklore(WeakLearner):
    """FOLKLORE: predicts the cheapest label under its probabilities. Its memory is one row: A⁻¹, then h."""

    sees_few = True

    def memory_shape(self, n: int, n_labels: int) -> tuple[int, int]:
        return 1, _triangle(n * n_labels) + n * n_labels

    def start(self, memory: FloatArray, n: int, n_labels: int) -> None:
        packed_identity(memory[0], _COMPARATOR_BOUND / (2.0 * _NORM_BOUND), n * n_labels)

    def cost(self, n: int, n_labels: int) -> int:
        return (n * n_labels) ** 2 * (n_labels + 2) // 2 + 10 * n_labels**3

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:
        """Return the label with the least expected cost under softmax(z)."""
        return _cheapest(_logits(memory, x, len(costs)), costs)

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
        """Learn the true label, at the current logits. The costs only affect the predictions."""
        K = len(costs)
        inverse, solution = _parts(memory, len(x) * K)
        constant = surrogate_constant(_COMPARATOR_BOUND, _NORM_BOUND, K)
        learn(inverse, solution, constant, x, _logits(memory, x, K), y)


WEAK_LEARNERS: dict[Name, WeakLearner] = {
    "perceptron": CostPerceptron(sees_few=False),
    "few-features": CostPerceptron(sees_few=True),
    "cost-regression": CostRegression(),
    "folklore": FewFeaturesFolklore(),
}
"""The weak learners by name. A new one needs a class, and an entry here and in `Name`."""


@compiled
def _leading(memory: FloatArray, x: FloatArray, n_labels: int) -> int:
    """Return the highest-scoring label. The weights are the first K columns of the memory."""
    s = np.zeros(n_labels)
    for i in range(len(x)):
        for k in range(n_labels):
            s[k] += x[i] * memory[i, k]
    return leader(s)


@compiled
def _regress(memory: FloatArray, x: FloatArray, costs: FloatArray) -> None:
    n, K = len(x), len(costs)
    gain, scale, total = np.zeros(n), 1.0, costs.sum()
    for i in range(n):
        for j in range(n):
            gain[i] += memory[i, K + j] * x[j]
        scale += gain[i] * x[i]
    if scale < 1.0:  # only in a corrupt state, as the inverse is positive definite
        return
    for k in range(K):
        error = total - K * costs[k]
        for i in range(n):
            error -= memory[i, k] * x[i]
        for i in range(n):
            memory[i, k] += error / scale * gain[i]
    gain /= np.sqrt(scale)
    for i in range(n):
        for j in range(n):
            memory[i, K + j] -= gain[i] * gain[j]


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


def _parts(memory: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    return memory[0, : _triangle(n)], memory[0, _triangle(n) :]


def _logits(memory: FloatArray, x: FloatArray, n_labels: int) -> FloatArray:
    z = np.empty(n_labels)
    predict(*_parts(memory, len(x) * n_labels), x, z)
    return z


@compiled
def _cheapest(z: FloatArray, costs: FloatArray) -> int:
    """Return the label with the least expected cost if the true label has the distribution softmax(z)."""
    K = len(z)
    sigma, advantage = np.empty(K), np.zeros(K)
    softmax(z, sigma)
    for y in range(K):
        for k in range(K):
            advantage[k] -= sigma[y] * costs[y, k]
    return leader(advantage)
