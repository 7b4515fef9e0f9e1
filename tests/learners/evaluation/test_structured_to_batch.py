"""Theorem 4.6 for label sets, rankings and levels: the averaged weights on fresh data, against a comparator."""

from typing import Any, NamedTuple

import numpy as np

from learners.algorithms.fenchel_young.structured import Structured
from learners.base import Contexts, FloatArray, IntArray
from learners.evaluation.online_to_batch import average_weights, state_of
from tests.learners.algorithms.test_structured import EACH_KIND, N_FEATURES, every_answer, make, surrogate_loss

ROUNDS = {"label-set": 500, "birkhoff": 2000, "permutahedron": 500, "level": 500}
"""T, enough for a bound below the loss of zero weights."""
SAMPLES = 5
FRESH = 400


class Topics(NamedTuple):
    """A distribution: each of four topics has its context, blurred, and its answer, wrong in 2 % of the rounds."""

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
        scale = self.learner.space.constants.strong_convexity
        return [factor * scale * vertices.T for factor in (0.0, 0.5, 1.0, 2.0, 4.0, 12.0)]


def topics(learner: Structured) -> Topics:
    """Give each topic an answer."""
    answers = every_answer(learner)
    return Topics(learner, answers[np.random.default_rng(3).choice(len(answers), N_FEATURES, replace=False)])


def expected_loss(learner: Structured, weights: FloatArray, x: FloatArray, truths: IntArray) -> float:
    """Return the mean expected target loss of answers decided with these weights."""
    means = learner.decide(state_of(learner, weights), Contexts.dense(x)).evidence
    pairs = zip(means, learner.vertices(truths), strict=True)
    return float(np.mean([learner.space.expected_loss(mean, vertex) for mean, vertex in pairs]))


def averaged(learner: Structured, x: FloatArray, truths: IntArray) -> FloatArray:
    """Return the averaged weights of a sample."""
    return average_weights(learner, Contexts.dense(x), truths)


@EACH_KIND
def test_theorem_4_6_bound_holds_on_fresh_data(kind: str) -> None:
    """The expected target loss is at most the mean surrogate loss of any U plus the constant over T; zero weights fail.

    Both means are over rounds that the learner has not seen, and over independent samples.
    """
    learner, T = make(kind), ROUNDS[kind]
    world = topics(learner)
    x, truths = world.draw(0, FRESH)
    losses = [expected_loss(learner, averaged(learner, *world.draw(1 + i, T)), x, truths) for i in range(SAMPLES)]
    bounds = [
        surrogate_loss(learner, U, x, truths) / FRESH + learner.regret_bound(float(np.linalg.norm(U))) / T
        for U in world.comparators()
    ]
    untaught = expected_loss(learner, 0.0 * averaged(learner, x[:1], truths[:1]), x, truths)
    assert np.mean(losses) <= min(bounds) < untaught


@EACH_KIND
def test_average_generalizes_better_with_more_rounds(kind: str) -> None:
    """The average over 400 rounds has less than half the loss of the average over ten, on fresh data."""
    learner = make(kind)
    world = topics(learner)
    x, truths = world.draw(0, FRESH)
    few, many = (expected_loss(learner, averaged(learner, *world.draw(1, T)), x, truths) for T in (10, 400))
    assert many < 0.5 * few
