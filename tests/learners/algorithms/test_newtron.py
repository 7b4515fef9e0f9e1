"""Newtron and PNewtron against Hazan and Kale 2011: traces, the gradient estimate, the ball."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.algorithms.second_order.newtron import Newtron
from learners.algorithms.second_order.pnewtron import PNewtron, ball_of, gradient_estimate
from learners.base import Contexts, FloatArray, Problem
from learners.mathematics.linear_algebra import ball_minimizer
from tests.learners.arrays import assert_close, is_finite, pack, unpacked
from tests.learners.traces import MICRO, TOLERANCE
from tests.learners.worlds import LAWS, World, make_world, one_round, play

PROBLEM = Problem(3, 4)


def weights(learner: Any, state: Any) -> FloatArray:
    """Return W (K, d), projected into the ball."""
    w: FloatArray = learner.weights(state) if isinstance(learner, PNewtron) else state.weights.T
    return w


def diagonal(state: Any) -> FloatArray:
    return np.diag(unpacked(state.matrix)) if hasattr(state, "matrix") else state.diagonal.T.ravel()


def linear(state: Any) -> FloatArray:
    b: FloatArray = state.linear if hasattr(state, "matrix") else -state.diagonal * state.weights
    return b.T.ravel()


def softmax(s: FloatArray) -> FloatArray:
    """Return the softmax of scores (K,)."""
    p = np.exp(s - s.max())
    return np.asarray(p / p.sum())


MICRO_RUNS = [
    ("newtron_full_ball", Newtron(problem=Problem(3, 2), exploration=0.3, beta=0.5, radius=1.0)),
    ("pnewtron_scale", PNewtron(problem=Problem(3, 2), exploration=0.3, beta=0.5, radius=1.0)),
    ("pnewtron_none", PNewtron(problem=Problem(3, 2), exploration=0.3, beta=0.01, radius=1.0, projection="none")),
]


@pytest.mark.parametrize(("name", "learner"), MICRO_RUNS, ids=[name for name, _ in MICRO_RUNS])
def test_micro_trace(name: str, learner: Any) -> None:
    state, c = learner.init(), np.empty(3)
    for expected in MICRO[name]["rounds"]:
        decisions = learner.decide(state, Contexts.dense(expected["x"]))
        s, p, label = decisions.evidence[0], decisions.distributions[0], expected["sampled"]
        kappa = gradient_estimate(learner.alpha, s, label, label == expected["y"], p[label], c)
        state = learner.fold(state, one_round(expected["x"], label, p[label], expected["y"], s))
        assert_close((softmax(learner.alpha * s), p), (expected["scores"], expected["p"]), TOLERANCE)
        assert_close((np.outer(c, expected["x"]).ravel(), kappa), (expected["grad"], expected["kappa"]), TOLERANCE)
        assert_close((diagonal(state), linear(state)), (expected["Adiag"], expected["b"]), TOLERANCE)
        assert_close(weights(learner, state), expected["W"], TOLERANCE)


@pytest.mark.parametrize("cls", [Newtron, PNewtron])
def test_matrix_starts_as_one_over_the_radius(cls: Any) -> None:
    """A starts as I/D, where D defaults to 10/X."""
    assert_close(diagonal(cls(problem=PROBLEM, radius=2.5).init()), np.full(12, 0.4), 0.0)
    assert_close(diagonal(cls(problem=Problem(3, 4, 2.0)).init()), np.full(12, 0.2), 0.0)


def mean_estimate(p: FloatArray, played: FloatArray, y: int, own: float) -> FloatArray:
    K, total = len(p), np.zeros(len(p))
    for label in range(K):
        size = (p[label] - (label == y)) / played[label]
        c = np.full(K, -1 / K)
        c[label] = own
        total += played[label] * size * c
    return total


@pytest.mark.parametrize("K", [2, 3, 9])
def test_estimate_is_unbiased(K: int) -> None:
    """In expectation over the label drawn, c is softmax(α s) - e_y, whichever label is correct."""
    rng = np.random.default_rng(K)
    for y in range(K):
        s, total, c = rng.normal(size=K), np.zeros(K), np.empty(K)
        p = softmax(2.0 * s)
        played = 0.8 * p + 0.2 / K
        for label in range(K):
            kappa = gradient_estimate(2.0, s, label, label == y, played[label], c)
            total += played[label] * c
            assert kappa == (played[label] if label == y else 1.0)
        assert_close(total, p - np.eye(K)[y], 1e-12)
        assert_close(total, mean_estimate(p, played, y, (K - 1) / K), 1e-12)


def test_published_estimate_is_biased() -> None:
    p = np.array([0.7, 0.2, 0.1])
    wrong = mean_estimate(p, 0.8 * p + 0.2 / 3, 1, 1 / 3)
    assert np.abs(wrong - (p - np.eye(3)[1])).max() > 0.2


@LAWS
@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(-6, 6), st.floats(-3, 3))
def test_minimizer_meets_the_optimality_conditions(seed: int, n: int, log_linear: float, log_radius: float) -> None:
    """W is in the ball, and -(A w + b) = μ w with μ ≥ 0, and μ = 0 inside the ball."""
    rng = np.random.default_rng(seed)
    root, radius = rng.normal(size=(n, n)), 10.0**log_radius
    A = root @ root.T + 0.1 * np.eye(n)
    b, w = 10.0**log_linear * rng.normal(size=n), np.empty(n)
    ball_minimizer(pack(A), b, radius, 0.1, w)
    assert np.linalg.norm(w) <= radius * (1 + 1e-12)
    shift = max(0.0, float(-(A @ w + b) @ w / (w @ w)))
    if np.linalg.norm(w) < radius * (1 - 1e-9):
        assert shift <= 1e-9 * np.linalg.norm(A)
    assert np.linalg.norm(A @ w + b + shift * w) <= 1e-8 * np.linalg.norm(b)


def test_minimizer_is_finite_for_any_matrix() -> None:
    n = 20
    for A in (np.zeros((n, n)), -np.ones((n, n)), np.full((n, n), 1e200), -1e300 * np.eye(n)):
        w = np.empty(n)
        ball_minimizer(pack(A), np.ones(n), 2.0, 0.1, w)
        assert np.linalg.norm(w) <= 2.0 * (1 + 1e-12)


TEMPERED: list[PNewtron] = [  # weights that stay small, jump, or are never scaled
    PNewtron(problem=PROBLEM),
    PNewtron(problem=PROBLEM, beta=1e-9, radius=1e6),
    PNewtron(problem=PROBLEM, exploration=1e-3, projection="none"),
]


@pytest.mark.parametrize("learner", TEMPERED, ids=["small", "jumping", "unscaled"])
def test_running_norm_matches_the_weights(learner: PNewtron) -> None:
    for step in play(learner, make_world(6, 400, PROBLEM)):
        assert_close(step.after.squared_norm / np.sum(step.after.weights**2), 1.0, 1e-9)
        if learner.projection == "scale":
            assert np.linalg.norm(learner.weights(step.after)) <= ball_of(learner) * (1 + 1e-9)


def test_unprojected_weights_are_capped() -> None:
    problem, n = Problem(2, 300), 6000
    rng = np.random.default_rng(0)
    world = World(np.full((n, 300), 300**-0.5), rng.integers(0, 2, n), rng.random(n))
    learner: PNewtron = PNewtron(problem=problem, projection="none", beta=1.0)
    state = list(play(learner, world))[-1].after
    assert is_finite(state)
    assert np.abs(state.weights).max() == 1e75
    assert np.isfinite(learner.decide(state, Contexts.dense(world.contexts[:1])).distributions).all()


def test_running_norm_survives_a_collapse() -> None:
    """If one round shrinks the weights by orders of magnitude, the tracked norm stays accurate."""
    learner: PNewtron = PNewtron(problem=Problem(2, 1), beta=1e6, radius=1e6)
    state = learner.init()
    state.weights[:] = [[1e12, 3e12]]
    state.squared_norm[()] = 1e25
    after = learner.fold(state, one_round([1.0], 0, 0.5, 0, np.zeros(2)))
    assert np.abs(after.weights).max() < 100.0
    assert_close(after.squared_norm / np.sum(after.weights**2), 1.0, 1e-12)
