"""Decisions: distributions, answers, evidence."""

import numpy as np

from learners.answers import answer_kind, is_structured
from learners.base import Contexts
from tests.learners.arrays import bits, matrix
from tests.learners.contract.lives import Life, N, only_for


@only_for(lambda learner: not is_structured(learner))
def test_decisions_are_distributions(life: Life) -> None:
    """Probabilities are non-negative, sum to 1, and give each label its share of the least exploration."""
    K = life.learner.problem.n_labels
    for distributions in (life.distributions, life.learner.decide(life.state, life.rounds.contexts).distributions):
        assert distributions.shape == (N, K)
        assert distributions.dtype == np.float64
        assert distributions.min() >= life.case.least_exploration / K * (1 - 1e-12)
        np.testing.assert_allclose(distributions.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_drawn_answers_are_valid(life: Life) -> None:
    """Labels are in range, sets are zeros and ones, rankings contain each label once; propensities are positive."""
    K, labels = life.learner.problem.n_labels, life.rounds.labels
    assert labels.dtype == np.int64
    match answer_kind(life.learner):
        case "ranking":
            assert (np.sort(labels, axis=1) == np.arange(K)).all()
        case "label-set":
            assert (labels.shape, set(labels.ravel().tolist()) | {0, 1}) == ((N, K), {0, 1})
        case _:
            assert (labels.shape, labels.min() >= 0, labels.max() < K) == ((N,), True, True)
    assert life.rounds.propensities.min() > 0.0
    assert life.rounds.propensities.max() <= 1.0


def test_evidence_has_the_declared_size(life: Life) -> None:
    """Evidence is (n, evidence_size) floats for any n, including 0."""
    for n in (0, 1, 3):
        contexts = Contexts.dense(matrix(life.rounds.contexts)[:n])
        decisions = life.learner.decide(life.state, contexts)
        assert decisions.evidence.shape == (n, life.learner.evidence_size)
        assert decisions.evidence.dtype == np.float64
        width = 0 if answer_kind(life.learner) == "ranking" else life.learner.problem.n_labels
        assert decisions.distributions.shape == (n, width)


def test_decide_changes_neither_state_nor_contexts(life: Life) -> None:
    """Deciding changes no bit of the state or of the contexts."""
    before = bits((life.state, life.rounds.contexts))
    life.learner.decide(life.state, life.rounds.contexts)
    assert bits((life.state, life.rounds.contexts)) == before


def test_decisions_do_not_depend_on_their_batch(life: Life) -> None:
    """Deciding n contexts together equals deciding them one by one, bit for bit."""
    rows = matrix(life.rounds.contexts)[:20]
    together = life.learner.decide(life.state, Contexts.dense(rows))
    alone = [life.learner.decide(life.state, Contexts.dense(row)) for row in rows]
    assert bits(together) == bits([np.concatenate(column) for column in zip(*alone, strict=True)])
