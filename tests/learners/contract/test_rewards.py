"""Rewards between 0 and 1: who uses them, and what they mean."""

from typing import Any

import numpy as np
import pytest

from learners.answers import is_structured
from learners.base import Contexts, InvalidArrayError
from learners.evaluation.simulation import simulate
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import bits, copied, is_finite
from tests.learners.contract.lives import PROBLEM, Life, N, only_for
from tests.learners.implementations import IMPLEMENTATIONS, Case

REGRESSORS = {"fastcb", "squarecb", "epsilon-greedy-ridge", "uniform"}

LEARNING = [case for case in IMPLEMENTATIONS if case.learner.accepts_rewards and case.learner.algorithm != "uniform"]


def test_regressors_accept_rewards() -> None:
    assert {name for name, cls in ALL_LEARNERS.items() if cls.accepts_rewards} == REGRESSORS


@only_for(lambda learner: not learner.accepts_rewards)
def test_learners_of_bits_ignore_rewards(life: Life) -> None:
    rewards = np.where(life.rounds.correct, 1.0, np.random.default_rng(1).uniform(0.0, 0.99, N))
    assert bits(life.learner.fold(life.learner.init(), life.rounds._replace(rewards=rewards))) == bits(life.state)


@only_for(lambda learner: learner.accepts_rewards and learner.algorithm != "uniform")
def test_regressors_use_rewards(life: Life) -> None:
    rewards = np.where(life.rounds.correct, 1.0, 0.5)
    state = life.learner.fold(life.learner.init(), life.rounds._replace(rewards=rewards))
    assert is_finite(state)
    assert bits(state) != bits(life.state)


@only_for(lambda learner: not is_structured(learner))
def test_bad_rewards_are_refused(life: Life) -> None:
    rewards = life.rounds.rewards
    for bad in (-0.1, 1.1, np.nan, np.inf):
        wrong = np.where(life.rounds.correct, 1.0, bad)
        with pytest.raises(InvalidArrayError, match=r"^rewards"):
            life.learner.fold(copied(life.state), life.rounds._replace(rewards=wrong))
    others: list[Any] = [rewards[:-1], 1.0 - rewards, rewards[:, None], rewards.astype(np.float32)]
    for wrong in others:
        with pytest.raises(InvalidArrayError, match=r"^rewards"):
            life.learner.fold(copied(life.state), life.rounds._replace(rewards=wrong))


@pytest.mark.parametrize("case", LEARNING, ids=str)
@pytest.mark.parametrize("means", [(0.3, 0.35, 0.6, 0.2), (0.05, 0.02, 0.01, 0.15)])
def test_mean_rewards_lead_to_the_best_label(case: Case, means: tuple[float, ...]) -> None:
    learner, n, rng = case.at(PROBLEM), 20_000, np.random.default_rng(7)
    kind = rng.integers(0, 2, n)
    x = np.eye(2, PROBLEM.n_features)[kind]
    rewards = np.array([means, np.roll(means, 1)])[kind]
    best, uniforms = rewards.argmax(axis=1), rng.random(n)
    bernoulli = (rng.random((n, 4)) < rewards).astype(np.float64)
    shares = []
    for paid in (rewards, bernoulli):
        result = simulate(learner, Contexts.dense(x), best, uniforms, rewards=paid)
        assert is_finite(result.state)
        shares.append(float((result.labels == best)[n // 2 :].mean()))
    least = 0.5 if "max_features" in case.hyperparameters else 0.7
    assert shares[0] > least
    assert shares[0] > shares[1] - 0.05
