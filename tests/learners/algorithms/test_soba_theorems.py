"""SOBA's Theorems 2 and 3, and the exploration of Theorem 5."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank
from learners.base import FloatArray, IntArray, Problem
from learners.mathematics.exploration import adaptive_rate
from tests.learners.arrays import assert_close
from tests.learners.formulas import margins
from tests.learners.worlds import World, expected_mistakes, largest_mean, make_world, play, two_clusters

PROBLEM = Problem(3, 4)


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
    """Count the rounds in which the leader is not the true label."""
    leaders = [int(step.distribution.argmax()) for step in play(learner, world)]
    return int(np.sum(leaders != world.truth))
