"""ε-greedy ridge regression against the normal equations in numpy."""

from typing import Any

import numpy as np
import pydantic
import pytest

from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidge
from learners.base import Contexts, FloatArray, Problem, Rounds
from tests.learners.arrays import assert_close, matrix, unpacked
from tests.learners.worlds import expected_mistakes, join, make_world, pick, play, random_rounds, two_clusters

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
    """Each label's inverse and weights are those of ridge regression on the rounds that served it."""
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=PROBLEM, regularization=a, exploration=0.3)
    steps = list(play(learner, make_world(1, 300, PROBLEM)))
    inverses, weights = regressions(join(steps), a)
    for k in range(3):
        assert_close(unpacked(steps[-1].after.inverses[k]), inverses[k], 1e-9)
    assert_close(steps[-1].after.weights.T, weights, 1e-9)


def test_recursion_stays_accurate() -> None:
    """After 100,000 rounds the recursion still matches the normal equations."""
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=PROBLEM)
    rounds = random_rounds(2, 100_000, learner)
    inverses, weights = regressions(rounds, 1.0)
    state = learner.fold(learner.init(), rounds)
    assert_close(unpacked(state.inverses[1]) / inverses[1].max(), inverses[1] / inverses[1].max(), 1e-9)
    assert_close(state.weights.T, weights, 1e-9)


def test_order_of_arrival_does_not_matter() -> None:
    """Late feedback in any order gives the same state, up to rounding."""
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=PROBLEM)
    rounds = random_rounds(3, 300, learner)
    shuffled = pick(rounds, np.random.default_rng(0).permutation(300))
    assert_close(learner.fold(learner.init(), shuffled), learner.fold(learner.init(), rounds), 1e-9)


def test_only_the_served_label_learns() -> None:
    """A round changes the regression of the label served, and no bit of the others."""
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=PROBLEM)
    for step in play(learner, make_world(4, 50, PROBLEM)):
        others = np.arange(3) != step.round.labels[0]
        assert (step.after.inverses[others] == step.before.inverses[others]).all()
        assert (step.after.weights[:, others] == step.before.weights[:, others]).all()
        assert (step.after.inverses[~others] != step.before.inverses[~others]).any()


def test_propensities_are_exact() -> None:
    """The leader, the label with the highest predicted reward, has 1 - ε + ε/K, every other label ε/K."""
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=PROBLEM, exploration=0.3)
    state = list(play(learner, make_world(5, 200, PROBLEM)))[-1].after
    x = make_world(6, 50, PROBLEM).contexts
    expected = np.full((50, 3), 0.1) + 0.7 * np.eye(3)[(x @ state.weights).argmax(axis=1)]
    assert_close(learner.decide(state, Contexts.dense(x)).distributions, expected, 1e-12)


@pytest.mark.parametrize(("schedule", "power"), [("anytime", 1 / 2), ("theorem", 1 / 3)])
@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_falling_exploration(schedule: Any, power: float, floor: float) -> None:
    """ε_t = min(1, (K/t)^power), but at least its floor."""
    x = Contexts.dense([[0.5, 0.1, 0.0, 0.0]])
    learner = EpsilonGreedyRidge(problem=PROBLEM, exploration=schedule, least_exploration=floor)
    for rounds in (0, 1, 2, 3, 23, 10**6):
        least = learner.decide(learner.init()._replace(rounds=np.array(rounds)), x).distributions.min()
        assert_close(3 * least, min(1.0, max(floor, (3 / (rounds + 1)) ** power)), 1e-12)


def test_mistakes_come_mostly_from_exploration() -> None:
    """On two noiseless clusters, mistakes are at most ε/2 of the rounds, plus a start-up cost."""
    learner: EpsilonGreedyRidge = EpsilonGreedyRidge(problem=Problem(2, 2), exploration=0.1)
    assert expected_mistakes(learner, two_clusters(0, 1500, 0.0)) <= 0.05 * 1500 + 25


def test_small_regularization_is_refused() -> None:
    """A regularization below 1e-9 X² is refused: the inverses would lose precision."""
    EpsilonGreedyRidge(problem=Problem(3, 4, 1e4), regularization=0.1)
    with pytest.raises(pydantic.ValidationError, match="at least 1e-9"):
        EpsilonGreedyRidge(problem=Problem(3, 4, 1e4), regularization=0.09)
