"""Ridge regression per label with an upper confidence bound: disjoint LinUCB, Li, Chu, Langford and Schapire 2010.

A baseline for streams with few features. Each label has weights θ and the inverse P of its matrix λI + Σ x xᵀ with
λ = 1, updated recursively. The choice is the label with the largest θ·x + α √(xᵀ P x).
"""

from typing import NamedTuple

import numpy as np

from benchmarks.papers.data.chunks import Chunk
from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.kernels import compiled

ALGORITHM = "ridge-bound"

MOST_FEATURES = 100
"""The largest d. A round takes K d² multiply-adds."""

_EARLY = 100  # rounds before features are standardized


class _Ridge(NamedTuple):
    weights: FloatArray  # (K, d + 1), θ of each label; the first entry belongs to a constant feature
    inverses: FloatArray  # (K, d + 1, d + 1), P of each label


class _Scales(NamedTuple):
    seen: IntArray  # (1,), contexts so far
    means: FloatArray  # (d,)
    squares: FloatArray  # (d,), sums of squared deviations from the means
    largest: FloatArray  # (d,), largest absolute values


class RidgeBound:
    """A player that runs disjoint LinUCB.

    Features are divided by their largest absolute value so far. After 100 rounds they are standardized with the mean
    and deviation so far, and the rounds before are learned again. A constant is added.

    Args:
        problem: K labels and at most 100 features.
        alpha: α, the width of the bound.
        forgetting: factor of every matrix λI + Σ x xᵀ per round, at most 1; its inverse's trace never exceeds d + 1, as
            without rounds.
    """

    def __init__(self, problem: Problem, alpha: float = 0.1, forgetting: float = 1.0) -> None:
        K, d = problem.n_labels, problem.n_features
        if d > MOST_FEATURES:
            raise ValueError(f"at most {MOST_FEATURES} features, not {d}")
        self._ridge = _Ridge(np.zeros((K, d + 1)), np.tile(np.eye(d + 1), (K, 1, 1)))
        self._scales = _Scales(np.zeros(1, np.int64), np.zeros(d), np.zeros(d), np.zeros(d))
        self._settings = alpha, forgetting

    def play(self, chunk: Chunk, uniforms: FloatArray) -> FloatArray:
        """Play the rounds of a chunk. Return their losses, (n,)."""
        losses, labels = chunk.losses(len(self._ridge.weights)), np.empty(len(uniforms), np.int64)
        matrix = _matrix(chunk.contexts, len(self._scales.means))
        _play(matrix, 1.0 - losses, *self._settings, self._ridge, self._scales, labels)
        return np.asarray(losses[np.arange(len(labels)), labels])


def _matrix(contexts: Contexts, d: int) -> FloatArray:
    """Return contexts as a matrix (n, d)."""
    if contexts.shared:
        return contexts.values.reshape(-1, d)
    matrix = np.zeros((contexts.n, d))
    matrix[np.repeat(np.arange(contexts.n), np.diff(contexts.starts)), contexts.indices] = contexts.values
    return matrix


@compiled
def _play(
    matrix: FloatArray,
    rewards: FloatArray,
    alpha: float,
    forgetting: float,
    ridge: _Ridge,
    scales: _Scales,
    labels: IntArray,
) -> None:
    for t in range(len(labels)):
        if scales.seen[0] == _EARLY:
            # The early rounds are in this chunk: a chunk is only shorter than them if it is the last one.
            _learn_again(matrix[:t], rewards, labels, ridge, scales)
        _observe(matrix[t], scales)
        x = _scaled(matrix[t], scales)
        labels[t] = _best(x, alpha, ridge)
        if forgetting < 1.0:
            _forget(forgetting, ridge)
        _learn(x, labels[t], rewards[t, labels[t]], ridge)


@compiled
def _learn_again(matrix: FloatArray, rewards: FloatArray, labels: IntArray, ridge: _Ridge, scales: _Scales) -> None:
    ridge.weights[:] = 0.0
    ridge.inverses[:] = np.eye(ridge.weights.shape[1])
    for t in range(len(matrix)):
        _learn(_scaled(matrix[t], scales), labels[t], rewards[t, labels[t]], ridge)


@compiled
def _observe(context: FloatArray, scales: _Scales) -> None:
    """Update the moments (Welford 1962) and the largest values."""
    scales.seen[0] += 1
    for j in range(len(context)):
        difference = context[j] - scales.means[j]
        scales.means[j] += difference / scales.seen[0]
        scales.squares[j] += difference * (context[j] - scales.means[j])
        scales.largest[j] = max(scales.largest[j], abs(context[j]))


@compiled
def _scaled(context: FloatArray, scales: _Scales) -> FloatArray:
    """Return a constant 1 and the scaled features, (d + 1,); features that never varied are 0 once standardized."""
    x = np.ones(len(context) + 1)
    for j in range(len(context)):
        if scales.seen[0] < _EARLY:
            x[1 + j] = context[j] / scales.largest[j] if scales.largest[j] > 0.0 else 0.0
        else:
            deviation = np.sqrt(scales.squares[j] / scales.seen[0])
            # Rounding leaves a constant feature with a tiny deviation.
            varies = deviation > 1e-9 * scales.largest[j]
            x[1 + j] = (context[j] - scales.means[j]) / deviation if varies else 0.0
    return x


@compiled
def _best(x: FloatArray, alpha: float, ridge: _Ridge) -> int:
    """Return the label with the largest bound, the first of equals."""
    best, most = 0, -np.inf
    for label in range(len(ridge.weights)):
        width = np.sqrt(max(np.dot(x, np.dot(ridge.inverses[label], x)), 0.0))
        bound = np.dot(ridge.weights[label], x) + alpha * width
        if bound > most:
            best, most = label, bound
    return best


@compiled
def _forget(forgetting: float, ridge: _Ridge) -> None:
    """Divide the inverses by the factor. The weights stay, because both sides of their equations have the factor."""
    for label in range(len(ridge.inverses)):
        if np.trace(ridge.inverses[label]) <= forgetting * ridge.inverses.shape[1]:
            ridge.inverses[label] /= forgetting


@compiled
def _learn(x: FloatArray, label: int, reward: float, ridge: _Ridge) -> None:
    """Add a round to the regression of its label, by the formula of Sherman and Morrison."""
    P, weights = ridge.inverses[label], ridge.weights[label]
    direction = np.dot(P, x)
    gain = direction / (1.0 + np.dot(x, direction))
    weights += gain * (reward - np.dot(weights, x))
    P -= np.outer(gain, direction)
