"""Linear classes of 15 normal features whose weights change: slowly, by rotation, or at once."""

import numpy as np

from benchmarks.papers.data.chunks import CHUNK
from benchmarks.papers.data.points import mislabelled
from learners.base import FloatArray, IntArray

_POINTS, _WEIGHTS = 19, 20  # random number streams
_NOISE = 0.1
N_CLASSES, N_FEATURES = 5, 15


def rotating(n: int, seed: int, chunk: int, period: float) -> tuple[FloatArray, IntArray]:
    """Draw points whose classes' weights rotate, each in its own random plane, once per period of rounds.

    10 % of the labels are replaced by uniform ones. An infinite period means no change.
    """
    points = _normal(n, seed, chunk)
    first, second = _planes(seed)
    angles = 2.0 * np.pi * (chunk * CHUNK + np.arange(n)[:, None]) / period
    scores = np.cos(angles) * (points @ first) + np.sin(angles) * (points @ second)
    return points, mislabelled(scores.argmax(axis=1), N_CLASSES, _NOISE, seed, chunk)


def _planes(seed: int) -> tuple[FloatArray, FloatArray]:
    """Return an orthonormal pair of vectors for each class, twice (features, classes)."""
    pairs = np.random.default_rng([seed, _WEIGHTS]).standard_normal((N_CLASSES, N_FEATURES, 2))
    bases, _ = np.linalg.qr(pairs)
    return bases[:, :, 0].T, bases[:, :, 1].T


def abrupt(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw points whose classes have new weights every 25,000 rounds. 10 % of the labels are replaced."""
    points, labels = _normal(n, seed, chunk), np.empty(n, dtype=np.int64)
    phases = (chunk * CHUNK + np.arange(n)) // 25_000
    for phase in np.unique(phases):
        weights = np.random.default_rng([seed, _WEIGHTS, phase]).standard_normal((N_FEATURES, N_CLASSES))
        labels[phases == phase] = (points[phases == phase] @ weights).argmax(axis=1)
    return points, mislabelled(labels, N_CLASSES, _NOISE, seed, chunk)


def _normal(n: int, seed: int, chunk: int) -> FloatArray:
    return np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, N_FEATURES))
