"""Contributions: what each entry of a context adds to the scores, for learners whose scores are such sums."""

import numpy as np
import pytest

from learners.base import Contexts, Problem
from tests.learners.arrays import copied, is_finite
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import play, world_for

WITH_SCORES = {
    "fastcb", "squarecb", "gaptron", "soba", "soba-diagonal", "soba-low-rank", "soba-newton", "newtron", "pnewtron",
    "banditron", "perceptron", "bandit-perceptrons", "epsilon-greedy-ridge", "fenchel-young",
}  # fmt: skip
"""The learners that have scores which are sums over the entries of a context."""


@pytest.mark.parametrize("case", IMPLEMENTATIONS, ids=str)
def test_contributions_sum_to_the_scores(case: Case) -> None:
    """The label with the largest score is the likeliest; dense and sparse contexts agree; the state does not change."""
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
