"""Contexts: largest, smallest, sparse, and with features and labels in another order."""

import numpy as np
import pytest

from learners.answers import answer_kind
from learners.base import AnyLearner, Contexts, IntArray
from tests.learners.arrays import as_sparse, assert_close, copied, in_order, matrix
from tests.learners.contract.lives import Life, decide_rounds
from tests.learners.contract.reorderings import chooses_by_place, permuted
from tests.learners.worlds import make_world


def test_sparse_contexts_equal_dense_ones(life: Life) -> None:
    rows = matrix(life.rounds.contexts).copy()
    if life.learner.algorithm != "fastcb":  # it measures a dense zero as a value
        rows[np.random.default_rng(2).random(rows.shape) < 0.5] = 0.0
    dense, sparse = Contexts.dense(rows), as_sparse(Contexts.dense(rows))
    decisions, rounds = decide_rounds(life.learner, life.state, dense, seed=4)
    same = life.learner.decide(life.state, sparse)
    assert_close(tuple(same), tuple(decisions), 1e-12)
    from_sparse = rounds._replace(contexts=sparse, evidence=same.evidence)
    one, two = (life.learner.fold(copied(life.state), r) for r in (from_sparse, rounds))
    assert_close(one, two, 1e-12)


def renamed(learner: AnyLearner, answers: IntArray, labels: IntArray) -> IntArray:
    return answers[:, labels] if answer_kind(learner) == "label-set" else np.argsort(labels)[answers]


@pytest.mark.parametrize(
    ("labels", "features"),
    [([2, 0, 3, 1], [0, 1, 2, 3, 4]), ([0, 1, 2, 3], [3, 0, 4, 1, 2])],
    ids=["labels", "features"],
)
def test_order_of_labels_and_features_does_not_matter(life: Life, labels: list[int], features: list[int]) -> None:
    learner = life.learner
    f = np.arange(len(features)) if chooses_by_place(learner) else np.array(features)
    k = np.array(labels) if life.case.n_labels is None else np.arange(life.case.n_labels)
    x = make_world(23, 40, learner.problem).contexts
    decisions, rounds = decide_rounds(learner, life.state, Contexts.dense(x), seed=6)
    twin_state, twin_x = permuted(learner, life.state, k, f), Contexts.dense(x[:, f])
    twin = learner.decide(twin_state, twin_x)
    if answer_kind(learner) != "ranking":
        assert_close(twin.distributions, decisions.distributions[:, k], 1e-9)
    twin_rounds = rounds._replace(
        contexts=twin_x,
        evidence=twin.evidence,
        labels=renamed(learner, rounds.labels, k),
        true_labels=renamed(learner, rounds.true_labels, k),
    )
    expected = permuted(learner, learner.fold(copied(life.state), rounds), k, f)
    assert_close(in_order(learner.fold(twin_state, twin_rounds)), in_order(expected), 1e-9)
