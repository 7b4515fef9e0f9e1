"""Rounds where each label is right with a chance, independently: several labels can be right, or none."""

import numpy as np

from benchmarks.papers.data.chunks import CHUNK
from learners.base import BoolArray, FloatArray, IntArray

_WEIGHTS, _POINTS, _CLICKS, _RATES = 14, 15, 16, 17  # random number streams


def independent(n: int, seed: int, chunk: int, K: int, base: float) -> tuple[FloatArray, IntArray, BoolArray]:
    """Draw 10 normal features of norm 1 and a constant. Chances are logistic, with mean log-odds `base`.

    Returns:
        the contexts (n, 11), the most likely labels (n,), and which labels are right (n, K).
    """
    weights = 3.0 * np.random.default_rng([seed, 10, K]).standard_normal((10, K))
    rng = np.random.default_rng([seed, 11, chunk])
    points = rng.standard_normal((n, 10))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    chances = 1.0 / (1.0 + np.exp(-base - points @ weights))
    right = np.random.default_rng([seed, 12, chunk]).random((n, K)) < chances
    contexts = np.column_stack([points, np.ones(n)]) / np.sqrt(2.0)
    return contexts, chances.argmax(axis=1), right


def tested(n: int, seed: int, chunk: int, chances: FloatArray) -> tuple[FloatArray, IntArray, BoolArray]:
    """Draw rounds of an A/B test: a constant feature, and a fixed chance (K,) for each label."""
    right = np.random.default_rng([seed, 13, chunk]).random((n, len(chances))) < chances
    return np.ones((n, 1)), np.full(n, int(chances.argmax())), right


def catalogue(n: int, seed: int, chunk: int, K: int) -> tuple[FloatArray, IntArray, BoolArray]:
    """Draw rounds of K items whose click rates depend little on 10 normal features of norm 1.

    The log-odds of the rates are normal with mean -2 and deviation 1. A tenth of them are drawn again every 5,000
    rounds.

    Returns:
        the contexts (n, 10), the most likely labels (n,), and which labels are right (n, K), independently.
    """
    epochs = (chunk * CHUNK + np.arange(n)) // 5_000
    points = _directions(n, seed, chunk)
    weights = 0.5 * np.random.default_rng([seed, _WEIGHTS, K]).standard_normal((10, K))
    chances = _logistic(_changing_odds(seed, K, int(epochs[-1]) + 1)[epochs] + points @ weights)
    return points, chances.argmax(axis=1), _clicks(seed, chunk, chances)


def _changing_odds(seed: int, K: int, epochs: int) -> FloatArray:
    """Return the log-odds of each item in each epoch, (epochs, K)."""
    odds = np.empty((epochs, K))
    odds[0] = np.random.default_rng([seed, _RATES, 0]).normal(-2.0, 1.0, K)
    for epoch in range(1, epochs):
        rng = np.random.default_rng([seed, _RATES, epoch])
        changed = rng.permutation(K)[: K // 10]
        odds[epoch] = odds[epoch - 1]
        odds[epoch, changed] = rng.normal(-2.0, 1.0, len(changed))
    return odds


def rare_clicks(n: int, seed: int, chunk: int, K: int) -> tuple[FloatArray, IntArray, BoolArray]:
    """Draw 10 normal features of norm 1, and clicks on at most one of K labels per round, with logistic chances.

    A uniform label is clicked with probability .006 on average, the best label of each context with .027.

    Returns:
        the contexts (n, 10), the most likely labels (n,), and which label is right, if any, (n, K).
    """
    points = _directions(n, seed, chunk)
    weights = 1.5 * np.random.default_rng([seed, _WEIGHTS, K]).standard_normal((10, K))
    chances = _logistic(points @ weights - 6.0)
    ends = np.cumsum(chances / np.maximum(1.0, chances.sum(axis=1, keepdims=True)), axis=1)
    uniforms = np.random.default_rng([seed, _CLICKS, chunk]).random((n, 1))
    return points, chances.argmax(axis=1), (uniforms < ends) & (uniforms >= ends - chances)


def uninformative(n: int, seed: int, chunk: int, d: int, chances: FloatArray) -> tuple[FloatArray, IntArray, BoolArray]:
    """Draw normal vectors (n, d) of norm 1 that say nothing, and labels with fixed chances (K,), independently."""
    points = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    right = _clicks(seed, chunk, np.broadcast_to(chances, (n, len(chances))))
    return points, np.full(n, int(chances.argmax())), right


def _directions(n: int, seed: int, chunk: int) -> FloatArray:
    points = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, 10))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def _logistic(odds: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-odds)))


def _clicks(seed: int, chunk: int, chances: FloatArray) -> BoolArray:
    return np.asarray(np.random.default_rng([seed, _CLICKS, chunk]).random(chances.shape) < chances)
