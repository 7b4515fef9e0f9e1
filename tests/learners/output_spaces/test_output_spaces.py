"""Output spaces: traces, vertices, constants, decoding, surrogate losses, matchings."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from learners.base import FloatArray
from learners.output_spaces.base import OutputSpace
from learners.output_spaces.binary import Binary, Multilabel, Ordinal
from learners.output_spaces.birkhoff import Matching, balance, below_best, best_assignment, decompose
from learners.output_spaces.fixed_size import FixedSize
from learners.output_spaces.listed import Crf, Listed
from learners.output_spaces.permutahedron import Ranking
from learners.output_spaces.simplex import Multiclass
from tests.learners.arrays import assert_close
from tests.learners.output_spaces.trees import Trees
from tests.learners.traces import MICRO

TRACED: dict[str, OutputSpace] = {
    "multilabel": Multilabel(n_labels=3, regularization=4.0),
    "birkhoff": Matching(n_items=3),
    "permutahedron": Ranking(n_items=4, regularization=1.0),
    "ordinal": Ordinal(n_steps=4, regularization=3.0),
}


@pytest.mark.parametrize("name", TRACED)
def test_micro_trace(name: str) -> None:
    space, trace = TRACED[name], MICRO[f"fy_{name}"]
    constants = space.constants
    assert_close(tuple(constants[:3]), (trace["gamma"], trace["nu"], trace["lam"]), 1e-9)
    for expected in trace["rounds"]:
        theta, y = np.array(expected["theta"], dtype=np.float64), np.array(expected["y"])
        mean = space.decode(theta)
        nearest = space.nearest(mean)
        actual = {"yhat": mean, "ystar": nearest, "delta": space.distance(mean, nearest), "p": space.mixing(mean)}
        actual |= {"S": space.surrogate(theta, y), "expected_L": space.expected_loss(mean, y)}
        for key, value in actual.items():
            assert_close(value, expected[key], 1e-9)
        for vertex in vertices(space):
            written = ",".join(f"{entry:.0f}" for entry in vertex)
            assert_close(space.probability(mean, vertex), expected["P"].get(written, 0.0), 1e-9)


LISTED = ("11000", "01100", "00110", "00011", "10001", "11111")
SLATES = ("1100", "0110", "0011")

SPACES: list[Any] = [
    *(Multiclass(n_labels=2), Multiclass(n_labels=5, regularization=3.0)),
    *(Multilabel(n_labels=1), Multilabel(n_labels=4)),
    *(Matching(n_items=2), Matching(n_items=3, sharpness=1.9), Matching(n_items=4)),
    *(Ranking(n_items=2), Ranking(n_items=3), Ranking(n_items=5)),
    *(Ordinal(n_steps=1), Ordinal(n_steps=6)),
    *(FixedSize(n_labels=2, size=1), FixedSize(n_labels=5, size=2), FixedSize(n_labels=4, size=3, regularization=2.0)),
    *(Listed(sets=LISTED), Listed(sets=SLATES), Listed(sets=("01", "11")), Trees()),
    *(Crf(sets=LISTED), Crf(sets=SLATES, regularization=3.0), Crf(sets=("01", "11"))),
]

SPACE_ID: Any = lambda space: f"{space.name}-{space.dimension}"  # noqa: E731
EACH_SPACE = pytest.mark.parametrize("space", SPACES, ids=SPACE_ID)


@EACH_SPACE
def test_constants_match_the_vertices(space: OutputSpace) -> None:
    """ν and the diameter are the least and greatest distances, γ and κ are valid bounds, and L is in [0, 1]."""
    V, constants = vertices(space), space.constants
    pairs = [(a, b) for a, b in itertools.permutations(V[:130], 2)]
    distances = np.array([space.distance(a, b) for a, b in pairs])
    losses = np.array([space.target_loss(a, b) for a, b in pairs])
    assert_close(distances.min(), constants.nu, 1e-12)
    assert_close(distances.max(), constants.diameter, 1e-12)
    assert (losses <= constants.gamma * distances + 1e-12).all()
    assert losses.min() > 0.0
    assert losses.max() <= 1.0 + 1e-12
    assert all(space.target_loss(v, v) == 0.0 for v in V)
    euclidean = np.array([np.linalg.norm(a - b) for a, b in pairs])
    assert (euclidean <= constants.kappa * distances + 1e-12).all()
    assert 0.0 < constants.loss_share < 1.0


@pytest.mark.parametrize("d", [3, 4, 5])
def test_ranking_gamma_is_exact(d: int) -> None:
    """γ is the exact supremum over the vertices, and exceeds the γ printed in the paper."""
    space = Ranking(n_items=d)
    pairs = list(itertools.permutations(vertices(space), 2))
    steepest = max(space.target_loss(a, b) / space.distance(a, b) for a, b in pairs)
    printed = math.sqrt((2 * d + 1) / (6 * d * (d + 1))) / (d - 1)
    assert_close(steepest, space.constants.gamma, 1e-12)
    assert steepest > printed * 1.01


@EACH_SPACE
def test_contains_accepts_only_vertices(space: OutputSpace) -> None:
    V = vertices(space)
    assert all(space.contains(v) for v in V)
    wrong = [V[0] + 1e-9, V[0] + 2.0, V[0] + np.nan, V[0] - np.inf, V[0, :-1], V[:1], np.append(V[0], 0.0)]
    assert not any(space.contains(v) for v in wrong)
    assert not any(space.probability(space.decode(np.zeros(space.dimension)), v) for v in wrong)


@pytest.mark.parametrize("space", [space for space in SPACES if not isinstance(space, Crf)], ids=SPACE_ID)
def test_decoding_maximizes_the_regularized_score(space: OutputSpace) -> None:
    """No point between ŷ and any vertex has a greater ⟨θ, y⟩ - Ψ(y)."""
    V = vertices(space)
    for theta in random_scores(space, 1):
        mean = space.decode(theta)
        best = theta @ mean - regularizer(space, mean[None])[0]
        for share in (1e-3, 0.1, 1.0):
            points = (1 - share) * mean + share * V
            assert (points @ theta - regularizer(space, points) <= best + 1e-9 * (1.0 + np.abs(theta).max())).all()


@EACH_SPACE
def test_random_vertex_has_the_mean(space: OutputSpace) -> None:
    V = vertices(space)
    for theta in random_scores(space, 2, 4):
        mean = space.decode(theta)
        law = np.array([space.vertex_probability(mean, v) for v in V])
        assert law.min() >= 0.0
        assert_close(law.sum(), 1.0, 1e-10)
        assert_close(law @ V, mean[: space.dimension], 1e-10)


@EACH_SPACE
def test_sample_frequencies_match_probabilities(space: OutputSpace) -> None:
    rng, V, n = np.random.default_rng(3), vertices(space), 4000
    theta = 0.7 * space.constants.strong_convexity * rng.normal(size=space.dimension)
    if isinstance(space, Ordinal):  # otherwise most of the steps would be equal
        theta = 0.5 * np.sort(np.abs(theta))[::-1]
    mean = space.decode(theta)
    answers = np.array([space.sample(theta, u) for u in rng.random((n, space.n_uniforms))])
    counts = np.array([(answers == v).all(axis=1).sum() for v in V])
    P = np.array([space.probability(mean, v) for v in V])
    assert counts.sum() == n
    assert_close(P.sum(), 1.0, 1e-10)
    assert (np.abs(counts - n * P) <= 5.0 * np.sqrt(n * P * (1.0 - P)) + 1e-9).all()


@EACH_SPACE
def test_nearest_is_the_closest_vertex(space: OutputSpace) -> None:
    """No vertex is closer to ŷ than y*, and the mixing probability is min(1, 2 dist(y*, ŷ)/ν)."""
    V = vertices(space)
    for theta in random_scores(space, 4, 6):
        mean = space.decode(theta)
        nearest = space.nearest(mean)
        distances = [space.distance(v, mean[: space.dimension]) for v in (nearest, *V)]
        assert distances[0] <= min(distances) + 1e-9
        assert_close(space.mixing(mean), min(1.0, 2.0 * distances[0] / space.constants.nu), 1e-12)
        last = np.full(space.n_uniforms, 1.0 - 1e-16)
        assert space.contains(space.randomize(mean, last))


@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.parametrize("scale", [1e3, 1e9, 1e18])
def test_huge_scores_decode_to_finite_means(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    spaces = (Multiclass(n_labels=n), Multilabel(n_labels=n), Ordinal(n_steps=n), Ranking(n_items=n))
    several = (FixedSize(n_labels=n, size=2), Listed(sets=some_sets(n)), Crf(sets=some_sets(n)))
    for space in (*spaces, *several, Matching(n_items=n)):
        for theta in scale * rng.normal(size=(3, space.dimension)):
            mean = space.decode(theta)
            assert np.isfinite(mean).all()
            assert space.contains(space.sample(theta, np.zeros(space.n_uniforms)))
            assert space.contains(space.nearest(mean))
            assert np.isfinite(space.surrogate(theta, space.nearest(mean)))
            if isinstance(space, Matching):
                assert_close(mean.reshape(n, n).sum(axis=0), np.ones(n), 1e-12)
                assert_close(mean.reshape(n, n).sum(axis=1), np.ones(n), 1e-12)


SCALES = (0.01, 0.3, 1.0, 3.0, 8.0)


def vertices(space: OutputSpace) -> FloatArray:
    """Return all outputs of a space (V, D)."""
    D = space.dimension
    if isinstance(space, Multiclass):
        return np.eye(D)
    if isinstance(space, Listed):
        return space.vertices.astype(np.float64)
    if isinstance(space, Binary) and not isinstance(space, Ordinal):
        cube = np.array(list(itertools.product((0.0, 1.0), repeat=D)))
        return cube[[space.is_vertex(v) for v in cube]]
    if isinstance(space, Matching):
        eye = np.eye(space.n_items)
        return np.array([eye[list(p)].reshape(-1) for p in itertools.permutations(range(space.n_items))])
    if isinstance(space, Ranking):
        return np.array(list(itertools.permutations(np.arange(1.0, D + 1.0))))
    return np.tri(D + 1, D, -1)


def regularizer(space: Any, points: FloatArray) -> FloatArray:
    """Return Ψ of points (n, D) of the hull."""
    if isinstance(space, Multiclass | Matching):
        entropy = -(points * np.log(np.maximum(points, 1e-300))).sum(axis=1)
        return np.asarray(-entropy * (space.regularization if isinstance(space, Multiclass) else 1 / space.sharpness))
    return np.asarray(space.constants.strong_convexity / 2 * (points**2).sum(axis=1))


def some_sets(n: int) -> tuple[str, ...]:
    digits = np.random.default_rng(n).integers(0, 2, size=(20, n))
    return tuple(dict.fromkeys("".join(map(str, row)) for row in digits))


def random_scores(space: OutputSpace, seed: int, n: int = 12) -> FloatArray:
    rng = np.random.default_rng(seed)
    rows = [scale * space.constants.strong_convexity * rng.normal(size=(n, space.dimension)) for scale in SCALES]
    tied = np.round(rng.normal(size=(n, space.dimension)))
    return np.concatenate([np.zeros((1, space.dimension)), tied, *rows])


@pytest.mark.parametrize("space", [space for space in SPACES if not isinstance(space, Crf)], ids=SPACE_ID)
def test_surrogate_matches_the_formula(space: OutputSpace) -> None:
    """S = Ψ*(θ) + Ψ(y) - ⟨θ, y⟩ for every vertex."""
    V = vertices(space)
    for theta in random_scores(space, 5, 6):
        mean = space.decode(theta)
        conjugate = theta @ mean - regularizer(space, mean[None])[0]
        expected = conjugate + regularizer(space, V) - V @ theta
        assert_close(np.array([space.surrogate(theta, v) for v in V]), expected, 1e-9)


@EACH_SPACE
def test_surrogate_bounds_the_expected_loss(space: OutputSpace) -> None:
    """Lemma 3.1: E[L] <= 4γ/(λν) S for all scores and truths, with E[L] by enumeration; S >= (λ/2)‖y - ŷ‖²."""
    V, constants = vertices(space), space.constants
    for theta in random_scores(space, 6, 6):
        mean = space.decode(theta)
        P = np.array([space.probability(mean, v) for v in V])
        for y in V:
            S, expected = space.surrogate(theta, y), space.expected_loss(mean, y)
            assert_close(P @ np.array([space.target_loss(v, y) for v in V]), expected, 1e-9)
            assert expected <= constants.loss_share * S + 1e-9
            assert constants.strong_convexity / 2 * space.distance(y, mean[: space.dimension]) ** 2 <= S + 1e-9


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6, 1e18])
def test_matching_mean_is_doubly_stochastic(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    lines = scale * np.outer(np.arange(n), rng.normal(size=n))
    ties = scale * rng.choice([0.0, -1.0], size=(5, n, n), p=[0.3, 0.7])
    for scores in (lines, *ties, *(scale * rng.normal(size=(5, n, n)))):
        mean = balance(below_best(scores))
        assert np.abs(mean.sum(axis=0) - 1.0).max() <= 1e-9
        assert np.abs(mean.sum(axis=1) - 1.0).max() <= 1e-9


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
def test_matching_mean_is_the_limit_of_sinkhorn_iterations(scale: float) -> None:
    rng = np.random.default_rng(7)
    for scores in (scale * rng.normal(size=(5, 5)), scale * np.round(rng.normal(size=(5, 5)))):
        u = np.zeros((5, 1))
        for _ in range(100_000):
            v = -np.logaddexp.reduce(scores + u, axis=0, keepdims=True)
            u = -np.logaddexp.reduce(scores + v, axis=1, keepdims=True)
        assert_close(Matching(n_items=5).decode(scores.reshape(-1)), np.exp(scores + u + v).reshape(-1), 1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_best_assignment_matches_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    for gains in (*rng.normal(size=(10, n, n)), *np.round(rng.normal(size=(10, n, n))), np.zeros((n, n))):
        columns = best_assignment(gains)
        assert sorted(columns) == list(range(n))
        rows, theirs = linear_sum_assignment(-gains)
        assert_close(gains[np.arange(n), columns].sum(), gains[rows, theirs].sum(), 1e-9)


@pytest.mark.parametrize("n", [2, 7, 15])
def test_decomposition_reproduces_the_matrix(n: int) -> None:
    """The mixture of at most n² permutations is the matrix."""
    for theta in np.random.default_rng(n).normal(size=(5, n * n)):
        mean = Matching(n_items=n).decode(theta)
        weights, permutations = decompose(mean.reshape(n, n))
        mixture = sum(w * np.eye(n)[p] for w, p in zip(weights, permutations, strict=True))
        assert len(weights) <= n * n
        assert weights.min() > 0.0
        assert_close(mixture, mean.reshape(n, n), 1e-10)
