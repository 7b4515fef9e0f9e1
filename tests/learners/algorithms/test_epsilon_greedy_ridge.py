"""ε-greedy ridge regression against the normal equations in numpy."""

import numpy as np
import pytest

from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidge
from learners.base import Contexts, FloatArray, Problem, Rounds
from tests.learners.arrays import assert_close, matrix, unpacked
from tests.learners.worlds import join, make_world, play

PROBLEM = Problem(3, 4)


def regressions(rounds: Rounds, a: float) -> tuple[list[FloatArray], FloatArray]:
    """Return, for each label, (a·I + Σ xx')⁻¹ and the weights (K, d) that solve the normal equations."""
    x, d = matrix(rounds.contexts), PROBLEM.n_features
    inverses, weights = [], np.zeros((PROBLEM.n_labels, d))
    for k in range(PROBLEM.n_labels):
        served = rounds.labels == k
        A = a * np.eye(d) + x[served].T @ x[served]
        inverses.append(np.asarray(np.linalg.inv(A), dtype=np.float64))
        weights[k] = np.linalg.solve(A, x[served].T @ rounds.correct[served])
    return inverses, weights


@pytest.mark.parametrize("a", [0.01, 1.0, 50.0])
def test_state_solves_the_normal_equations(a: float) -> None:
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=PROBLEM, regularization=a, exploration=0.3)
    steps = list(play(learner, make_world(1, 300, PROBLEM)))
    inverses, weights = regressions(join(steps), a)
    for k in range(3):
        assert_close(unpacked(steps[-1].after.inverses[k]), inverses[k], 1e-9)
    assert_close(steps[-1].after.weights.T, weights, 1e-9)


def test_propensities_are_exact() -> None:
    """The leader, the label with the highest predicted reward, has 1 - ε + ε/K, every other label ε/K."""
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=PROBLEM, exploration=0.3)
    state = list(play(learner, make_world(5, 200, PROBLEM)))[-1].after
    x = make_world(6, 50, PROBLEM).contexts
    expected = np.full((50, 3), 0.1) + 0.7 * np.eye(3)[(x @ state.weights).argmax(axis=1)]
    assert_close(learner.decide(state, Contexts.dense(x)).distributions, expected, 1e-12)
