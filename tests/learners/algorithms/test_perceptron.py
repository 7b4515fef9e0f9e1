"""The multiclass Perceptron and Banditron: Theorem 1, and the expected step."""

import numpy as np
import pytest

from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.perceptron import Perceptron
from learners.base import Contexts, Problem
from tests.learners.arrays import assert_close
from tests.learners.formulas import losses_of
from tests.learners.traces import long_teacher, long_world
from tests.learners.worlds import expected_mistakes, one_round

PROBLEM = Problem(4, 5)


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 3.0])
def test_theorem_1_bound_holds(scale: float) -> None:
    """M ≤ L_q^(1/q) M^(1 - 1/q) + X‖U‖√(2M) for any q ≥ 1; so M ≤ L_q + 2X²‖U‖² + qX‖U‖√(2L_q) for q = 1 and 2."""
    world, U = long_world(), scale * long_teacher()
    reach = np.linalg.norm(world.contexts, axis=1).max() * np.linalg.norm(U)
    hinge = losses_of("hinge", world.contexts @ U.T, world.truth)
    mistakes = expected_mistakes(Perceptron(problem=PROBLEM), world)
    for q in (1.0, 1.5, 2.0, 3.0):
        power = (hinge**q).sum()
        assert mistakes <= power ** (1 / q) * mistakes ** (1 - 1 / q) + reach * np.sqrt(2 * mistakes)
        if q in (1.0, 2.0):
            assert mistakes <= power + 2 * reach**2 + q * reach * np.sqrt(2 * power)


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
