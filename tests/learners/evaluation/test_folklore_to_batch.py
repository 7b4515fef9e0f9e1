"""FOLKLORE as a batch learner: the state of one of its rounds."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from learners.algorithms.improper.folklore import Folklore, FolkloreState, regret_bound
from learners.base import Contexts, FloatArray, IntArray
from learners.evaluation.folklore_to_batch import online_to_batch
from tests.learners.algorithms.folklore_reference import log_losses
from tests.learners.algorithms.test_folklore import PROBLEM
from tests.learners.algorithms.test_folklore_theorem import best_loss
from tests.learners.arrays import assert_close
from tests.learners.worlds import make_world, play


def test_online_to_batch_returns_the_state_of_its_step() -> None:
    """Step τ is the state that decided round τ."""
    learner, world = Folklore(problem=PROBLEM), make_world(2, 30, PROBLEM)
    contexts = Contexts.dense(world.contexts)
    for t, step in enumerate(play(learner, world)):
        kept: FolkloreState = online_to_batch(learner, contexts, world.truth, t + 1)
        assert_close(tuple(kept), tuple(step.before), 1e-12)


@pytest.mark.parametrize("step", [0, 31, -1])
def test_online_to_batch_refuses_steps_outside_the_sample(step: int) -> None:
    """τ must be from 1 to T, and the labels must be in range."""
    learner, world = Folklore(problem=PROBLEM), make_world(2, 30, PROBLEM)
    with pytest.raises(ValueError, match="from 1 to 30"):
        online_to_batch(learner, Contexts.dense(world.contexts), world.truth, step)
    with pytest.raises(ValueError, match="from 0 to 2"):
        online_to_batch(learner, Contexts.dense(world.contexts), world.truth + 1, 5)


HELD_OUT, SAMPLES = 2000, 20


class Rows(NamedTuple):
    """Independent rounds of one distribution."""

    x: FloatArray
    truth: IntArray


def held_out_and_samples(rounds: int, noise: float) -> tuple[Rows, list[Rows]]:
    """Split one world, whose teacher is fixed, into a held-out sample and samples to learn from."""
    world = make_world(7, HELD_OUT + SAMPLES * rounds, PROBLEM, noise)
    starts = [0, *range(HELD_OUT, len(world.truth) + 1, rounds)]
    parts = [Rows(world.contexts[start:stop], world.truth[start:stop]) for start, stop in pairwise(starts)]
    return parts[0], parts[1:]


def risk(learner: Folklore, state: FolkloreState, rows: Rows) -> float:
    """Return the mean logistic loss, in nats, of a state on rows that it has not learned from."""
    logits = learner.decide(state, Contexts.dense(rows.x)).evidence
    return float(log_losses(logits, rows.truth).mean())


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("rounds", [400, 4000])
def test_excess_risk_is_within_the_bound(rounds: int, noise: float) -> None:
    """On held-out rows, a random step's state exceeds the fitted comparator by at most R(T)/T; the first state fails.

    The mean is over samples, each with its own random step.
    """
    bound = 2.0
    learner, steps = Folklore(problem=PROBLEM, comparator_bound=bound), np.random.default_rng(1)
    held_out, samples = held_out_and_samples(rounds, noise)
    best = best_loss(held_out.x, held_out.truth, PROBLEM.n_labels, bound) / HELD_OUT
    risks = []
    for sample in samples:
        step = int(steps.integers(1, rounds + 1))
        risks.append(risk(learner, online_to_batch(learner, Contexts.dense(sample.x), sample.truth, step), held_out))
    allowed = regret_bound(bound, PROBLEM, rounds) / rounds
    assert np.mean(risks) - best <= allowed
    assert risk(learner, learner.init(), held_out) - best > allowed
