"""Folds: the state is a function of the log, and of the part of it that the learner may see."""

import numpy as np
import pytest

from learners.base import NO_LABEL, Problem
from tests.learners.arrays import assert_close, bits, copied
from tests.learners.contract.lives import Life, N, only_cases, only_for
from tests.learners.implementations import Case
from tests.learners.worlds import other_answers, pick, play, world_for


@pytest.mark.parametrize("size", [1, 7, N])
def test_fold_does_not_depend_on_the_batch_size(life: Life, size: int) -> None:
    state = life.learner.init()
    for start in range(0, N, size):
        state = life.learner.fold(state, pick(life.rounds, range(start, min(N, start + size))))
        assert type(state) is life.learner.state_type
    assert bits(state) == bits(life.state)


def test_replay_gives_the_same_bits(life: Life) -> None:
    before = bits(life.rounds)
    one = life.learner.fold(copied(life.state), life.rounds)
    two = life.learner.fold(copied(life.state), life.rounds)
    assert bits(one) == bits(two)
    assert bits(life.rounds) == before
    assert bits(life.learner.fold(copied(life.state), pick(life.rounds, []))) == bits(life.state)
    assert int(life.state.rounds) == N


def test_state_depends_only_on_the_log(life: Life) -> None:
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
    K, rounds = life.learner.problem.n_labels, life.rounds
    others = np.where(rounds.correct, rounds.labels, (rounds.labels + 1) % K)
    assert (others != rounds.true_labels).any()
    for truth in (others, np.full(N, NO_LABEL)):
        assert bits(life.learner.fold(life.learner.init(), rounds._replace(true_labels=truth))) == bits(life.state)


@only_for(lambda learner: learner.needs_true_label)
def test_full_information_learner_uses_only_the_true_label(life: Life) -> None:
    wrong = life.rounds._replace(
        labels=other_answers(life.learner, life.rounds.true_labels),
        propensities=np.full(N, 0.1),
        correct=np.zeros(N, dtype=np.bool_),
        rewards=np.zeros(N),
    )
    assert bits(life.learner.fold(life.learner.init(), wrong)) == bits(life.state)


SUMS = {"perceptron", "banditron", "epsilon-greedy-ridge", "newtron", "pnewtron", "folklore"}
"""Learners whose state is a sum over rounds as of their predictions, like that of Gaptron's dual averaging."""


def is_sum(case: Case) -> bool:
    given = case.hyperparameters
    dual = given.get("learning_rate") == given.get("exploration") == "theorem" and "horizon" not in given
    return (case.learner.algorithm in SUMS or dual) and given.get("delayed_update") != "recompute"


@only_cases(is_sum)
def test_order_of_arrival_does_not_matter(life: Life) -> None:
    shuffled = pick(life.rounds, np.random.default_rng(5).permutation(N))
    assert_close(tuple(life.learner.fold(life.learner.init(), shuffled)), tuple(life.state), 1e-9)


UNITS = {"fastcb": np.array([1e-3, 1.0, 37.0, 1e4, 8.0]), "squarecb": np.array([1e-3, 1.0, 37.0, 1e4, 8.0])}
UNITS |= dict.fromkeys(["perceptron", "banditron", "bandit-perceptrons", "gaptron", "fenchel-young"], np.full(5, 8.0))
"""Units of the features that the decisions do not depend on: of each feature alone, or of all together with X."""


def is_without_units(case: Case) -> bool:
    """Check that no hyperparameter has the unit of the contexts."""
    rate = case.hyperparameters.get("learning_rate", "theorem")
    fixed = {"radius"} & case.hyperparameters.keys() or (isinstance(rate, float) and "cb" not in case.learner.algorithm)
    return case.learner.algorithm in UNITS and not fixed


@only_cases(is_without_units)
def test_units_do_not_matter(life: Life) -> None:
    units, world = UNITS[life.learner.algorithm], world_for(life.learner, 7, N)
    larger = life.case.at(Problem(4, 5, 8.0 if np.ptp(units) == 0.0 else 1e6))
    played = play(larger, world._replace(contexts=world.contexts * units))
    assert_close(np.array([step.distribution for step in played]), life.distributions, 1e-7)
