"""Output spaces: traces, vertices, constants, decoding."""

import itertools
import math
from typing import Any

import numpy as np
import pydantic
import pytest

from learners.output_spaces import AnyOutputSpace
from learners.output_spaces.base import OutputSpace
from learners.output_spaces.binary import Multilabel, Ordinal
from learners.output_spaces.birkhoff import Matching
from learners.output_spaces.permutahedron import Ranking
from learners.output_spaces.simplex import Multiclass
from tests.learners.arrays import assert_close
from tests.learners.output_spaces.spaces import EACH_SPACE, random_scores, regularizer, vertices
from tests.learners.traces import MICRO

TRACED: dict[str, OutputSpace] = {
    "multilabel": Multilabel(n_labels=3, regularization=4.0),
    "birkhoff": Matching(n_items=3),
    "permutahedron": Ranking(n_items=4, regularization=1.0),
    "ordinal": Ordinal(n_steps=4, regularization=3.0),
}


@pytest.mark.parametrize("name", TRACED)
def test_micro_trace(name: str) -> None:
    """Mean, nearest vertex, mixing, answer, loss and expected target loss of every round match the trace."""
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
    """Every vertex is in the space; points between or outside are not."""
    V = vertices(space)
    assert all(space.contains(v) for v in V)
    wrong = [V[0] + 1e-9, V[0] + 2.0, V[0] + np.nan, V[0] - np.inf, V[0, :-1], V[:1], np.append(V[0], 0.0)]
    assert not any(space.contains(v) for v in wrong)
    assert not any(space.probability(space.decode(np.zeros(space.dimension)), v) for v in wrong)


@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        (Multiclass(n_labels=3), [1.0, 1.0, 0.0]),
        (Multilabel(n_labels=2), [0.0, 2.0]),
        (Matching(n_items=2), [1.0, 0.0, 1.0, 0.0]),
        (Ranking(n_items=3), [3.0, 1.0, 1.0]),
        (Ordinal(n_steps=3), [1.0, 0.0, 1.0]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_contains_rejects_near_vertices(space: OutputSpace, wrong: list[float]) -> None:
    """The right numbers in the wrong places are not an output."""
    assert not space.contains(np.array(wrong))


@pytest.mark.parametrize(
    ("cls", "sizes"),
    [
        (Multiclass, {"n_labels": 3, "regularization": 1.0}),
        (Multilabel, {"n_labels": 16, "regularization": 1.0}),
        (Ordinal, {"n_steps": 16, "regularization": 1.0}),
        (Matching, {"n_items": 3, "sharpness": 2.0}),
        (Ranking, {"n_items": 3, "regularization": 1.0}),
    ],
)
def test_weak_regularizer_is_refused(cls: Any, sizes: dict[str, Any]) -> None:
    """A regularizer is refused where 4γ/(λν) reaches 1, because nothing is proved there."""
    with pytest.raises(pydantic.ValidationError):
        cls(**sizes)


@EACH_SPACE
def test_spaces_survive_json(space: OutputSpace) -> None:
    """A space written as JSON and read back through the union type is the same space."""
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(AnyOutputSpace)
    assert adapter.validate_json(adapter.dump_json(space)) == space


@EACH_SPACE
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
    """The probabilities of ỹ sum to 1 and its mean is ŷ."""
    V = vertices(space)
    for theta in random_scores(space, 2, 4):
        mean = space.decode(theta)
        law = np.array([space.vertex_probability(mean, v) for v in V])
        assert law.min() >= 0.0
        assert_close(law.sum(), 1.0, 1e-10)
        assert_close(law @ V, mean, 1e-10)


@EACH_SPACE
def test_sample_frequencies_match_probabilities(space: OutputSpace) -> None:
    """Frequencies of drawn answers match their probabilities within five standard deviations."""
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
        assert space.distance(nearest, mean) <= min(space.distance(v, mean) for v in V) + 1e-9
        assert_close(space.mixing(mean), min(1.0, 2.0 * space.distance(nearest, mean) / space.constants.nu), 1e-12)
        last = np.full(space.n_uniforms, 1.0 - 1e-16)
        assert space.contains(space.randomize(mean, last))


@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.parametrize("scale", [1e3, 1e9, 1e18])
def test_huge_scores_decode_to_finite_means(n: int, scale: float) -> None:
    """Scores far beyond normal use give finite means in range, and vertices as answers."""
    rng = np.random.default_rng(n)
    spaces = (Multiclass(n_labels=n), Multilabel(n_labels=n), Ordinal(n_steps=n), Ranking(n_items=n))
    for space in (*spaces, Matching(n_items=n)):
        for theta in scale * rng.normal(size=(3, space.dimension)):
            mean = space.decode(theta)
            assert np.isfinite(mean).all()
            assert space.contains(space.sample(theta, np.zeros(space.n_uniforms)))
            assert space.contains(space.nearest(mean))
            assert np.isfinite(space.surrogate(theta, space.nearest(mean)))
            if isinstance(space, Matching):
                assert_close(mean.reshape(n, n).sum(axis=0), np.ones(n), 1e-12)
                assert_close(mean.reshape(n, n).sum(axis=1), np.ones(n), 1e-12)
