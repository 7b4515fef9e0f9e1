"""Decisions: distributions, evidence and contributions."""

import numpy as np
import pytest

from learners.answers import answer_kind, is_structured
from learners.base import Contexts, Problem
from tests.learners.arrays import bits, copied, is_finite, matrix
from tests.learners.contract.lives import Life, N, only_for
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import play, world_for


@only_for(lambda learner: not is_structured(learner))
def test_decisions_are_distributions(life: Life) -> None:
    K = life.learner.problem.n_labels
    for distributions in (life.distributions, life.learner.decide(life.state, life.rounds.contexts).distributions):
        assert distributions.shape == (N, K)
        assert distributions.dtype == np.float64
        assert distributions.min() >= life.case.least_exploration / K * (1 - 1e-12)
        np.testing.assert_allclose(distributions.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_evidence_has_the_declared_size(life: Life) -> None:
    for n in (0, 1, 3):
        contexts = Contexts.dense(matrix(life.rounds.contexts)[:n])
        decisions = life.learner.decide(life.state, contexts)
        assert decisions.evidence.shape == (n, life.learner.evidence_size)
        assert decisions.evidence.dtype == np.float64
        width = 0 if answer_kind(life.learner) == "ranking" else life.learner.problem.n_labels
        assert decisions.distributions.shape == (n, width)


def test_decide_changes_neither_state_nor_contexts(life: Life) -> None:
    before = bits((life.state, life.rounds.contexts))
    life.learner.decide(life.state, life.rounds.contexts)
    assert bits((life.state, life.rounds.contexts)) == before


def test_decisions_do_not_depend_on_their_batch(life: Life) -> None:
    rows = matrix(life.rounds.contexts)[:20]
    together = life.learner.decide(life.state, Contexts.dense(rows))
    alone = [life.learner.decide(life.state, Contexts.dense(row)) for row in rows]
    assert bits(together) == bits([np.concatenate(column) for column in zip(*alone, strict=True)])


WITH_SCORES = {
    "fastcb", "squarecb", "gaptron", "soba", "soba-diagonal", "soba-low-rank", "soba-newton", "newtron", "pnewtron",
    "banditron", "perceptron", "bandit-perceptrons", "epsilon-greedy-ridge", "fenchel-young",
}  # fmt: skip
"""The learners that have scores which are sums over the entries of a context."""


@pytest.mark.parametrize("case", IMPLEMENTATIONS, ids=str)
def test_contributions_sum_to_the_scores(case: Case) -> None:
    learner = case.at(Problem(4, 5))
    world = world_for(learner, 7, 120)
    *_, last = play(learner, world)
    state, seen = copied(last.after), 0
    for x in world.contexts[:40]:
        dense = Contexts.dense(x)
        added = learner.contributions(state, dense)
        assert (added is not None) == (learner.algorithm in WITH_SCORES)
        if added is None:
            return
        assert added.shape == (len(x), learner.problem.n_labels)
        kept = np.flatnonzero(x)
        sparse = learner.contributions(state, Contexts.sparse([len(kept)], kept, x[kept]))
        assert sparse is not None
        np.testing.assert_allclose(sparse.sum(axis=0), added.sum(axis=0), rtol=1e-9, atol=1e-12)
        scores, chances = added.sum(axis=0), learner.decide(state, dense).distributions[0]
        if learner.algorithm == "fastcb":  # its mixture is one of probabilities, not of scores
            continue
        assert chances[scores.argmax()] >= chances.max() * (1 - 1e-9)
        seen += len(set(scores.round(9).tolist())) > 1
    assert seen > 0 or learner.algorithm == "fastcb"
    assert [one.tobytes() for one in state] == [one.tobytes() for one in last.after]
    assert is_finite(state)
