"""Subsets of eligible labels, and streams that every learner that answers one label can learn with them."""

from typing import NamedTuple

import numpy as np

from learners.base import AnyLearner, BoolArray, Contexts, FloatArray, IntArray
from tests.learners.implementations import Case


class Stream(NamedTuple):
    contexts: Contexts
    truth: IntArray  # (n,)
    eligible: BoolArray  # (n, K)
    uniforms: FloatArray  # (n,)


def some_subsets(rng: np.random.Generator, n: int, n_labels: int) -> BoolArray:
    """Draw a subset of the labels for each of n rounds, none empty: (n, K)."""
    eligible = rng.random((n, n_labels)) < rng.random((n, 1))
    eligible[np.arange(n), rng.integers(0, n_labels, n)] = True
    return eligible


def separable(learner: AnyLearner, seed: int, n: int) -> Stream:
    rng, K, d = np.random.default_rng(seed), learner.problem.n_labels, learner.problem.n_features
    eligible, abstains = some_subsets(rng, n, K), learner.algorithm == "adahedge"
    truth = rng.integers(0, 2 if abstains else K, n)
    eligible[np.arange(n), truth] = True
    x = rng.uniform(-0.05, 0.05, (n, d)) + (0.9 * (2 * truth[:, None] - 1) if abstains else 0.8 * np.eye(K, d)[truth])
    return Stream(Contexts.dense(x), truth, eligible, rng.random(n))


_WITHOUT_SCHEDULE = {
    "perceptron", "bandit-perceptrons", "bandit-perceptrons-kernel", "bandit-perceptrons-features", "fenchel-young",
    "folklore", "uniform",
}  # fmt: skip


def is_free_of_n_labels(case: Case) -> bool:
    fixed = not isinstance(case.hyperparameters.get("exploration", "anytime"), str)
    full = case.hyperparameters.get("information") == "full"
    algorithm = case.learner.algorithm
    return algorithm in _WITHOUT_SCHEDULE or full or (fixed and not hasattr(case.learner, "base_learner"))
