"""The decoder that only knows an oracle: it agrees with the special decoders, and its laws have the mean."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from learners.base import BoolArray, FloatArray
from learners.mathematics.frank_wolfe import Oracle, nearest_point
from learners.output_spaces.binary import Multilabel
from learners.output_spaces.birkhoff import Matching
from learners.output_spaces.fixed_size import FixedSize
from learners.output_spaces.listed import Crf, Listed, fault_of
from learners.output_spaces.permutahedron import Ranking
from learners.output_spaces.polytope import Polytope
from tests.learners.arrays import assert_close
from tests.learners.output_spaces.trees import Trees

SCALES = (0.0, 0.1, 0.5, 1.0, 3.0, 1e3)


def ranks(costs: FloatArray) -> FloatArray:
    """Return the permutation of D, …, 1 of least cost."""
    result = np.empty(len(costs))
    result[np.argsort(costs, kind="stable")] = np.arange(len(costs), 0.0, -1.0)
    return result


def assignment(costs: FloatArray) -> FloatArray:
    n = math.isqrt(len(costs))
    return np.asarray(np.eye(n)[linear_sum_assignment(costs.reshape(n, n))[1]].reshape(-1))


def oracle_of(vertices: FloatArray) -> Oracle:
    return lambda costs: np.asarray(vertices[np.argmin(vertices @ costs)])


def slates(size: int) -> Oracle:
    """Return an oracle of the sets of one size."""
    return lambda costs: np.asarray(np.argsort(np.argsort(costs, kind="stable")) < size, dtype=np.float64)


def law_of(space: Polytope | FixedSize, mean: FloatArray) -> tuple[FloatArray, FloatArray | BoolArray]:
    """Return the law of a random vertex; that of a slate has one interval of its uniform number for each vertex."""
    if isinstance(space, Polytope):
        return space.law(mean)
    weights, vertices, start = list[float](), list[FloatArray](), 0.0
    while start < 1.0:
        vertices.append(space.random_vertex(mean, np.array([start])))
        weights.append(space.vertex_probability(mean, vertices[-1]))
        assert weights[-1] > 0.0
        start += weights[-1]
    return np.array(weights), np.array(vertices)


def rows_of(n_sets: int, n_labels: int, size: int | None, seed: int) -> tuple[str, ...]:
    """Draw different sets, all of one size if given."""
    rng, found = np.random.default_rng(seed), dict[str, None]()
    while len(found) < n_sets:
        row = rng.random(n_labels) < 0.5 if size is None else rng.permutation(n_labels) < size
        found["".join(map(str, row.astype(int)))] = None
    return tuple(found)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("D", [2, 5, 30])
def test_it_equals_the_decoder_of_the_permutahedron(D: int, scale: float) -> None:
    space, rng = Ranking(n_items=D), np.random.default_rng(D)
    for theta in (rng.normal(size=D), np.round(rng.normal(size=D))):
        point = scale * D * theta
        weights, vertices = nearest_point(point, ranks)
        assert all(space.is_vertex(vertex) for vertex in vertices)
        assert_close(weights @ vertices, space.decode(space.constants.strong_convexity * point), 1e-9)
        assert_close(weights.sum(), 1.0, 1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [2, 4, 8])
def test_it_equals_the_decoder_of_the_birkhoff_polytope(n: int, scale: float) -> None:
    """One call of the oracle gives y*, and the convex combination has the same mean as Birkhoff's decomposition."""
    space = Matching(n_items=n)
    for theta in n * scale * np.random.default_rng(n).normal(size=(3, n * n)):
        mean = space.decode(theta)
        weights, vertices = nearest_point(mean, assignment)
        assert all(space.is_vertex(vertex) for vertex in vertices)
        assert_close(weights @ vertices, mean, 1e-9)
        assert_close(weights.sum(), 1.0, 1e-12)
        distances = [space.distance(vertex, mean) for vertex in (assignment(1.0 - 2.0 * mean), space.nearest(mean))]
        assert_close(distances[0], distances[1], 1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("K", "m"), [(2, 1), (5, 4), (6, 3), (40, 3), (41, 30)])
def test_the_closed_form_of_slates_equals_it(K: int, m: int, scale: float) -> None:
    space, rng = FixedSize(n_labels=K, size=m), np.random.default_rng(K)
    for theta in (
        scale * space.constants.strong_convexity * np.stack([rng.normal(size=K), np.round(rng.normal(size=K))])
    ):
        mean = space.decode(theta)
        laws = [nearest_point(point, slates(m)) for point in (theta / space.constants.strong_convexity, mean)]
        assert_close(mean.sum(), float(m), 1e-9)
        assert_close(space.nearest(mean), slates(m)(-mean), 0.0)
        for weights, vertices in (*laws, law_of(space, mean)):
            assert_close(weights.sum(), 1.0, 1e-12)
            assert_close(weights @ vertices, mean, 1e-9)


def test_the_cube_by_the_oracle_is_a_clip() -> None:
    space = Multilabel(n_labels=20)
    for point in np.random.default_rng(1).normal(0.5, 2.0, size=(5, 20)):
        weights, vertices = nearest_point(point, lambda costs: np.asarray(costs < 0.0, dtype=np.float64))
        assert_close(weights @ vertices, space.decode(space.constants.strong_convexity * point), 1e-9)


LARGE: list[Any] = [
    *(FixedSize(n_labels=200, size=7), FixedSize(n_labels=33, size=32)),
    *(Listed(sets=rows_of(300, 12, None, 1)), Listed(sets=rows_of(500, 30, 4, 2)), Trees()),
    *(Crf(sets=rows_of(300, 12, None, 3)), Crf(sets=rows_of(500, 30, 4, 4))),
]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("space", LARGE, ids=lambda space: f"{space.name}-{space.dimension}")
def test_the_law_has_the_mean_and_draws_tell_its_probabilities(space: Polytope | FixedSize, scale: float) -> None:
    """The law sums to 1, its mean is ŷ to 1e-9, and every draw comes with its probability under law and y*."""
    rng, D = np.random.default_rng(5), space.dimension
    for theta in scale * space.constants.strong_convexity * rng.normal(size=(2, D)):
        mean = space.decode(theta)
        weights, vertices = law_of(space, mean)
        assert weights.min() >= 0.0
        assert_close(weights.sum(), 1.0, 1e-12)
        assert_close(weights @ vertices, mean[:D], 1e-9)
        assert len(np.unique(vertices, axis=0)) == len(vertices)
        assert all(space.is_vertex(vertex.astype(np.float64)) for vertex in vertices[:20])
        for uniforms in rng.random((5, 2)):
            output, probability = space.draw(mean, uniforms)
            assert_close(output, space.randomize(mean, uniforms), 0.0)
            assert_close(probability, space.probability(mean, output), 1e-12)
            assert probability > 0.0


@pytest.mark.parametrize("seed", range(5))
def test_no_vertex_is_ahead_of_the_nearest_point(seed: int) -> None:
    """⟨x - p, v - x⟩ >= 0 for every vertex v; nearly for twins, of which one is left out as dependent."""
    rng = np.random.default_rng(seed)
    clouds = [rng.normal(size=(60, 8)), rng.integers(0, 2, size=(60, 8)), rng.integers(0, 3, size=(200, 5))]
    clouds.append(np.concatenate([clouds[0], clouds[0] + 1e-7 * rng.normal(size=(60, 8))]))
    for number, cloud in enumerate(np.asarray(each, dtype=np.float64) for each in clouds):
        inside: FloatArray = cloud.mean(axis=0)
        for point in (*rng.normal(size=(3, cloud.shape[1])), *(5.0 * rng.normal(size=(3, cloud.shape[1]))), inside):
            weights, vertices = nearest_point(point, oracle_of(cloud))
            x = weights @ vertices
            assert weights.min() > 0.0
            assert len(weights) <= cloud.shape[1] + 1
            assert ((cloud - x) @ (x - point)).min() >= -(1e-6 if number == 3 else 1e-12) * (1.0 + np.abs(point).sum())
            if point is inside:
                assert_close(x, point, 1e-9)


class FiniteTrees(Trees):
    def oracle(self, costs: FloatArray) -> FloatArray:
        assert np.isfinite(costs).all()
        return super().oracle(costs)


def test_points_that_are_not_finite_have_no_mean() -> None:
    for space in (Listed(sets=("10", "01", "11")), FiniteTrees(), Crf(sets=("10", "01", "11"))):
        for bad in (math.nan, math.inf):
            assert not np.isfinite(space.decode(np.full(space.dimension, bad))).all()


@pytest.mark.parametrize("rho", [None, 10.0])
def test_the_mean_of_the_crf_is_the_gradient_of_its_loss(rho: float | None) -> None:
    """ŷ - y = ∇S, and S is ρ times minus the log of the probability of y, for p(y) ∝ exp(⟨θ, y⟩/ρ)."""
    space = Crf(sets=rows_of(40, 7, None, 6), regularization=rho)
    V, step = space.vertices.astype(np.float64), 1e-5
    for theta in space.weight * np.random.default_rng(7).normal(size=(4, 7)):
        law = np.exp(V @ theta / space.weight)
        law /= law.sum()
        mean = space.decode(theta)
        assert_close(mean, np.concatenate([law @ V, theta]), 1e-12)
        for y, p in zip(V[:5], law, strict=False):
            assert_close(space.surrogate(theta, y), -space.weight * math.log(p), 1e-9)
            ahead, behind = ([space.surrogate(theta + s * e, y) for e in np.eye(7)] for s in (step, -step))
            assert_close((np.array(ahead) - behind) / (2 * step), law @ V - y, 1e-8)


def test_the_crf_of_single_labels_is_the_logistic_loss() -> None:
    space, theta = Crf(sets=("100", "010", "001"), regularization=1.0), np.array([0.3, -1.0, 2.0])
    assert_close(space.decode(theta)[:3], np.exp(theta) / np.exp(theta).sum(), 1e-12)


def test_distances_of_listed_sets_are_exact() -> None:
    for n_sets, n_labels in ((7, 3), (70, 8), (33, 9), (7, 64), (32, 65), (70, 130)):
        sets = rows_of(n_sets, n_labels, None, n_labels)
        V = np.array([list(map(int, each)) for each in sets])
        found = [int((a != b).sum()) for a, b in itertools.combinations(V, 2)]
        assert Listed(sets=sets).hamming_distances == (min(found), max(found))


@pytest.mark.parametrize(
    ("sets", "reason"),
    [(("10", "1"), "set 1 has 1 digits"), (("10", "01", "10"), "set 2 is the same as set 0"),
     (("1" * 500_001, "0" * 500_001), "at most 1,000,000 digits")],
)  # fmt: skip
def test_impossible_lists_are_refused(sets: tuple[str, ...], reason: str) -> None:
    assert reason in (fault_of(sets, len(sets[0])) or "")
    with pytest.raises(ValueError, match=reason):
        Listed(sets=sets)


def test_slates_of_all_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="less than 3"):
        FixedSize(n_labels=3, size=3)
