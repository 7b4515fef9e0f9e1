"""Low-rank SOBA against SOBA: equal until full, implicit steps after that; memory and rounding."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.second_order.soba_low_rank import SobaLowRank, SobaLowRankState
from learners.base import Contexts, FloatArray, Problem, Rounds
from tests.learners.arrays import accepted_rows, assert_close, bits, copied, matrix, soba_inverse
from tests.learners.worlds import one_round, pick, random_rounds

PROBLEM = Problem(4, 60)
N = PROBLEM.n_labels * PROBLEM.n_features


def thin_rounds(seed: int, n: int, learner: Any) -> Rounds:
    rounds, rng = random_rounds(seed, n, learner, least_propensity=0.05), np.random.default_rng(seed)
    rows = matrix(rounds.contexts) * (rng.random((n, learner.problem.n_features)) < 0.1)
    return rounds._replace(
        contexts=Contexts.dense(rows), correct=np.ones(n, np.bool_), rewards=np.ones(n), true_labels=rounds.labels
    )


def generous(learner: Any) -> Any:
    state = learner.init()
    state.margin_sum[()] = 1e9
    return state


def trained(learner: Any, n: int = 30) -> Any:
    return learner.fold(generous(learner), thin_rounds(2, n, learner))


def step_of(state: SobaLowRankState, rounds: Rounds) -> tuple[FloatArray, FloatArray, float]:
    """Return w (n,), u (n,) and c of a single round."""
    x, y = matrix(rounds.contexts)[0], int(rounds.labels[0])
    own = np.eye(state.weights.shape[1])[y]
    rival = np.eye(len(own))[np.argmax(np.where(own, -np.inf, x @ state.weights))]
    return state.weights.T.ravel(), np.kron(rival - own, x), 1.0 / float(rounds.propensities[0])


@pytest.mark.parametrize(("above", "accepted"), [(1e-9, True), (-1e-9, False)])
def test_margin_test_is_exact(above: float, accepted: bool) -> None:
    learner = SobaLowRank(problem=Problem(2, 1), exploration=0.1)
    first, again = one_round([1.0], 1, 0.5, 1, np.empty(0)), one_round([1.0], 1, 0.25, 1, np.empty(0))
    state = learner.fold(learner.init(), first)
    w, u, c = step_of(state, again)
    delta, q = float(w @ u), c * float(u @ soba_inverse(state, 1.0) @ u)
    gain, bound = ((c * delta**2 + 2.0 * c * delta) / (1.0 + each) for each in (q, c * float(u @ u)))
    assert gain < bound < 0.0
    state.margin_sum[()] = above - gain
    after = learner.fold(copied(state), again)
    assert int(after.updates) == 1 + accepted
    assert accepted or bits(after._replace(rounds=state.rounds)) == bits(state)


@pytest.mark.parametrize("limit", [{"max_updates": 30}, {"max_nonzeros": 150}])
def test_full_low_rank_takes_implicit_steps(limit: dict[str, int]) -> None:
    """At capacity A, Q and the rows keep their bits, and W moves to argmin ½‖w - W‖²_A + c/2 (1 + u'w)²."""
    learner = SobaLowRank(problem=PROBLEM, regularization=0.7, **limit)
    state, later = trained(learner, 60), thin_rounds(5, 20, learner)
    stored = int(state.stored)
    assert 0 < stored < int(state.updates)
    assert stored == limit.get("max_updates", stored)
    A = 0.7 * np.eye(N) + accepted_rows(state).T @ accepted_rows(state)
    for t in range(later.n):
        rounds = pick(later, [t])
        w, u, c = step_of(state, rounds)
        after = learner.fold(copied(state), rounds)
        if int(after.stored) > stored:  # a context that fits the remaining capacity
            assert "max_nonzeros" in limit
            continue
        assert_close(after.weights.T.ravel(), np.linalg.solve(A + c * np.outer(u, u), A @ w - c * u), 1e-9)
        assert int(after.updates) == int(state.updates) + 1
        assert bits(after[1:6]) == bits(state[1:6])
        assert float(after.quadratic_sum) == float(state.quadratic_sum)


def test_capacity_counts_nonzeros() -> None:
    learner = SobaLowRank(problem=Problem(2, 4), max_nonzeros=5)
    state = learner.init()
    for x, stored in (([0.5] * 4, 1), ([0.5, 0.5, 0, 0], 1), ([0, 0, 0.5, 0], 2), ([0, 0, 0, 0.5], 2)):
        state.margin_sum[()] = 1e9
        state = learner.fold(state, one_round(x, 1, 0.5, 1, np.empty(0)))
        assert int(state.stored) == stored
    assert int(state.updates) == 4
    assert state.ends.tolist()[:3] == [4, 5, 0]


@pytest.mark.parametrize("limit", [{"max_updates": 30}, {"max_nonzeros": 150}])
def test_full_low_rank_gives_a_warning(limit: dict[str, int]) -> None:
    learner = SobaLowRank(problem=PROBLEM, **limit)
    state, rounds = generous(learner), thin_rounds(2, 60, learner)
    for t in range(rounds.n):
        state = learner.fold(state, pick(rounds, [t]))
        stored, lost = int(state.stored), int(state.updates - state.stored)
        sentence = f"{next(iter(limit))}: {stored} updates are stored; {lost} accepted rounds found no room."
        assert learner.warnings(state) == ([sentence] if lost else [])
    assert lost > 0


@pytest.mark.parametrize("a", [1.0, 1e-4])
def test_rounding_does_not_accumulate(a: float) -> None:
    """After 2,000 updates, more than K·d, with weights 1/p up to 20, A A⁻¹ is I and W is A⁻¹θ."""
    learner = SobaLowRank(problem=PROBLEM, regularization=a, max_updates=600)
    state = trained(learner, 600)
    Z = accepted_rows(state)
    assert len(Z) == 600
    roots = np.sqrt(1.0 / thin_rounds(2, 600, learner).propensities)
    A, theta = a * np.eye(N) + Z.T @ Z, -Z.T @ roots
    assert_close(A @ soba_inverse(state, a), np.eye(N), 1e-9)
    assert_close(state.weights.T.ravel(), np.linalg.solve(A, theta), 1e-9)
