"""SOBA's Algorithm 2 with the Online Newton Step: traces, the step in plain numpy, the theorem's constants."""

from typing import Any

import numpy as np
import pydantic
import pytest

from learners.algorithms.second_order.soba_newton import SobaNewton
from learners.base import Contexts, FloatArray, Problem
from tests.learners.arrays import assert_close, bits, copied, matrix, unpacked
from tests.learners.traces import MICRO, TOLERANCE
from tests.learners.worlds import make_world, one_round, play

PROBLEM = Problem(3, 4)


@pytest.mark.parametrize("name", ["alg2_ons", "alg2_ons_theory"])
def test_micro_trace(name: str) -> None:
    """Scores, distributions and W of eight rounds match the trace; the theorem's constants are the default."""
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


def test_only_correct_answers_against_the_leader_teach() -> None:
    """Wrong answers, and correct ones that equal the leader, change only the count of rounds."""
    learner: SobaNewton = SobaNewton(problem=PROBLEM, exploration=0.5, beta=0.05, epsilon=1.0)
    for step in play(learner, make_world(3, 200, PROBLEM)):
        teaches = step.round.correct[0] and np.argmax(step.round.evidence[0]) != step.round.labels[0]
        assert int(step.after.updates) - int(step.before.updates) == teaches
        if not teaches:
            assert bits(step.after._replace(rounds=step.before.rounds)) == bits(step.before)


def test_late_step_uses_the_scores_of_the_prediction() -> None:
    """The leader and its margin come from the evidence, not from the state's present scores."""
    learner: SobaNewton = SobaNewton(problem=PROBLEM, beta=0.05, epsilon=1.0)
    state = list(play(learner, make_world(4, 300, PROBLEM)))[-1].after
    led = one_round([1.0, 0.0, 0.0, 0.0], 1, 0.05, 1, np.array([0.0, 1.0, 0.0]))
    followed = led._replace(evidence=np.array([[1.0, 0.0, 0.0]]))
    assert int(learner.fold(copied(state), led).updates) == int(state.updates)
    assert int(learner.fold(copied(state), followed).updates) == int(state.updates) + 1


def test_first_step_with_the_theorems_constants_is_tiny() -> None:
    """With the theorem's constants the first step is about D/40 long for any γ, which is why they can be overridden."""
    for gamma in (0.01, 0.1, 1.0):
        learner: SobaNewton = SobaNewton(problem=PROBLEM, exploration=gamma)
        x = np.array([1.0, 0.0, 0.0, 0.0])
        state = learner.fold(learner.init(), one_round(x, 1, gamma / 3, 1, np.zeros(3)))
        assert 0.005 < np.linalg.norm(state.weights) < 0.05


def test_eta_above_its_maximum_is_refused() -> None:
    """η is at most 1/max(2 X D, 1), which is also the default."""
    SobaNewton(problem=Problem(3, 4, 2.0), radius=2.5, eta=0.1)
    with pytest.raises(pydantic.ValidationError, match="eta must be at most"):
        SobaNewton(problem=Problem(3, 4, 2.0), radius=2.5, eta=0.11)


def test_overridden_constants_keep_the_state_finite() -> None:
    """Extreme β and ε, with the largest contexts and least exploration, keep the weights in the ball."""
    problem = Problem(3, 4, 1e6)
    for beta in (1e-30, 1e6):
        for epsilon in (1e-12, 1e15):
            learner: SobaNewton = SobaNewton(problem=problem, exploration=1e-6, beta=beta, epsilon=epsilon, radius=1e6)
            state = learner.init()
            for x in make_world(5, 30, problem).contexts:
                state = learner.fold(state, one_round(x, 1, 3e-7, 1, np.array([1e12, 0.0, 0.0])))
                assert np.linalg.norm(state.weights) <= 1e6 * (1 + 1e-12)


def test_matrix_starts_with_the_theorems_constant() -> None:
    """A = ε·I with ε = 1/(4 β² D²), β = ½ min(1/(8 G D), (γ/K)(η/32)), G = 16 X K/γ."""
    learner = SobaNewton(problem=Problem(3, 2), exploration=0.3, radius=2.0)
    beta = 0.5 * min(1 / (8 * (16 * 3 / 0.3) * 2), 0.3 / 3 * (1 / 4) / 32)
    assert_close(learner.init().matrix[0] * 4 * beta**2 * 2.0**2, 1.0, 1e-12)
