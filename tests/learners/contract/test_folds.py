"""Folds: the state is a function of the log, and of the part of it that the learner may see."""

import numpy as np
import pytest

from learners.base import NO_LABEL
from tests.learners.arrays import bits, copied
from tests.learners.contract.lives import Life, N, only_for
from tests.learners.worlds import other_answers, pick


@pytest.mark.parametrize("size", [1, 7, N])
def test_fold_does_not_depend_on_the_batch_size(life: Life, size: int) -> None:
    """Folding the log in batches of any size gives the state of the live run, bit for bit."""
    state = life.learner.init()
    for start in range(0, N, size):
        state = life.learner.fold(state, pick(life.rounds, range(start, min(N, start + size))))
        assert type(state) is life.learner.state_type
    assert bits(state) == bits(life.state)


def test_replay_gives_the_same_bits(life: Life) -> None:
    """Folding the same rounds into copies of a state gives the same state and leaves the rounds unchanged."""
    before = bits(life.rounds)
    one = life.learner.fold(copied(life.state), life.rounds)
    two = life.learner.fold(copied(life.state), life.rounds)
    assert bits(one) == bits(two)
    assert bits(life.rounds) == before


def test_empty_fold_changes_nothing(life: Life) -> None:
    """Folding no rounds changes no bit of the state."""
    assert bits(life.learner.fold(copied(life.state), pick(life.rounds, []))) == bits(life.state)


def test_fold_counts_every_round(life: Life) -> None:
    """Every round counts once, including rounds without an update."""
    assert int(life.state.rounds) == N


def test_state_depends_only_on_the_log(life: Life) -> None:
    """Workers that fold the same shuffled log in different batches, with decisions in between, get the same bits."""
    rng = np.random.default_rng(3)
    log = pick(life.rounds, np.argsort(np.arange(N) + rng.exponential(40.0, N)))
    states = []
    for rate in (1.0, 0.3, 0.05):
        state, cuts = life.learner.init(), np.flatnonzero(rng.random(N) < rate)
        for part in np.split(np.arange(N), cuts):
            rounds = pick(log, part)
            life.learner.decide(state, rounds.contexts)
            state = life.learner.fold(state, rounds)
        states.append(bits(state))
    assert states[0] == states[1] == states[2]


@only_for(lambda learner: not learner.needs_true_label)
def test_bandit_learner_ignores_the_true_label(life: Life) -> None:
    """With the same `correct` bits, other true labels, or none, give the same state, bit for bit."""
    K, rounds = life.learner.problem.n_labels, life.rounds
    others = np.where(rounds.correct, rounds.labels, (rounds.labels + 1) % K)
    assert (others != rounds.true_labels).any()
    for truth in (others, np.full(N, NO_LABEL)):
        assert bits(life.learner.fold(life.learner.init(), rounds._replace(true_labels=truth))) == bits(life.state)


@only_for(lambda learner: learner.needs_true_label)
def test_full_information_learner_uses_only_the_true_label(life: Life) -> None:
    """Given the true label, the answer and its propensity change no bit of the state."""
    wrong = life.rounds._replace(
        labels=other_answers(life.learner, life.rounds.true_labels),
        propensities=np.full(N, 0.1),
        correct=np.zeros(N, dtype=np.bool_),
        rewards=np.zeros(N),
    )
    assert bits(life.learner.fold(life.learner.init(), wrong)) == bits(life.state)
