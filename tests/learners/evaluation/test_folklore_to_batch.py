"""FOLKLORE as a batch learner: the state of one of its rounds."""

import pytest

from learners.algorithms.improper.folklore import Folklore, FolkloreState
from learners.base import Contexts
from learners.evaluation.folklore_to_batch import online_to_batch
from tests.learners.algorithms.test_folklore import PROBLEM
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
