"""Dense points with a class each: many classes, columns of different scales or with heavy tails, drifts, and orders."""

from collections.abc import Callable

import numpy as np

from benchmarks.papers.data.chunks import CHUNK
from learners.base import FloatArray, IntArray

_CENTRES, _POINTS, _LABELS, _AXES = 7, 8, 9, 18  # random number streams


def clusters(n: int, seed: int, chunk: int, K: int, d: int, spread: float, noise: float) -> tuple[FloatArray, IntArray]:
    """Draw points of norm 1 around K random centres. A label is a uniform one with probability `noise`."""
    uniforms = np.random.default_rng([seed, _LABELS, chunk]).random((n, 3))
    classes = (uniforms[:, 0] * K).astype(np.int64)
    labels = np.where(uniforms[:, 1] < noise, (uniforms[:, 2] * K).astype(np.int64), classes)
    return _around(classes, seed, chunk, K, d, np.full(n, spread)), labels


def drifting(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw points of 8 classes of 20 features. At half of the chunk each centre passes to the next class."""
    points, labels = clusters(n, seed, chunk, 8, 20, 0.25, 0.05)
    return points, np.where(np.arange(n) < CHUNK // 2, labels, (labels + 1) % 8)


def by_class(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw points of 10 classes in blocks of 1,000 rounds with one class each."""
    classes = np.arange(n) // 1000 % 10
    return _around(classes, seed, chunk, 10, 20, np.full(n, 0.3)), classes


def by_difficulty(n: int, seed: int, chunk: int, easiest_first: bool) -> tuple[FloatArray, IntArray]:
    """Draw points of 10 classes. Their spread grows or falls linearly in the first half of the chunk."""
    hardness = np.minimum(np.arange(n) / (CHUNK // 2), 1.0)
    classes = np.random.default_rng([seed, _LABELS, chunk]).integers(0, 10, n)
    spreads = 0.05 + 0.45 * (hardness if easiest_first else 1.0 - hardness)
    return _around(classes, seed, chunk, 10, 20, spreads), classes


def _around(classes: IntArray, seed: int, chunk: int, K: int, d: int, spreads: FloatArray) -> FloatArray:
    centres = np.random.default_rng([seed, _CENTRES, K]).standard_normal((K, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    scatter = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((len(classes), d))
    points = centres[classes] + spreads[:, None] * scatter
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def scaled(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw 13 columns of scales 1, √10, … 10^6, half of them with a mean; the 5 classes ignore the scales."""
    columns = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, 13))
    labels = _linear(columns, seed, 5)
    offsets = np.where(np.arange(13) % 2 == 0, 0.0, 2.0)
    return np.asarray((columns + offsets) * 10.0 ** (np.arange(13) / 2.0)), labels


def lognormal(normals: FloatArray) -> FloatArray:
    """Map normal numbers to positive ones with a heavy tail."""
    return np.asarray(np.exp(1.5 * normals))


def cauchy(normals: FloatArray) -> FloatArray:
    """Map pairs of normal numbers to Cauchy numbers, their ratios."""
    return np.asarray(normals[:, ::2] / normals[:, 1::2])


def heavy_tailed(
    n: int, seed: int, chunk: int, transformed: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, IntArray]:
    """Draw 20 normal columns, transform them, and cut the transformed columns linearly into 5 classes."""
    points = transformed(np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, 20)))
    return points, _linear(points, seed, 5)


def _linear(points: FloatArray, seed: int, K: int) -> IntArray:
    weights = np.random.default_rng([seed, _CENTRES, K]).standard_normal((points.shape[1], K))
    return np.asarray((points @ weights).argmax(axis=1), dtype=np.int64)


def one_feature(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw one feature in (-1, 1); its sign is the label, with 10 % wrong labels."""
    uniforms = np.random.default_rng([seed, _LABELS, chunk]).random((n, 2))
    points = 2.0 * uniforms[:, :1] - 1.0
    return points, ((points[:, 0] > 0.0) ^ (uniforms[:, 1] < 0.1)).astype(np.int64)


def correlated(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw 20 normal columns with scales 1 to .03 along random axes. Cut them linearly into 6 classes.

    The classes have random weights on the whitened columns, so that small axes matter as much as large ones.
    """
    whitened = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, 20))
    axes, _ = np.linalg.qr(np.random.default_rng([seed, _AXES]).standard_normal((20, 20)))
    return np.asarray((whitened * np.geomspace(1.0, 0.03, 20)) @ axes), _linear(whitened, seed, 6)


def student(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw 15 columns of Student's t with 2 degrees of freedom. Cut them linearly into 5 classes; 10 % are wrong."""
    points = np.random.default_rng([seed, _POINTS, chunk]).standard_t(2.0, (n, 15))
    return points, mislabelled(_linear(points, seed, 5), 5, 0.1, seed, chunk)


def few_useful(n: int, seed: int, chunk: int, useful: int, d: int, K: int) -> tuple[FloatArray, IntArray]:
    """Draw d normal columns. The first ones cut the rows linearly into K classes, 10 % of them wrong."""
    points = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, d))
    return points, mislabelled(_linear(points[:, :useful], seed, K), K, 0.1, seed, chunk)


def xor(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw 10 normal columns and 4 classes: the sign of a product of two columns, and that of a sum of two others.

    No linear learner can tell the sign of the product. 5 % of the labels are replaced.
    """
    points = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, 10))
    of_product = points[:, 0] * points[:, 1] > 0.0
    of_sum = points[:, 2] + 0.5 * points[:, 3] > 0.0
    return points, mislabelled(2 * of_product + of_sum, 4, 0.05, seed, chunk)


def imbalanced(n: int, seed: int, chunk: int) -> tuple[FloatArray, IntArray]:
    """Draw 10 normal columns. 1 % of the rows have label 1: those with the largest noisy linear scores."""
    points = np.random.default_rng([seed, _POINTS, chunk]).standard_normal((n, 10))
    weights = np.random.default_rng([seed, _CENTRES, 2]).standard_normal(10)
    noise = np.random.default_rng([seed, _LABELS, chunk]).standard_normal(n)
    scores = points @ (weights / np.linalg.norm(weights)) + noise
    return points, (scores > 2.326 * np.sqrt(2.0)).astype(np.int64)  # 99 % of a normal variable is below 2.326


def mislabelled(labels: IntArray, K: int, share: float, seed: int, chunk: int) -> IntArray:
    """Replace each label by a uniform one with probability `share`."""
    uniforms = np.random.default_rng([seed, _LABELS, chunk]).random((len(labels), 2))
    return np.where(uniforms[:, 0] < share, (uniforms[:, 1] * K).astype(np.int64), labels)
