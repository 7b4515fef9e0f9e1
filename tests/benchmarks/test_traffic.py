"""The levels of a service's traffic: what uniform and ideal labels lose, and what changes."""

import numpy as np
import pytest

from benchmarks.papers.data.chunks import Chunk
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.data.traffic import TRAFFIC
from learners.base import FloatArray, IntArray


def first(name: str, rounds: int) -> Chunk:
    return open_stream(name, None).chunk(0, 0, rounds)


@pytest.mark.parametrize(
    ("name", "uniform", "best", "tolerance"),
    [
        ("rare-clicks", 0.994, 0.973, 0.004),
        ("several-right-384", 0.39, 0.09, 0.03),
        ("noise-384", 0.433, 0.19, 0.02),
        ("catalogue", 0.85, 0.40, 0.04),
    ],
)
def test_uniform_and_most_likely_labels_lose_as_stated(
    name: str, uniform: float, best: float, tolerance: float
) -> None:
    chunk, K = first(name, 3000), TRAFFIC[name].problem.n_labels
    losses = chunk.losses(K)
    assert losses.mean() == pytest.approx(uniform, abs=tolerance)
    assert losses[np.arange(3000), chunk.labels].mean() == pytest.approx(best, abs=tolerance)


@pytest.mark.parametrize("name", ["noise-384", "several-right-384", "one-right-384"])
def test_embeddings_have_norm_1_and_a_constant(name: str) -> None:
    matrix = first(name, 50).contexts.values.reshape(50, -1)
    np.testing.assert_allclose(np.linalg.norm(matrix[:, :-1], axis=1), 1.0)
    np.testing.assert_array_equal(matrix[:, -1], 1.0)


def test_at_most_one_rare_click_per_round() -> None:
    right = first("rare-clicks", 5000).right
    assert right is not None
    assert right.sum(axis=1).max() == 1


def test_the_sign_of_a_product_is_half_of_the_label() -> None:
    """The stated rule is wrong only where a uniform label replaces its own: in 5 % · 3/4 of the rounds."""
    chunk = first("xor", 5000)
    x = chunk.contexts.values.reshape(5000, -1)
    rule = 2 * (x[:, 0] * x[:, 1] > 0.0) + (x[:, 2] + 0.5 * x[:, 3] > 0.0)
    assert (rule != chunk.labels).mean() == pytest.approx(0.0375, abs=0.01)


def test_one_percent_of_the_labels_is_imbalanced() -> None:
    assert first("imbalanced", 20_000).labels.mean() == pytest.approx(0.01, abs=0.002)


@pytest.mark.parametrize(
    ("name", "later"),
    [("stationary", 0.75), ("rotating-slow", 0.45), ("rotating", 0.01), ("abrupt", 0.2)],
)
def test_rules_of_the_past_age_at_their_own_speed(name: str, later: float) -> None:
    """Linear scores of the first 2,000 rounds, 25,000 rounds later: after half a turn, an eighth, or new weights."""
    chunk = first(name, 27_000)
    points, weights = chunk.contexts.values.reshape(27_000, -1), early_weights(chunk)
    assert right(points[:2000], chunk.labels[:2000], weights) > 0.7
    assert right(points[25_000:], chunk.labels[25_000:], weights) == pytest.approx(later, abs=0.15)


@pytest.mark.parametrize(("name", "least", "most"), [("rotating", 0.7, 1.0), ("rotating-slow", 0.0, 0.3)])
def test_weights_return_after_a_whole_turn(name: str, least: float, most: float) -> None:
    """The next chunk begins after 50,000 rounds: a whole turn, or a quarter of one."""
    later = open_stream(name, None).chunk(0, 1, 2000)
    share = right(later.contexts.values.reshape(2000, -1), later.labels, early_weights(first(name, 2000)))
    assert least < share < most


def early_weights(chunk: Chunk) -> FloatArray:
    """Return the linear scores that fit the labels of the first 2,000 rounds best, (features, 5)."""
    points = chunk.contexts.values.reshape(chunk.contexts.n, -1)[:2000]
    return np.asarray(np.linalg.lstsq(points, np.eye(5)[chunk.labels[:2000]], rcond=None)[0], np.float64)


def right(points: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    return float(((points @ weights).argmax(axis=1) == labels).mean())
