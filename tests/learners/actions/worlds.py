"""Learners of actions under test, and random candidates and rounds for them."""

from typing import Any, NamedTuple

import numpy as np

from learners.actions.base import ActionProblem, ActionRounds, AnyActionLearner, Candidates
from learners.algorithms.regression.fastcb_actions import FastCbActions
from learners.algorithms.second_order.epsilon_greedy_ridge import EpsilonGreedyRidgeActions
from learners.base import BoolArray, Contexts

D = 6
"""Features of a candidate."""


class ActionCase(NamedTuple):
    learner: type[Any]
    hyperparameters: dict[str, Any]
    least_exploration: float = 0.0  # ε: every decision gives each of K candidates at least ε/K

    def at(self, n_features: int = D) -> AnyActionLearner:
        learner: AnyActionLearner = self.learner(problem=ActionProblem(n_features), **self.hyperparameters)
        return learner

    def __str__(self) -> str:
        return "-".join([self.learner.algorithm, *(str(value) for value in self.hyperparameters.values())])


CASES = [
    ActionCase(FastCbActions, {}),
    ActionCase(FastCbActions, {"gap_scale": 0.5, "least_exploration": 0.2, "learning_rate": 6.0}, 0.2),
    ActionCase(FastCbActions, {"max_features": 3}),
    ActionCase(EpsilonGreedyRidgeActions, {}),
    ActionCase(EpsilonGreedyRidgeActions, {"exploration": 0.3, "regularization": 0.5}, 0.3),
]
"""The implementations that every law is tested on. To add a learner of actions, add a line here."""


def some_vectors(rng: np.random.Generator, n: int, shared: bool) -> Contexts:
    matrix = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
    matrix[:, -1] = 1.0
    return Contexts.dense(matrix) if shared else sparse(matrix)


def sparse(matrix: Any) -> Contexts:
    present = matrix != 0.0
    return Contexts.sparse(present.sum(axis=1), np.nonzero(present)[1], matrix[present])


def some_candidates(rng: np.random.Generator, n: int, shared: bool = False, restricted: bool = False) -> Candidates:
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 6, n))]).astype(np.int64)
    eligible = rng.random(starts[-1]) < 0.6 if restricted else np.empty(0, np.bool_)
    if restricted:
        eligible[starts[:-1]] = True
    return Candidates(some_vectors(rng, int(starts[-1]), shared), starts, eligible)


def some_rounds(rng: np.random.Generator, n: int, shared: bool = False) -> ActionRounds:
    rewards = np.clip(2.0 * rng.random(n) - 0.5, 0.0, 1.0)
    return ActionRounds(some_vectors(rng, n, shared), rewards, 1.0 - rng.random(n), rng.integers(1, 9, n))


def one_at(candidates: Candidates, t: int) -> Candidates:
    first, end = candidates.starts[t], candidates.starts[t + 1]
    eligible: BoolArray = candidates.eligible[first:end]
    return Candidates(candidates.vectors.rows(first, end), np.array([0, end - first]), eligible)
