"""Averaged weights and FOLKLORE as batch learners: Theorem 4.6 and the regret bound on fresh data."""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.fenchel_young_multilabel import FenchelYoungMultilabel
from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungOrdinal
from learners.algorithms.fenchel_young.fenchel_young_ranking import FenchelYoungRanking
from learners.algorithms.fenchel_young.structured import Structured
from learners.algorithms.improper.folklore import Folklore, FolkloreState, regret_bound
from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.evaluation.online_to_batch import Descending, average_weights, online_to_batch, state_of
from tests.learners.algorithms.test_folklore import PROBLEM as FOLKLORE
from tests.learners.algorithms.test_folklore import best_loss, log_losses
from tests.learners.algorithms.test_structured import EACH_KIND, N_FEATURES, every_answer, make, surrogate_loss
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
    return RATES[request.param]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.algorithm)
def learner(request: pytest.FixtureRequest, rate: dict[str, Any]) -> Any:
    return request.param(problem=PROBLEM, **rate)


def test_average_weights_is_the_mean_over_the_rounds(learner: Descending) -> None:
    world = world_for(learner, 3, 40)
    contexts = Contexts.dense(world.contexts)
    expected = np.mean([learner.weights(step.before) for step in play(learner, world)], axis=0)
    assert_close(average_weights(learner, contexts, world.truth), expected, 1e-12)
    assert_close(average_weights(learner, as_sparse(contexts), world.truth), expected, 1e-12)


def test_state_of_holds_the_given_weights(learner: Descending) -> None:
    weights = np.random.default_rng(4).normal(size=(learner.n_scores, PROBLEM.n_features))
    state = state_of(learner, weights)
    assert_close(learner.weights(state), weights, 1e-12)
    assert_close(state.squared_norm, np.sum(state.direction**2), 1e-12)
    assert (learner.weights(state_of(learner, 0.0 * weights)) == 0.0).all()


def test_wrong_samples_are_refused() -> None:
    learner = FenchelYoung(problem=PROBLEM)
    x = Contexts.dense(np.ones((2, 3)))
    with pytest.raises(ValueError, match="2 contexts and 1 true labels"):
        average_weights(learner, x, np.zeros(1, dtype=np.int64))
    with pytest.raises(ValueError, match="at least one"):
        average_weights(learner, Contexts.dense(np.ones((0, 3))), np.zeros(0, dtype=np.int64))


def excess(learner: FenchelYoung, T: int, samples: int, U: FloatArray) -> float:
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


def test_online_to_batch_returns_the_state_of_its_step() -> None:
    learner, world = Folklore(problem=FOLKLORE), make_world(2, 30, FOLKLORE)
    contexts = Contexts.dense(world.contexts)
    for t, step in enumerate(play(learner, world)):
        kept: FolkloreState = online_to_batch(learner, contexts, world.truth, t + 1)
        assert_close(tuple(kept), tuple(step.before), 1e-12)


@pytest.mark.parametrize("step", [0, 31, -1])
def test_online_to_batch_refuses_steps_outside_the_sample(step: int) -> None:
    learner, world = Folklore(problem=FOLKLORE), make_world(2, 30, FOLKLORE)
    with pytest.raises(ValueError, match="from 1 to 30"):
        online_to_batch(learner, Contexts.dense(world.contexts), world.truth, step)
    with pytest.raises(ValueError, match="from 0 to 2"):
        online_to_batch(learner, Contexts.dense(world.contexts), world.truth + 1, 5)


HELD_OUT, SAMPLES = 2000, 20


class Rows(NamedTuple):
    x: FloatArray
    truth: IntArray


def held_out_and_samples(rounds: int, noise: float) -> tuple[Rows, list[Rows]]:
    world = make_world(7, HELD_OUT + SAMPLES * rounds, FOLKLORE, noise)
    starts = [0, *range(HELD_OUT, len(world.truth) + 1, rounds)]
    parts = [Rows(world.contexts[start:stop], world.truth[start:stop]) for start, stop in pairwise(starts)]
    return parts[0], parts[1:]


def risk(learner: Folklore, state: FolkloreState, rows: Rows) -> float:
    logits = learner.decide(state, Contexts.dense(rows.x)).evidence
    return float(log_losses(logits, rows.truth).mean())


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("rounds", [400, 4000])
def test_excess_risk_is_within_the_bound(rounds: int, noise: float) -> None:
    bound = 2.0
    learner, steps = Folklore(problem=FOLKLORE, comparator_bound=bound), np.random.default_rng(1)
    held_out, samples = held_out_and_samples(rounds, noise)
    best = best_loss(held_out.x, held_out.truth, FOLKLORE.n_labels, bound) / HELD_OUT
    risks = []
    for sample in samples:
        step = int(steps.integers(1, rounds + 1))
        risks.append(risk(learner, online_to_batch(learner, Contexts.dense(sample.x), sample.truth, step), held_out))
    allowed = regret_bound(bound, FOLKLORE, rounds) / rounds
    assert np.mean(risks) - best <= allowed
    assert risk(learner, learner.init(), held_out) - best > allowed


ROUNDS = {
    "label-set": 500,
    "slate": 500,
    "listed": 500,
    "crf": 1000,
    "birkhoff": 2000,
    "permutahedron": 500,
    "level": 500,
}
"""T, enough for a bound below the loss of zero weights."""
DRAWS = 5
FRESH = 400


class Topics(NamedTuple):
    learner: Any
    own: IntArray  # (4,) or (4, K), the answer of each topic

    def draw(self, seed: int, n: int) -> tuple[FloatArray, IntArray]:
        """Draw independent contexts (n, 4) and true answers."""
        rng, answers = np.random.default_rng(seed), every_answer(self.learner)
        topic, wrong = rng.integers(0, N_FEATURES, n), np.flatnonzero(rng.random(n) < 0.02)
        x = np.eye(N_FEATURES)[topic] + 0.1 * rng.normal(size=(n, N_FEATURES))
        truths = self.own[topic]
        truths[wrong] = answers[rng.integers(0, len(answers), len(wrong))]
        return x / np.linalg.norm(x, axis=1, keepdims=True), truths

    def comparators(self) -> list[FloatArray]:
        """Return weights (D, 4) that score each topic's vertex, from weak to strong."""
        vertices = self.learner.vertices(self.own)
        if self.learner.answer == "ranking":
            vertices -= vertices.mean(axis=1, keepdims=True)  # a constant changes no ranking, only the norm
        scale = self.learner.space.weight
        return [factor * scale * vertices.T for factor in (0.0, 0.5, 1.0, 2.0, 4.0, 12.0)]


def topics(learner: Structured) -> Topics:
    answers = every_answer(learner)
    return Topics(learner, answers[np.random.default_rng(3).choice(len(answers), N_FEATURES, replace=False)])


def expected_loss(learner: Structured, weights: FloatArray, x: FloatArray, truths: IntArray) -> float:
    means = learner.decide(state_of(learner, weights), Contexts.dense(x)).evidence
    pairs = zip(means, learner.vertices(truths), strict=True)
    return float(np.mean([learner.space.expected_loss(mean, vertex) for mean, vertex in pairs]))


def averaged(learner: Structured, x: FloatArray, truths: IntArray) -> FloatArray:
    return average_weights(learner, Contexts.dense(x), truths)


@EACH_KIND
def test_theorem_4_6_bound_holds_on_fresh_data(kind: str) -> None:
    learner, T = make(kind), ROUNDS[kind]
    world = topics(learner)
    x, truths = world.draw(0, FRESH)
    losses = [expected_loss(learner, averaged(learner, *world.draw(1 + i, T)), x, truths) for i in range(DRAWS)]
    bounds = [
        surrogate_loss(learner, U, x, truths) / FRESH + learner.regret_bound(float(np.linalg.norm(U))) / T
        for U in world.comparators()
    ]
    untaught = expected_loss(learner, 0.0 * averaged(learner, x[:1], truths[:1]), x, truths)
    assert np.mean(losses) <= min(bounds) < untaught
