"""SOBA, SOBAdiag and Algorithm 2 of their paper: theorems, exploration, the Newton step; traces elsewhere."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.algorithms.second_order.soba_newton import SobaNewton
from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.mathematics.exploration import adaptive_rate
from tests.learners.arrays import assert_close, copied, matrix, unpacked
from tests.learners.formulas import losses_of, margins
from tests.learners.traces import MICRO, TOLERANCE
from tests.learners.worlds import World, expected_mistakes, largest_mean, make_world, one_round, play, two_clusters

PROBLEM, A0 = Problem(3, 4), 0.7


@pytest.mark.parametrize("learner_type", [Soba, SobaLowRank, SobaDiagonal])
def test_adaptive_rate_matches_theorem_5(learner_type: type[Soba | SobaLowRank | SobaDiagonal]) -> None:
    """Round t explores with min(1, √(K (1 + Q)/t)): always at first, less and less later."""
    room: Any = {"max_updates": 100} if learner_type is SobaLowRank else {}
    learner = learner_type(problem=PROBLEM, exploration="adaptive", **room)
    steps = list(play(learner, make_world(6, 300, PROBLEM)))
    for t, step in enumerate(steps, start=1):
        gamma = min(1.0, np.sqrt(3 * (1 + float(step.before.quadratic_sum)) / t))
        assert adaptive_rate(3, float(step.before.quadratic_sum), t - 1) == pytest.approx(gamma, rel=1e-14)
        assert_close(np.sort(step.distribution), [gamma / 3, gamma / 3, 1 - gamma + gamma / 3], 1e-12)
    assert_close(steps[0].distribution, np.full(3, 1 / 3), 1e-15)
    assert steps[-1].distribution.max() > 0.5


def eta_loss(m: FloatArray, eta: float) -> float:
    """Return the sum of 1 - 2m/(2-η) + ηm²/(2-η) over margins of at most 1, as in Theorem 2."""
    return float(np.where(m <= 1, 1 - 2 * m / (2 - eta) + eta * m**2 / (2 - eta), 0.0).sum())


def theorem_2(U: FloatArray, eta: float, gamma: float, xs: FloatArray, ys: IntArray) -> float:
    """Return the right side of Theorem 2 with a = X = 1 and K = d = 2."""
    K, d, rounds = 2, 2, len(ys)
    quadratic = d * K**2 * np.log(1 + 2 * rounds / (d * K)) / (gamma * eta * (2 - eta))
    return float(eta_loss(margins(xs @ U.T, ys), eta) + eta / (2 - eta) * np.sum(U**2) + quadratic + gamma * rounds)


def test_theorem_2_bound_holds() -> None:
    """Mean mistakes plus four standard errors are below Theorem 2's bound, which is at most the mistakes of chance."""
    rounds, runs = 2000, 10
    gamma = float(np.sqrt(8 * np.log(1 + rounds / 2) / rounds))
    learner: Soba = Soba(problem=Problem(2, 2), regularization=1.0, exploration=gamma)
    world = two_clusters(8, rounds, noise=0.01)
    draws = np.random.default_rng(9).random((runs, rounds))
    direction = np.array([[1.0, 0.0], [-1.0, 0.0]])
    bounds = [
        theorem_2(norm * direction, eta, gamma, world.contexts, world.truth)
        for norm in (0.1, 0.3, 0.5, 1.0)
        for eta in (0.1, 0.5, min(1.0, 2 / (2 * norm + 1)))
        if eta <= 2 / (2 * norm + 1)
    ]
    assert largest_mean(expected_mistakes, learner, world, draws) <= min(bounds) <= 0.5 * rounds


def test_theorem_4_bound_holds() -> None:
    """Mean mistakes are at most the hinge loss L of any U plus η(2XL max‖U_k‖ + a‖U‖²) + G/(γη) + γT."""
    rounds, runs = 2000, 10
    learner: Soba = Soba(problem=Problem(2, 2), exploration="theorem", horizon=rounds, comparator_bound=1.0)
    world, gamma = two_clusters(8, rounds, noise=0.01), learner.rate
    assert isinstance(gamma, float)
    bounds = []
    for norm in (0.1, 0.3, 0.5, 1.0):
        U = norm * np.array([[1.0, 0.0], [-1.0, 0.0]])
        hinge = float(losses_of("hinge", world.contexts @ U.T, world.truth).sum())
        for eta in np.geomspace(0.01, min(1.0, 2 / (2 * norm + 1)), 8):
            assert eta_loss(margins(world.contexts @ U.T, world.truth), eta) <= hinge * (1 + 2 * eta * norm / (2 - eta))
            paid = eta * (2 * hinge * norm + np.sum(U**2)) + learner.growth(rounds) / (gamma * eta)
            bounds.append(hinge + paid + gamma * rounds)
    draws = np.random.default_rng(9).random((runs, rounds))
    assert largest_mean(expected_mistakes, learner, world, draws) <= min(bounds)


@pytest.mark.parametrize("a", [1.0, 0.3])
@pytest.mark.parametrize("B", [0.2, 3.0])
def test_tuned_rate_minimizes_the_bound_of_theorem_2(a: float, B: float) -> None:
    """γ = min(1, √(G/(η(2 - η)T))) with η = min(1, 2/(2BX + 1)); the guarantee prints the bound for norm B."""
    settings: Any = {"exploration": "theorem", "regularization": a, "comparator_bound": B}
    learner: Soba = Soba(problem=Problem(3, 4, 2.0), horizon=10**7, **settings)
    eta, gamma, G = min(1.0, 2 / (4 * B + 1)), learner.rate, 4 * 9 * np.log(1 + 2 * 10**7 * 4 / (a * 4 * 3))
    assert isinstance(gamma, float)
    assert_close(gamma, np.sqrt(G / (eta * (2 - eta) * 1e7)), 1e-12)
    bound = a * eta * B**2 / (2 - eta) + 2 * gamma * 1e7
    assert_close(learner.regret_bound(10**7, gamma, eta), bound, 1e-9 * bound)
    assert all(learner.regret_bound(10**7, other, eta) > bound for other in (0.9 * gamma, 1.1 * gamma))
    assert f"this is at most {np.ceil(bound):,.0f}. " in learner.guarantee
    assert Soba(problem=Problem(3, 4, 2.0), horizon=10, **settings).rate == 1.0


def test_theorem_3_bound_holds() -> None:
    """If a U has margins of at least 1, the leader's mean mistakes are at most Theorem 2's bound without L and γT."""
    rounds, runs, gamma = 2000, 10, 0.3
    learner: Soba = Soba(problem=Problem(2, 2), regularization=1.0, exploration=gamma)
    world = two_clusters(8, rounds, noise=0.0)
    draws = np.random.default_rng(9).random((runs, rounds))
    U = np.array([[1.0, 0.0], [-1.0, 0.0]]) / (2 * np.cos(0.3))  # the contexts are within 0.3 of its rows
    eta = min(1.0, 2 / (2 * float(np.linalg.norm(U[0])) + 1))
    assert margins(world.contexts @ U.T, world.truth).min() >= 1.0
    bound = theorem_2(U, eta, gamma, world.contexts, world.truth) - gamma * rounds
    bound -= eta_loss(margins(world.contexts @ U.T, world.truth), eta)
    assert largest_mean(leader_mistakes, learner, world, draws) <= bound <= 0.15 * rounds


def leader_mistakes(learner: Soba, world: World) -> int:
    leaders = [int(step.distribution.argmax()) for step in play(learner, world)]
    return int(np.sum(leaders != world.truth))


@pytest.mark.parametrize("name", ["alg2_ons", "alg2_ons_theory"])
def test_micro_trace(name: str) -> None:
    trace = MICRO[name]
    overrides: dict[str, Any] = {"beta": trace["beta"], "epsilon": trace["eps"]} if name == "alg2_ons" else {}
    learner: SobaNewton = SobaNewton(
        problem=Problem(3, 2), exploration=trace["gamma"], eta=trace["eta"], radius=trace["D"], **overrides
    )
    state = learner.init()
    assert_close(unpacked(state.matrix), trace["eps"] * np.eye(6), TOLERANCE)
    for expected in trace["rounds"]:
        decisions = learner.decide(state, Contexts.dense(expected["x"]))
        p, label, before = decisions.distributions[0], expected["sampled"], int(state.updates)
        state = learner.fold(state, one_round(expected["x"], label, p[label], expected["y"], decisions.evidence))
        assert_close((decisions.evidence[0], p), (expected["scores"], expected["p"]), TOLERANCE)
        assert_close(state.weights.T, expected["W"], TOLERANCE)
        assert int(state.updates) - before == (expected["grad"] is not None)


def nearest(A: FloatArray, V: FloatArray, radius: float) -> FloatArray:
    """Return the argmin of (w - V)'A(w - V) over the ball, by bisection on the multiplier."""
    if np.linalg.norm(V) <= radius:
        return V
    low, high = 0.0, float(np.linalg.norm(A @ V)) / radius
    for _ in range(200):
        middle = (low + high) / 2
        outside = np.linalg.norm(np.linalg.solve(A + middle * np.eye(len(V)), A @ V)) > radius
        low, high = (middle, high) if outside else (low, middle)
    return np.asarray(np.linalg.solve(A + high * np.eye(len(V)), A @ V), dtype=np.float64)


@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_step_is_the_online_newton_step(radius: float) -> None:
    """A grows by gg', and W moves to the projection of W - A⁻¹g/β onto the ball in the norm of A, as in plain numpy."""
    learner: SobaNewton = SobaNewton(
        problem=PROBLEM, exploration=0.5, radius=radius, eta=0.1, beta=0.05, epsilon=1.0
    )  # fmt: skip
    updates, on_sphere = 0, 0
    for step in play(learner, make_world(2, 300, PROBLEM)):
        s, y = step.round.evidence[0], int(step.round.labels[0])
        A, W, led = unpacked(step.before.matrix), step.before.weights.T.ravel(), int(np.argmax(s))
        if step.round.correct[0] and led != y:
            slope = (-2 + 2 * 0.1 * (s[y] - s[led])) / (2 - 0.1) / step.round.propensities[0]
            g = slope * np.kron(np.eye(3)[y] - np.eye(3)[led], matrix(step.round.contexts)[0])
            A = A + np.outer(g, g)
            W = nearest(A, W - np.linalg.solve(A, g) / 0.05, radius)
            updates, on_sphere = updates + 1, on_sphere + int(np.linalg.norm(W) > radius * (1 - 1e-9))
        assert_close(unpacked(step.after.matrix), A, 1e-9)
        assert_close(step.after.weights.T.ravel(), W, 1e-8)
    assert 0 < on_sphere <= updates < 300


@pytest.mark.parametrize("D", [2.0, 0.1])
def test_matrix_starts_with_the_theorems_constant(D: float) -> None:
    """A = ε·I with ε = 1/(4 β² D²), β = ½ min(1/(8 G D), (γ/K)(η/32)), G = 16 X K/γ."""
    learner = SobaNewton(problem=Problem(3, 2), exploration=0.3, radius=D)
    beta = 0.5 * min(1 / (8 * (16 * 3 / 0.3) * D), 0.3 / 3 * (1 / max(2 * D, 1)) / 32)
    assert_close(learner.init().matrix[0] * 4 * beta**2 * D**2, 1.0, 1e-12)


def test_late_step_uses_the_scores_of_the_prediction() -> None:
    """The leader and its margin come from the evidence, not from the state's present scores."""
    learner: SobaNewton = SobaNewton(problem=PROBLEM, beta=0.05, epsilon=1.0)
    state = list(play(learner, make_world(4, 300, PROBLEM)))[-1].after
    led = one_round([1.0, 0.0, 0.0, 0.0], 1, 0.05, 1, np.array([0.0, 1.0, 0.0]))
    followed = led._replace(evidence=np.array([[1.0, 0.0, 0.0]]))
    assert int(learner.fold(copied(state), led).updates) == int(state.updates)
    assert int(learner.fold(copied(state), followed).updates) == int(state.updates) + 1
