"""The multiclass Fenchel-Young learner against its paper: traces, decoding, steps, bounds."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung, decode
from learners.base import Contexts, FloatArray, Problem
from tests.learners.arrays import assert_close, is_finite
from tests.learners.formulas import LN2, gradient, losses_of, projected
from tests.learners.traces import LONG, MICRO, long_teacher, long_world
from tests.learners.worlds import expected_mistakes, make_world, one_round, pick, play, random_rounds, two_clusters

SMALL = Problem(3, 2)
RUNS: dict[str, dict[str, Any]] = {
    "ogd": {},
    "ogd_big": {"learning_rate": 2.0, "radius": 1.5},
    "adaogd": {"learning_rate": "adaptive", "radius": 2.0},
    "paramfree": {"learning_rate": "parameter-free"},
}
LEAST_CONSTANT = 1.0 / (2.0 * (1.0 - LN2) * LN2)  # the constant of Theorem 5.1, without X²‖U‖²


def answers(s: FloatArray) -> FloatArray:
    """Return the distributions (n, K) for rows of scores (n, K)."""
    result = np.empty_like(s)
    for i in range(len(s)):
        decode(s[i], result[i])
    return result


def softmaxes(s: FloatArray) -> FloatArray:
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", RUNS)
def test_micro_trace(name: str) -> None:
    learner = FenchelYoung(problem=SMALL, **RUNS[name])
    state = learner.init()
    for expected in MICRO[f"fy_multiclass_{name}"]["rounds"]:
        (distribution,), (theta,) = learner.decide(state, Contexts.dense(expected["x"]))
        y, sigma = expected["y"], softmaxes(theta[None])[0]
        actual = {"theta": theta, "yhat": sigma, "ystar": theta.argmax(), "P": distribution}
        actual |= {"p_mix": min(1.0, 2.0 * (1.0 - sigma.max())), "expected_01": 1.0 - distribution[y]}
        actual |= {"S_log2": -np.log2(sigma[y])}
        state = learner.fold(state, one_round(expected["x"], 0, 1.0, y, theta))
        actual |= {"W": learner.weights(state)}
        for key in expected.keys() - {"x", "y"}:
            assert_close(actual[key], expected[key], 1e-9)


def test_long_trace() -> None:
    """After 500 rounds, weights, expected mistakes, comparator loss and the bound of Theorem 5.1 match the trace."""
    expected, world, U = LONG["fy_logistic_thm51"], long_world(), 2.0 * long_teacher()
    learner = FenchelYoung(problem=Problem(4, 5))
    steps = list(play(learner, world))
    W, theirs = learner.weights(steps[-1].after), losses_of("logistic", world.contexts @ U.T, world.truth).sum()
    mistakes = sum(1.0 - s.distribution[y] for s, y in zip(steps, world.truth, strict=True))
    assert_close(W, expected["W"], 1e-9)
    assert_close(np.linalg.norm(W), expected["normF"], 1e-9)
    assert_close(mistakes, expected["expected_mistakes"], 1e-9)
    assert_close(theirs, expected["comparator_loss_2U"], 1e-9)
    assert_close(theirs + LEAST_CONSTANT * np.sum(U**2), expected["theorem_bound"], 1e-9)
    assert mistakes <= expected["theorem_bound"]


@pytest.mark.parametrize("K", range(2, 9))
def test_distribution_matches_the_closed_form(K: int) -> None:
    """P = q σ + (1 - q) e_y*: the leader gets 1 - 2(1 - σ)² if σ >= 1/2; otherwise P is the softmax."""
    rng = np.random.default_rng(K)
    s = np.concatenate(
        [np.zeros((1, K)), *(scale * rng.normal(size=(100, K)) for scale in (0.1, 1.0, 5.0, 1e3, 1e100))]
    )
    P, sigma = answers(s), softmaxes(s)
    top, rows = s.argmax(axis=1), np.arange(len(s))
    q = np.minimum(1.0, 2.0 * (1.0 - sigma.max(axis=1)))[:, None]
    assert_close(P, q * sigma + (1.0 - q) * np.eye(K)[top], 1e-12)
    expected = np.where(sigma[rows, top] >= 0.5, 1.0 - 2.0 * (1.0 - sigma[rows, top]) ** 2, sigma[rows, top])
    assert_close(P[rows, top], expected, 1e-12)


@pytest.mark.parametrize("K", range(2, 9))
def test_error_is_bounded_by_the_loss(K: int) -> None:
    rng = np.random.default_rng(K)
    s = np.concatenate([scale * rng.normal(size=(2000, K)) for scale in (0.01, 0.3, 1.0, 3.0, 30.0)])
    P = answers(s)
    for y in range(K):
        losses = losses_of("logistic", s, np.full(len(s), y))
        assert ((1.0 - P[:, y]) <= 0.5176 * losses + 1e-12).all()


def test_error_bound_is_tight() -> None:
    s = np.stack([np.linspace(-3.0, 3.0, 20_001), np.zeros(20_001)], axis=1)
    ratios = (1.0 - answers(s)[:, 0]) / losses_of("logistic", s, np.zeros(len(s), dtype=np.int64))
    assert abs(ratios.max() - 0.51759) < 1e-5


def test_parameter_free_wealth_is_bounded() -> None:
    learner = FenchelYoung(problem=Problem(3, 2, 1e-6), learning_rate="parameter-free")
    rounds = pick(random_rounds(2, 1, learner)._replace(evidence=np.zeros((1, 3))), np.zeros(20_000, dtype=np.int64))
    state = learner.fold(learner.init(), rounds)
    assert state.wealth > 1e50
    assert is_finite(state)
    assert np.isfinite(learner.weights(state)).all()
    assert np.isfinite(learner.decide(state, rounds.contexts).distributions).all()


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("X", [0.5, 3.0])
def test_theorem_5_1_bound_holds(noise: float, X: float) -> None:
    """Expected mistakes are at most any comparator's loss plus X²‖U‖²/(2(1 - ln 2) ln 2)."""
    problem = Problem(5, 6, X)
    world = make_world(13, 600, problem, noise)
    learner = FenchelYoung(problem=problem)
    mistakes, own = expected_mistakes(learner, world), list(play(learner, world))[-1].after
    teacher = np.linalg.lstsq(world.contexts, np.eye(5)[world.truth], rcond=None)[0].T
    for U in (np.zeros((5, 6)), learner.weights(own), *(c * teacher for c in (0.3, 1.0, 3.0))):
        bound = losses_of("logistic", world.contexts @ U.T, world.truth).sum() + LEAST_CONSTANT * X**2 * np.sum(U**2)
        assert mistakes <= bound


def test_adaptive_bound_holds() -> None:
    """Appendix E.1: the excess over any U in the ball is at most 2(1 - a)bB²/a, with b = 2X²/ln 2 and diameter B."""
    problem, radius = Problem(5, 6), 2.0
    world = make_world(13, 600, problem)
    learner = FenchelYoung(problem=problem, learning_rate="adaptive", radius=radius)
    excess = 2.0 * LN2 * (2.0 / LN2) * (2.0 * radius) ** 2 / (1.0 - LN2)
    U = learner.weights(list(play(learner, world))[-1].after)
    assert np.linalg.norm(U) <= radius + 1e-9
    assert expected_mistakes(learner, world) <= losses_of("logistic", world.contexts @ U.T, world.truth).sum() + excess


def test_theorem_4_3_bound_holds() -> None:
    """With probability 1 - δ, mistakes exceed the loss of U by at most (4X²‖U‖²/(1 + ln 2) + ln(1/δ))/(1 - ln 2)."""
    world = two_clusters(1, 600, noise=0.0)
    steps = list(play(FenchelYoung(problem=Problem(2, 2), learning_rate="high-probability"), world))
    errors = np.array([1.0 - s.distribution[y] for s, y in zip(steps, world.truth, strict=True)])
    mistakes = (np.random.default_rng(0).random((2000, 600)) < errors).sum(axis=1)  # the weights depend on no answer
    for delta in (0.5, 0.05):
        bounds = []
        for norm in (0.0, 1.0, 2.0, 3.0):
            U = norm / np.sqrt(2) * np.array([[1.0, 0.0], [-1.0, 0.0]])
            excess = (4 * norm**2 / (1 + LN2) + np.log(1 / delta)) / (1 - LN2)
            bounds.append(losses_of("logistic", world.contexts @ U.T, world.truth).sum() + excess)
        assert np.mean(mistakes > min(bounds)) <= delta
        assert min(bounds) < 0.5 * 600


def test_steps_match_the_formulas() -> None:
    """Fixed and adaptive steps use gradients at the scores of the prediction, however stale, and are projected."""
    problem = Problem(4, 5, 2.0)
    for settings, step in (
        ({}, (1.0 - LN2) * LN2 / 4.0),
        ({"learning_rate": "high-probability"}, (1.0 - LN2) * LN2 / 8.0),
        ({"learning_rate": 0.7, "radius": 0.9}, 0.7),
        ({"learning_rate": "adaptive", "radius": 1.3}, None),
    ):
        learner = FenchelYoung(problem=problem, **settings)
        rounds, W, total = random_rounds(5, 60, learner), np.zeros((4, 5)), 0.0
        for t in range(rounds.n):
            x = rounds.contexts.values.reshape(-1, 5)[t]
            G = gradient("logistic", rounds.evidence[t], int(rounds.true_labels[t]), x)
            total += np.sum(G**2)
            eta = 2.0 * 1.3 / np.sqrt(2.0 * total) if step is None else step
            W = projected(W - eta * G, learner.radius or np.inf)
        assert_close(learner.weights(learner.fold(learner.init(), rounds)), W, 1e-9)
