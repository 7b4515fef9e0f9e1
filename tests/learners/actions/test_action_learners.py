"""Learners of actions against plain formulas, and on a catalogue whose items come and go."""

import math

import numpy as np
import pytest

from learners.actions.base import ActionProblem, Candidates
from learners.algorithms.regression.fastcb import FastCb
from learners.algorithms.regression.fastcb_actions import FastCbActions
from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidgeActions
from learners.base import BoolArray, Contexts, FloatArray, IntArray, Problem, Rounds
from learners.evaluation.action_simulation import simulate_actions
from tests.learners.actions.worlds import D, some_candidates, some_rounds, sparse

ALL = np.empty(0, np.bool_)


@pytest.mark.parametrize("learning_rate", [32.0, 1000.0])
def test_regression_is_that_of_a_label(learning_rate: float) -> None:
    rng, n = np.random.default_rng(1), 300
    rounds = some_rounds(rng, n)
    correct = rng.random(n) < 0.4
    rounds = rounds._replace(rewards=correct.astype(np.float64))
    actions = FastCbActions(problem=ActionProblem(D), learning_rate=learning_rate)
    labels = FastCb(problem=Problem(2, D), learning_rate=learning_rate)
    state = actions.fold(actions.init(), rounds)
    served = np.zeros(n, np.int64), rounds.propensities
    played = Rounds.of_bits(rounds.chosen, *served, correct, np.full(n, -1), np.empty((n, 0)), np.zeros(n))
    other = labels.fold(labels.init(), played)
    assert state.weights[:, 0].tolist() == other.label_weights[:, 0].tolist()
    assert state.information[:, 0].tolist() == other.label_information[:, 0].tolist()
    for name in ("features", "scales", "means"):
        assert getattr(state, name).tobytes() == getattr(other, name).tobytes()


@pytest.mark.parametrize("gap_scale", [0.5, 40.0])
def test_candidates_are_weighed_by_relative_gaps(gap_scale: float) -> None:
    """Candidates get l/(K l + γ (f_leader - f_a)), mixed with uniform exploration; γ follows the losses."""
    rng, learner = (
        np.random.default_rng(3),
        FastCbActions(problem=ActionProblem(D), gap_scale=gap_scale, least_exploration=0.1),
    )
    rounds = some_rounds(rng, 80)._replace(chosen=sparse(np.eye(D)[rng.integers(0, D, 80)]))
    state = learner.fold(learner.init(), rounds)
    losses = float((1.0 - rounds.rewards).sum())
    rows = np.argsort(state.features[:D])
    both = [1.0 / (1.0 + np.exp(-w[rows, 0])) for w in (state.weights, state.whitened_weights)]
    f = state.experts @ np.array(both)
    candidates = Candidates(sparse(np.eye(D)), np.array([0, 4, D]), ALL)
    for chances, p in zip((f[:4], f[4:]), np.split(learner.decide(state, candidates), [4]), strict=True):
        m, loss = len(chances), 1.0 - chances.max()
        loss = min(loss, m * chances.max())
        gap_weight = max(10.0 * m, gap_scale * math.sqrt(m * (1.0 + min(losses, m * (80 - losses)))))
        expected = loss / (m * loss + gap_weight * (chances.max() - chances))
        expected[chances.argmax()] += 1.0 - expected.sum()
        assert p == pytest.approx(0.9 * expected + 0.1 / m, rel=1e-9)


def test_ridge_matches_its_normal_equations() -> None:
    """The weights solve (a I + Σ xx') w = Σ reward x, also after rebuilds; the leader gets 1 - ε + ε/K."""
    rng, n = np.random.default_rng(4), 1200
    rounds = some_rounds(rng, n, shared=True)
    learner = EpsilonGreedyRidgeActions(problem=ActionProblem(D, norm_bound=10.0), regularization=0.5)
    state = learner.fold(learner.init(), rounds)
    x = rounds.chosen.values.reshape(n, D)
    w = np.linalg.solve(0.5 * np.eye(D) + x.T @ x, x.T @ rounds.rewards)
    assert state.weights == pytest.approx(w, rel=1e-8)
    candidates = some_candidates(rng, 1)
    m, p = candidates.vectors.n, learner.decide(state, candidates)
    assert p.max() == pytest.approx(1.0 - (m - 1) / m * min(1.0, math.sqrt(m / (n + 1))))


def catalogue(rng: np.random.Generator, rounds: int) -> tuple[Candidates, FloatArray, BoolArray]:
    """Draw rounds with 8 items of a window that moves: items appear and vanish.

    Each of 5 users likes some of 12 genres. Features are a genre for a user, and an id that only one item has.

    Returns:
        the candidates, their rewards, and which user likes which genre, (5, 12).
    """
    likes, genres = rng.integers(0, 4, (5, 12)) == 0, rng.integers(0, 12, rounds)
    likes[:, 0], likes[:, 1] = True, False
    items = np.concatenate([t // 20 + rng.permutation(30)[:8] for t in range(rounds)])
    users = np.repeat(rng.integers(0, 5, rounds), 8)
    vectors = items_of(12 * users + genres[items], items)
    return Candidates(vectors, np.arange(rounds + 1) * 8, ALL), np.where(likes[users, genres[items]], 0.9, 0.1), likes


def items_of(genres: IntArray, items: IntArray) -> Contexts:
    features = np.column_stack([np.zeros(len(items), np.int64), 1 + genres, 61 + items])
    return Contexts.sparse(np.full(len(items), 3), features.reshape(-1), np.ones(features.size))


@pytest.mark.parametrize("seed", range(1))
def test_new_items_start_with_what_their_features_are_worth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    candidates, rewards, likes = catalogue(rng, 3000)
    learner = FastCbActions(problem=ActionProblem(4000))
    result = simulate_actions(learner, candidates, rewards, rng.random(3000))
    assert result.rewards[2000:].mean() >= 0.9 * rewards.reshape(-1, 8).max(axis=1)[2000:].mean()
    for user in range(5):
        pair = items_of(12 * user + np.array([np.flatnonzero(~likes[user])[0], 0]), np.array([3001, 3002]))
        assert learner.decide(result.state, Candidates(pair, np.array([0, 2]), ALL))[1] > 0.8


def test_ignored_features_are_reported() -> None:
    learner = FastCbActions(problem=ActionProblem(D), max_features=3)
    state = learner.init()
    assert learner.warnings(state) == []
    state = learner.fold(state, some_rounds(np.random.default_rng(7), 20))
    assert "max_features: 3 of 3 rows are in use" in learner.warnings(state)[0]
