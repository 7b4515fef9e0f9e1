"""After a change of all labels, the learners whose guarantee says so do not recover."""

from typing import Any

import numpy as np
import pytest

from learners.base import Contexts, Problem
from learners.evaluation.simulation import simulate
from learners.registry import ALL_LEARNERS
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import make_world

PROBLEM = Problem(n_labels=4, n_features=6)
HALF, LAST = 4_000, 1_000

SENTENCE = "After a change of the labels it does not recover: "
STUCK: dict[str, dict[str, Any]] = {"epsilon-greedy-ridge": {}, "bandit-perceptrons-kernel": {"max_support": 300}}
"""The learners that do not recover, with hyperparameters that show it in few rounds."""


def errors_around_the_change(algorithm: str, hyperparameters: dict[str, Any]) -> tuple[float, float]:
    world = make_world(7, 2 * HALF, PROBLEM, noise=0.0)
    truth = (world.truth + (np.arange(2 * HALF) >= HALF)) % PROBLEM.n_labels
    learner = ALL_LEARNERS[algorithm](problem=PROBLEM, **hyperparameters)
    mistakes = simulate(learner, Contexts.dense(world.contexts), truth, world.uniforms).mistakes
    return float(mistakes[HALF - LAST : HALF].mean()), float(mistakes[-LAST:].mean())


@pytest.mark.parametrize("algorithm", STUCK)
def test_a_learner_that_cannot_recover_stays_wrong(algorithm: str) -> None:
    before, after = errors_around_the_change(algorithm, STUCK[algorithm])
    assert before < 0.6
    assert after > 0.75


@pytest.mark.parametrize("case", IMPLEMENTATIONS, ids=str)
def test_exactly_the_learners_that_cannot_recover_say_so(case: Case) -> None:
    learner = case.at(PROBLEM)
    assert (SENTENCE in learner.guarantee) == (learner.algorithm in STUCK)
