"""Replay of a log to another learner: the distributions of the learner's own verbs, before each round."""

import numpy as np
import pytest

from benchmarks.coverage import simulated
from learners.base import NO_LABEL, AnyLearner, BoolArray, InvalidArrayError, Problem, Rounds, every_label
from learners.evaluation.off_policy.chance import uniforms
from learners.evaluation.off_policy.learner_replay import replay
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.mathematics.norms import one_by_one
from learners.registry import LEARNERS


def _learner(algorithm: str) -> AnyLearner:
    learner: AnyLearner = LEARNERS[algorithm](problem=Problem(3, 4, 1.0))
    return learner


def _log(n: int) -> LoggedRounds:
    log, _ = simulated(n, 11)
    return log._replace(holdout=log.numbers % 7 == 0)


def _some_eligible(log: LoggedRounds) -> BoolArray:
    eligible = np.random.default_rng(2).random((log.n, 3)) < 0.5
    eligible[np.arange(log.n), log.labels] = True
    return np.asarray(eligible)


def test_each_round_is_decided_before_it_is_folded() -> None:
    """Equal to the bit to the learner's verbs, one by one; rounds of the holdout are not folded."""
    learner, log = _learner("banditron"), _log(200)
    state = learner.init()
    residuals = uniforms(5, 3, log.numbers)
    found = replay(learner, log, seed=5, in_python=True)
    for t, context in enumerate(one_by_one(log.contexts)):
        distribution, evidence = learner.decide(state, context)
        assert np.array_equal(found.distributions[t], distribution[0])
        if not log.holdout[t]:
            one = log.rows(t, t + 1)
            taken = (one.labels, one.propensities, one.rewards == 1.0, np.full(1, NO_LABEL), evidence)
            rounds = Rounds(context, *taken, residuals[t : t + 1], one.rewards, every_label(1))
            state = learner.fold(state, rounds)


def test_a_log_in_parts_is_the_whole_log() -> None:
    """The state goes from part to part, and the eligible labels are respected."""
    log = _log(300)
    learner, log = _learner("banditron"), log._replace(eligible=_some_eligible(log))
    whole, state, parts = replay(learner, log, in_python=True), None, []
    for start in (0, 1, 150):
        end = {0: 1, 1: 150, 150: 300}[start]
        found = replay(learner, log.rows(start, end), state, in_python=True)
        state = found.state
        parts.append(found.distributions)
    assert np.array_equal(np.concatenate(parts), whole.distributions)
    assert (whole.distributions[~log.eligible] == 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["uniform", "banditron", "fastcb", "epsilon-greedy-ridge"])
def test_compiled_replay_is_python_replay(algorithm: str) -> None:
    """To the bit, also with eligible labels."""
    log = _log(400)
    for some in (log, log._replace(eligible=_some_eligible(log))):
        compiled, python = (replay(_learner(algorithm), some, in_python=way) for way in (False, True))
        assert np.array_equal(compiled.distributions, python.distributions)


def test_rounds_that_a_learner_cannot_learn_from_are_refused() -> None:
    """Missing truths and partial rewards; the message names the row."""
    log = _log(20)
    with pytest.raises(InvalidArrayError, match="row 0: fenchel-young needs the true label"):
        replay(_learner("fenchel-young"), log)
    with pytest.raises(InvalidArrayError, match="learns only from 0 and 1"):
        replay(_learner("banditron"), log._replace(rewards=np.full(20, 0.5)))
