"""Rounds where each label is right with a chance, independently: several labels can be right, or none."""

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray


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
