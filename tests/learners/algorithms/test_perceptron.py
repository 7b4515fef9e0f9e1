"""The multiclass Perceptron: traces, late feedback, and Theorem 1 of Beygelzimer, Orabona and Zhang 2017."""

import numpy as np
import pytest

from learners.algorithms.first_order.perceptron import Perceptron
from learners.base import Contexts, Problem
from tests.learners.arrays import assert_close
from tests.learners.formulas import losses_of
from tests.learners.traces import LONG, MICRO, TOLERANCE, long_teacher, long_world
from tests.learners.worlds import expected_mistakes, one_round, pick, play, random_rounds

PROBLEM = Problem(4, 5)


def test_micro_trace() -> None:
    """Scores, answers and weights of eight rounds match the trace."""
    learner = Perceptron(problem=Problem(3, 2))
    state = learner.init()
    for expected in MICRO["perceptron"]["rounds"]:
        decisions = learner.decide(state, Contexts.dense(expected["x"]))
        assert_close(state.weights.T @ expected["x"], expected["scores"], TOLERANCE)
        assert decisions.distributions[0].tolist() == np.eye(3)[expected["yhat"]].tolist()
        state = learner.fold(state, one_round(expected["x"], expected["yhat"], 1.0, expected["y"], decisions.evidence))
        assert_close(state.weights.T, expected["W"], TOLERANCE)


def test_long_trace() -> None:
    """After 500 rounds, weights and mistakes match the trace."""
    steps, expected = list(play(Perceptron(problem=PROBLEM), long_world())), LONG["perceptron"]
    assert_close(steps[-1].after.weights.T, expected["W"], TOLERANCE)
    assert sum(not bool(step.round.correct[0]) for step in steps) == expected["mistakes"]


def test_order_of_arrival_does_not_matter() -> None:
    """Shuffled rounds end in the same weights, because steps are sums over the stored leaders."""
    learner = Perceptron(problem=PROBLEM)
    rounds = random_rounds(3, 200, learner)
    rounds = rounds._replace(evidence=np.random.default_rng(4).integers(0, 4, (200, 1)).astype(np.float64))
    shuffled = pick(rounds, np.random.default_rng(5).permutation(200))
    one, two = (learner.fold(learner.init(), order) for order in (rounds, shuffled))
    assert_close(one.weights, two.weights, 1e-9)


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 3.0])
def test_theorem_1_bound_holds(scale: float) -> None:
    """Mistakes are at most L + 2X²‖U‖² + X‖U‖√(2L), where L is the hinge loss of U."""
    world, U = long_world(), scale * long_teacher()
    X, norm = np.linalg.norm(world.contexts, axis=1).max(), np.linalg.norm(U)
    hinge = losses_of("hinge", world.contexts @ U.T, world.truth).sum()
    bound = hinge + 2 * (X * norm) ** 2 + X * norm * np.sqrt(2 * hinge)
    assert expected_mistakes(Perceptron(problem=PROBLEM), world) <= bound
