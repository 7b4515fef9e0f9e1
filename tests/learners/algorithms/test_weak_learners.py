"""The weak learners of AdaBoost.OLM++: their features, their objective, and whether more of them help."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.boosting_regression import costs_of
from learners.algorithms.improper.folklore import Folklore
from learners.algorithms.improper.random_features import random_features
from learners.algorithms.improper.weak_learners import WEAK_LEARNERS, Name, WeakLearner
from learners.base import Contexts, FloatArray, Problem
from tests.learners.arrays import assert_close, bits
from tests.learners.worlds import expected_mistakes, make_world, one_round, play

FEW: list[Name] = ["few-features", "cost-regression", "folklore"]


def untrained(name: Name, n: int, n_labels: int) -> tuple[WeakLearner, FloatArray]:
    """Return a weak learner and its first memory."""
    weak = WEAK_LEARNERS[name]
    memory = np.zeros(weak.memory_shape(n, n_labels))
    weak.start(memory, n, n_labels)
    return weak, memory


# --- the features


@pytest.mark.parametrize(("rows", "n", "d"), [(40, 3, 7), (5, 7, 7), (20, 30, 10_000)])
def test_random_features_are_distinct_and_reproducible(rows: int, n: int, d: int) -> None:
    """Each row has n different features in range; the seed decides them; more rows do not change the first ones."""
    table = random_features(3, rows, n, d)
    assert table.shape == (rows, n)
    assert table.min() >= 0
    assert table.max() < d
    assert all(len(set(row)) == n for row in table)
    assert (random_features(3, rows + 5, n, d)[:rows] == table).all()
    assert n == d or (random_features(4, rows, n, d) != table).any()


def test_random_features_are_uniform() -> None:
    """Over many rows, each feature is chosen in a share n/d of them."""
    shares = np.bincount(random_features(1, 1000, 3, 10).ravel(), minlength=10) / 1000
    assert np.abs(shares - 0.3).max() < 4 * np.sqrt(0.3 * 0.7 / 1000)


@pytest.mark.parametrize("name", FEW)
def test_weak_learner_of_few_features_ignores_the_others(name: Name) -> None:
    """Votes and memories do not depend on features that no weak learner has, and depend on those that one has."""
    learner = AdaBoostOlm(problem=Problem(3, 9), weak_learners=2, weak_learner=name, features_per_learner=2)
    seen = np.unique(random_features(0, 2, 2, 9))
    world = make_world(1, 40, learner.problem)

    def states(column: int) -> list[bytes]:
        contexts = world.contexts.copy()
        contexts[:, column] *= 0.5
        return bits([step.after.memories for step in play(learner, world._replace(contexts=contexts))])

    unseen = np.setdiff1d(np.arange(9), seen)
    assert states(int(unseen[0])) == states(int(unseen[-1]))
    assert states(int(seen[0])) != states(int(unseen[0]))


@pytest.mark.parametrize("name", FEW)
def test_few_features_do_not_depend_on_the_scale_of_contexts(name: Name) -> None:
    """Contexts and bound times 4 give the same bits: the weak learners divide by X."""
    problems = Problem(3, 5), Problem(3, 5, 4.0)
    world = make_world(2, 30, problems[0])
    one, four = (
        list(play(AdaBoostOlm(problem=problem, weak_learner=name), world._replace(contexts=X * world.contexts)))
        for problem, X in zip(problems, (1.0, 4.0), strict=True)
    )
    assert bits(one[-1].after) == bits(four[-1].after)


# --- what they learn


@pytest.mark.parametrize("name", ["cost-regression", "folklore"])
def test_weak_learner_votes_for_the_cheapest_label(name: Name) -> None:
    """With label probabilities p and predecessors' σ, the vote is argmax p - σ, which is not the likeliest label."""
    p, s, rng = np.array([0.6, 0.3, 0.1]), np.log([0.8, 0.05, 0.15]), np.random.default_rng(1)
    costs, x = costs_of(s), np.ones(1)
    weak, memory = untrained(name, 1, 3)
    for y in rng.choice(3, size=400, p=p):
        weak.learn(memory, x, costs[y], weak.predict(memory, x, costs), int(y))
    assert int(np.argmin(p @ costs)) == int(np.argmax(p - softmax(s))) == 1
    assert weak.predict(memory, x, costs) == 1


def test_perceptron_scatters_its_votes() -> None:
    """In the same world, the Perceptron votes for the cheapest label in fewer than 3/4 of the rounds, for any T.

    So it keeps only a part of the edge: after every mistake it moves to another label.
    """
    p, s, rng = np.array([0.6, 0.3, 0.1]), np.log([0.8, 0.05, 0.15]), np.random.default_rng(1)
    costs, x, T = costs_of(s), np.ones(1), 2000
    weak, memory = untrained("perceptron", 1, 3)
    votes = np.empty(T, dtype=np.int64)
    for t, y in enumerate(rng.choice(3, size=T, p=p)):
        votes[t] = weak.predict(memory, x, costs)
        weak.learn(memory, x, costs[y], int(votes[t]), int(y))
    assert (votes[T // 2 :] == 1).mean() < 0.75


def test_cost_regression_is_ridge_regression_of_the_advantages() -> None:
    """The weights minimize Σ (1[k = y] - σ_k - w_k'x)² + λ‖w‖² with λ = 1, for any votes."""
    rng, K, n, T = np.random.default_rng(2), 4, 3, 50
    weak, memory = untrained("cost-regression", n, K)
    x, s, y = rng.normal(size=(T, n)), rng.normal(size=(T, K)), rng.integers(0, K, T)
    for t in range(T):
        weak.learn(memory, x[t], costs_of(s[t])[y[t]], int(rng.integers(K)), int(y[t]))
    advantages = np.eye(K)[y] - softmax(s, axis=1)
    inverse = np.linalg.inv(np.eye(n) + x.T @ x)
    assert_close(memory[:, :K], inverse @ x.T @ advantages, 1e-9)
    assert_close(memory[:, K:], inverse, 1e-9)


def test_folklore_weak_learner_is_folklore_of_its_features() -> None:
    """Its memory is the state of FOLKLORE with B = 10 after the same rounds."""
    weak, memory = untrained("folklore", 2, 3)
    full = Folklore(problem=Problem(3, 2, np.sqrt(2.0)), comparator_bound=10.0)
    state, rng = full.init(), np.random.default_rng(3)
    for x, y in zip(rng.uniform(-1, 1, (30, 2)), rng.integers(0, 3, 30), strict=True):
        evidence = full.decide(state, Contexts.dense(x)).evidence
        weak.learn(memory, x, np.zeros(3), 0, int(y))
        state = full.fold(state, one_round(x, int(y), 1.0, int(y), evidence))
    assert_close(memory[0], np.concatenate([state.inverse, state.solution]), 1e-12)


# --- boosting


@pytest.mark.parametrize("name", ["cost-regression", "folklore"])
def test_more_weak_learners_of_few_features_are_better(name: Name) -> None:
    """Eight weak learners of two of twelve features make at most 0.85 times the mistakes of one."""
    problem, T, rng = Problem(3, 12), 800, np.random.default_rng(5)
    truth, contexts = rng.integers(0, 3, T), rng.normal(size=(T, 12))
    contexts += 1.5 * (truth[:, None] == np.arange(12) // 4)  # four features for each label
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    world = make_world(5, T, problem)._replace(contexts=contexts, truth=truth)
    settings: dict[str, Any] = {"weak_learner": name, "features_per_learner": 2, "horizon": T}
    one, eight = (expected_mistakes(AdaBoostOlm(problem=problem, weak_learners=N, **settings), world) for N in (1, 8))
    assert eight < 0.85 * one
