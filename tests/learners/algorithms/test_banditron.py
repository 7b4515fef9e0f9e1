"""Banditron against Kakade, Shalev-Shwartz and Tewari 2008: traces, expected step, late feedback, schedule."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.first_order.banditron import Banditron
from learners.base import Contexts, Problem
from tests.learners.arrays import assert_close
from tests.learners.traces import LONG, MICRO, TOLERANCE, long_world
from tests.learners.worlds import make_world, one_round, pick, play, random_rounds

PROBLEM = Problem(4, 5)


def test_micro_trace() -> None:
    """Scores, distributions and weights of eight rounds match the trace."""
    learner = Banditron(problem=Problem(3, 2), exploration=MICRO["banditron"]["gamma"])
    state = learner.init()
    for expected in MICRO["banditron"]["rounds"]:
        decisions = learner.decide(state, Contexts.dense(expected["x"]))
        p, label = decisions.distributions[0], expected["sampled"]
        assert_close((state.weights.T @ expected["x"], p), (expected["scores"], expected["p"]), TOLERANCE)
        state = learner.fold(state, one_round(expected["x"], label, p[label], expected["y"], decisions.evidence))
        assert_close(state.weights.T, expected["W"], TOLERANCE)


def test_long_trace() -> None:
    """After 500 rounds, weights and mistakes match the trace."""
    expected = LONG["banditron"]
    steps = list(play(Banditron(problem=PROBLEM, exploration=expected["gamma"]), long_world()))
    assert_close(steps[-1].after.weights.T, expected["W"], TOLERANCE)
    assert sum(not bool(step.round.correct[0]) for step in steps) == expected["mistakes"]


@pytest.mark.parametrize("K", [2, 3, 9])
def test_expected_step_is_the_perceptron_step(K: int) -> None:
    """In expectation over the label drawn, W moves by (e_y - e_ŷ) ⊗ x, whichever label is correct."""
    rng = np.random.default_rng(K)
    learner, x = Banditron(problem=Problem(K, 3), exploration=0.2), rng.normal(size=3)
    before = learner.init()._replace(weights=rng.normal(size=(3, K)))
    decisions = learner.decide(before, Contexts.dense(x))
    p, led = decisions.distributions[0], int(np.argmax(x @ before.weights))
    for y in range(K):
        mean = np.zeros((3, K))
        for label in range(K):
            state = before._replace(weights=before.weights.copy(), rounds=before.rounds.copy())
            after = learner.fold(state, one_round(x, label, p[label], y, decisions.evidence))
            mean += p[label] * (after.weights - before.weights)
        assert_close(mean, np.outer(x, np.eye(K)[y] - np.eye(K)[led]), 1e-12)


def test_order_of_arrival_does_not_matter() -> None:
    """Shuffled rounds end in the same weights, because steps are sums over stored leaders and propensities."""
    learner = Banditron(problem=PROBLEM)
    rounds = random_rounds(3, 200, learner)
    rounds = rounds._replace(evidence=np.random.default_rng(4).integers(0, 4, (200, 1)).astype(np.float64))
    shuffled = pick(rounds, np.random.default_rng(5).permutation(200))
    one, two = (learner.fold(learner.init(), order) for order in (rounds, shuffled))
    assert_close(one.weights, two.weights, 1e-9)


@pytest.mark.parametrize(("schedule", "c", "power"), [("theorem", 8.0, 1 / 3), ("anytime", 4.0, 1 / 2)])
def test_falling_exploration(schedule: Any, c: float, power: float) -> None:
    """γ_t = min(1, (c/t)^(1/3)) or min(1, √(K/t)), but at least its floor."""
    learner = Banditron(problem=PROBLEM, exploration=schedule, theorem_constant=8.0, least_exploration=0.25)
    contexts = Contexts.dense(make_world(1, 1, PROBLEM).contexts)
    for t in (1, 7, 8, 9, 64, 512, 513, 10_000):
        state = learner.init()._replace(rounds=np.array(t - 1))
        rate = 4.0 * learner.decide(state, contexts).distributions.min()
        assert_close(rate, min(1.0, max(0.25, (c / t) ** power)), 1e-12)
