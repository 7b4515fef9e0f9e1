"""SOBAdiag against section 5 of the paper."""

import numpy as np
import pytest

from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.base import Problem
from tests.learners.arrays import assert_close, copied, matrix
from tests.learners.formulas import soba_diagonal
from tests.learners.worlds import join, make_world, one_round, play

PROBLEM, A0 = Problem(3, 4), 0.7


@pytest.mark.parametrize("exploration", [0.1, 0.6, "adaptive"])
def test_diagonal_state_matches_the_plain_recursion(exploration: float) -> None:
    """A, W, Σ, Q and the updates match section 5, over accepted and refused rounds."""
    learner: SobaDiagonal = SobaDiagonal(problem=PROBLEM, regularization=A0, exploration=exploration)
    steps = [step for step in play(learner, make_world(4, 400, PROBLEM)) if step.round.correct[0]]
    rounds = join(steps)
    paper = soba_diagonal(matrix(rounds.contexts), rounds.labels, rounds.propensities, 3, A0)
    for step, p in zip(steps, paper, strict=True):
        assert int(step.after.updates) == p.updates
        assert_close(step.after.diagonal, p.A.T, 1e-10)
        assert_close(step.after.weights, (p.theta / p.A).T, 1e-10)
        assert_close((step.after.margin_sum, step.after.quadratic_sum), (p.margin_sum, p.quadratic_sum), 1e-10)


def test_diagonal_first_round_matches_hand_computation() -> None:
    """After one round A, W and Q = c x'(1/A_ȳ + 1/A_y)x with the new A, as in Theorem 5, match a hand computation."""
    learner: SobaDiagonal = SobaDiagonal(problem=Problem(2, 1), regularization=2.0)
    state = learner.fold(learner.init(), one_round([0.5], 1, 0.25, 1, np.empty(0)))
    assert_close(state.diagonal, [[3.0, 3.0]], 1e-15)
    assert_close(state.quadratic_sum, 4 * 0.25 * (1 / 3 + 1 / 3), 1e-15)
    assert_close(state.weights, [[-2 / 3, 2 / 3]], 1e-15)


def test_diagonal_refuses_rounds_that_make_the_margin_sum_negative() -> None:
    """A leader correct by a small margin has m < 0: at Σ = 0 the round is refused, and only the count changes."""
    learner: SobaDiagonal = SobaDiagonal(problem=Problem(2, 1))
    first = one_round([1.0], 1, 0.5, 1, np.empty(0))
    once = learner.fold(learner.init(), first)
    twice = learner.fold(copied(once), first)
    assert (int(twice.updates), int(twice.rounds)) == (1, 2)
    assert_close(tuple(twice[:4]), tuple(once[:4]), 0.0)
