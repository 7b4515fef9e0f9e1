"""Averaged weights of the Fenchel-Young learners: definition, and Theorem 4.6 on a known distribution."""

import math
from typing import Any

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungOrdinal
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.base import Contexts, FloatArray, Problem
from learners.evaluation.online_to_batch import Descending, average_weights, state_of
from tests.learners.arrays import as_sparse, assert_close
from tests.learners.formulas import LN2, losses_of
from tests.learners.worlds import make_world, play, world_for

PROBLEM = Problem(4, 3)
RATES: dict[str, dict[str, Any]] = {
    "theorem": {},
    "adaptive": {"learning_rate": "adaptive", "radius": 2.0},
    "parameter-free": {"learning_rate": "parameter-free"},
}
KINDS = (FenchelYoung, FenchelYoungMultilabel, FenchelYoungRanking, FenchelYoungOrdinal)


@pytest.fixture(params=RATES)
def rate(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return each kind of step."""
    return RATES[request.param]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.algorithm)
def learner(request: pytest.FixtureRequest, rate: dict[str, Any]) -> Any:
    """Return each learner that descends on weights, with each kind of step."""
    return request.param(problem=PROBLEM, **rate)


def test_average_weights_is_the_mean_over_the_rounds(learner: Descending) -> None:
    """The average is the mean of the weights before each round, for dense and sparse contexts and any answers."""
    world = world_for(learner, 3, 40)
    contexts = Contexts.dense(world.contexts)
    expected = np.mean([learner.weights(step.before) for step in play(learner, world)], axis=0)
    assert_close(average_weights(learner, contexts, world.truth), expected, 1e-12)
    assert_close(average_weights(learner, as_sparse(contexts), world.truth), expected, 1e-12)


def test_state_of_holds_the_given_weights(learner: Descending) -> None:
    """`state_of` returns a state with the given weights, zero weights included."""
    weights = np.random.default_rng(4).normal(size=(learner.n_scores, PROBLEM.n_features))
    assert_close(learner.weights(state_of(learner, weights)), weights, 1e-12)
    assert (learner.weights(state_of(learner, 0.0 * weights)) == 0.0).all()


def test_wrong_samples_are_refused() -> None:
    """A sample needs as many labels as contexts, and at least one round."""
    learner = FenchelYoung(problem=PROBLEM)
    x = Contexts.dense(np.ones((2, 3)))
    with pytest.raises(ValueError, match="2 contexts and 1 true labels"):
        average_weights(learner, x, np.zeros(1, dtype=np.int64))
    with pytest.raises(ValueError, match="at least one"):
        average_weights(learner, Contexts.dense(np.ones((0, 3))), np.zeros(0, dtype=np.int64))


def excess(learner: FenchelYoung, T: int, samples: int, U: FloatArray) -> float:
    """Return the averaged weights' expected error minus U's surrogate loss on the population, averaged over samples."""
    population = make_world(5, 60, PROBLEM, noise=0.1)
    x, rows = Contexts.dense(population.contexts), np.arange(60)
    losses = []
    for seed in range(samples):
        drawn = np.random.default_rng(seed).integers(0, 60, T)
        weights = average_weights(learner, Contexts.dense(population.contexts[drawn]), population.truth[drawn])
        distributions, _ = learner.decide(state_of(learner, weights), x)
        losses.append(1.0 - distributions[rows, population.truth].mean())
    theirs = losses_of("logistic", population.contexts @ U.T, population.truth).mean()
    return float(np.mean(losses) - theirs)


@pytest.mark.parametrize("T", [10, 100, 400])
def test_theorem_4_6_bound_holds(T: int) -> None:
    """The excess is at most the constant of Theorem 5.1 over T, for a comparator that fits the population."""
    world = make_world(5, 60, PROBLEM, noise=0.1)
    U: FloatArray = 8.0 * np.asarray(np.linalg.lstsq(world.contexts, np.eye(4)[world.truth], rcond=None)[0].T, float)
    bound = float(np.sum(U**2)) / (2.0 * (1.0 - LN2) * LN2)
    assert excess(FenchelYoung(problem=PROBLEM), T, 20, U) <= bound / T + 3.0 / math.sqrt(20 * T)


def test_average_improves_with_more_rounds() -> None:
    """More rounds lower the excess, and a learner with a tiny step keeps a high one."""
    U = np.zeros((4, 3))
    short, long = (excess(FenchelYoung(problem=PROBLEM, learning_rate=1.0), T, 10, U) for T in (10, 400))
    still = excess(FenchelYoung(problem=PROBLEM, learning_rate=1e-6), 400, 10, U)
    assert long < short - 0.02 < still - 0.04
