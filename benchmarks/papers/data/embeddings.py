"""Dense vectors of norm 1 with the structure of text embeddings: a common mean, clusters or factors, and noise."""

import numpy as np

from benchmarks.papers.data.points import mislabelled
from learners.base import BoolArray, FloatArray, IntArray

_MODEL, _POINTS, _TOPICS, _RIGHT = 21, 22, 23, 24  # random number streams
_TOPICS_COUNT, _FACTORS, _LEADING = 100, 16, 6


def one_right(n: int, seed: int, chunk: int, K: int, d: int, spread: float) -> tuple[FloatArray, IntArray]:
    """Draw vectors (n, d) around 100 topics. Each topic has a label; a uniform one replaces it in 10 % of the rounds.

    A vector of norm 1 is proportional to the sum of a common mean and the centre of its topic, each of norm 1, and
    noise of norm about `spread`.
    """
    rng = np.random.default_rng([seed, _MODEL, d])
    common, centres = _unit(rng.standard_normal((1, d))), _unit(rng.standard_normal((_TOPICS_COUNT, d)))
    labels = rng.permutation(np.arange(_TOPICS_COUNT) % K)
    topics = np.random.default_rng([seed, _TOPICS, chunk]).integers(0, _TOPICS_COUNT, n)
    vectors = _unit(common + centres[topics] + spread * _noise(n, seed, chunk, d))
    return vectors, mislabelled(labels[topics], K, 0.1, seed, chunk)


def several_right(n: int, seed: int, chunk: int, K: int, d: int) -> tuple[FloatArray, IntArray, BoolArray]:
    """Draw vectors (n, d) of 16 factors and noise. Each label is right with its own chance, independently.

    The log-odds of the chances are linear in the first 6 factors, and their means run from 2 to -0.8.

    Returns:
        the vectors, the most likely labels (n,), and which labels are right (n, K).
    """
    rng = np.random.default_rng([seed, _MODEL, d])
    loadings = _unit(rng.standard_normal((_FACTORS, d))) / np.sqrt(1.0 + np.arange(_FACTORS))[:, None]
    weights = rng.standard_normal((_LEADING, K)) / np.sqrt(_LEADING)
    bases = rng.permutation(np.linspace(2.0, -0.8, K))
    factors = np.random.default_rng([seed, _TOPICS, chunk]).standard_normal((n, _FACTORS))
    chances = 1.0 / (1.0 + np.exp(-bases - factors[:, :_LEADING] @ weights))
    right = np.random.default_rng([seed, _RIGHT, chunk]).random((n, K)) < chances
    return _unit(factors @ loadings + 4.0 * _noise(n, seed, chunk, d)), chances.argmax(axis=1), right


def _noise(n: int, seed: int, chunk: int, d: int) -> FloatArray:
    """Return normal vectors (n, d) of norm about 1."""
    return np.asarray(np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, d)) / np.sqrt(d))


def _unit(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
