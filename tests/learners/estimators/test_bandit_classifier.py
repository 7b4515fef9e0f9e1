"""A `BanditClassifier` equals the learner of the service on the same rounds, in batches, loops and logs."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from learners.base import Contexts, Problem
from learners.estimators.setup import Choice, set_up
from learners.evaluation.simulation import simulate
from learners.mathematics.preparation import Preparation, prepare
from learners.registry import LEARNERS, STRUCTURED_LEARNERS
from tests.learners.arrays import bits
from tests.learners.estimators.rows import CLASSES, NAMES, D, N, X, Y, classifier, fitted, state_of


@pytest.mark.parametrize(("algorithm", "policy"), [("fastcb", "none"), ("gaptron", "scale")])
def test_partial_fit_is_the_simulation(algorithm: str, policy: Any) -> None:
    estimator = fitted(algorithm=algorithm)
    learner = LEARNERS[algorithm](problem=Problem(3, D + 1))
    contexts = prepare(Contexts.dense(X), Preparation(policy, 1.0, True, D))
    truth = np.searchsorted(sorted(CLASSES), Y).astype(np.int64)
    expected = simulate(learner, contexts, truth, np.random.default_rng(7).random(N))
    assert bits(expected.state) == state_of(estimator)
    assert (estimator.rounds_, estimator.mistakes_) == (N, expected.mistakes.sum())
    decided = learner.decide(expected.state, contexts).distributions
    assert np.array_equal(estimator.predict_proba(X), decided)
    assert list(estimator.predict(X)) == [sorted(CLASSES)[k] for k in decided.argmax(axis=1)]


@pytest.mark.parametrize("size", [1, 7, 50])
def test_batches_of_any_size_give_the_same_bits(size: int) -> None:
    estimator = classifier()
    for start in range(0, N, size):
        estimator.partial_fit(X[start : start + size], Y[start : start + size], CLASSES)
    assert state_of(estimator) == state_of(fitted()) != state_of(fitted(random_state=8))


def test_sample_and_update_are_one_round() -> None:
    for algorithm in ("fastcb", "gaptron"):
        loop = classifier(algorithm=algorithm).partial_fit(X[:1], Y[:1], CLASSES)
        for t in range(1, N):
            row, truth = X[t : t + 1], Y[t : t + 1]
            choices = loop.sample(row)
            feedback = [{"correct": choices.labels == truth}, {"rewards": 1.0 * (choices.labels == truth)}][t % 2]
            loop.update(row, choices, **feedback)
        assert state_of(loop) == state_of(fitted(algorithm=algorithm))


def test_draws_follow_the_distribution() -> None:
    estimator = fitted()
    distributions = estimator.predict_proba(X)
    choices = estimator.sample(X)
    places = np.searchsorted(estimator.classes_, choices.labels)
    assert np.array_equal(choices.propensities, distributions[np.arange(N), places])
    assert np.array_equal(estimator.predict_proba(X), distributions)


@pytest.mark.parametrize("algorithm", ["fastcb", "gaptron"])
def test_logged_rounds_are_learnt(algorithm: str) -> None:
    labels = np.random.default_rng(1).choice(CLASSES, N)
    propensities, right = np.full(N, 1 / 3), labels == Y
    whole = classifier(algorithm=algorithm).partial_fit_logged(X, labels, propensities, right, CLASSES)
    parts = classifier(algorithm=algorithm)
    for start in range(0, N, 11):
        rows = slice(start, start + 11)
        parts.partial_fit_logged(X[rows], labels[rows], propensities[rows], right[rows], CLASSES)
    assert state_of(parts) == state_of(whole)
    silent = classifier(algorithm=algorithm).partial_fit_logged(X, labels, propensities, np.zeros(N), CLASSES)
    assert whole.score(X, Y) > max(0.6, silent.score(X, Y))


def test_learners_under_full_information_get_the_true_label() -> None:
    estimator = fitted(algorithm="gaptron", hyperparameters={"information": "full"})
    choices = estimator.sample(X)
    with pytest.raises(ValueError, match="true_labels: missing"):
        estimator.update(X, choices, correct=choices.labels == Y)
    before = state_of(estimator)
    assert state_of(estimator.update(X, choices, true_labels=Y)) != before


TABLES: list[Any] = [X.tolist(), pd.DataFrame(X), pd.DataFrame(X, columns=NAMES), np.asfortranarray(X)]


@pytest.mark.parametrize("table", TABLES, ids=["lists", "frame", "named frame", "columns first"])
def test_every_form_of_a_table_gives_the_same_bits(table: Any) -> None:
    assert state_of(classifier().partial_fit(table, Y.tolist(), CLASSES)) == state_of(fitted())


def test_sparse_matrices_are_sparse_contexts() -> None:
    csr = sparse.csr_array(X)
    expected = classifier(algorithm="gaptron").partial_fit(csr, Y, CLASSES)
    for table in (csr.tocsc(), csr.tocoo(), csr.tolil(), sparse.csr_matrix(X)):
        assert state_of(classifier(algorithm="gaptron").partial_fit(table, Y, CLASSES)) == state_of(expected)
    halves = sparse.csr_array((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)
    assert state_of(classifier(algorithm="gaptron").partial_fit(halves, Y, CLASSES)) == state_of(expected)
    dense = fitted(algorithm="gaptron").predict_proba(X)
    assert expected.predict_proba(csr) == pytest.approx(dense, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (Y, sorted(CLASSES)),
        (Y == "red", [False, True]),
        (np.searchsorted(sorted(CLASSES), Y) - 4, [-4, -3, -2]),
        (pd.Series(Y), sorted(CLASSES)),
        (pd.Series(Y).astype("category"), sorted(CLASSES)),
        (Y.astype(object), sorted(CLASSES)),
    ],
    ids=["strings", "booleans", "integers", "series", "categories", "objects"],
)
def test_classes_of_any_type(labels: Any, classes: list[Any]) -> None:
    estimator = classifier().fit(X, labels)
    assert estimator.classes_.tolist() == classes
    assert set(estimator.predict(X).tolist()) <= set(classes)
    assert type(estimator.predict(X).tolist()[0]) is type(classes[0])
    assert 0.5 < estimator.score(X, labels) <= 1.0


def test_fit_forgets_and_copies_go_on() -> None:
    estimator = fitted()
    copy = pickle.loads(pickle.dumps(estimator))
    assert state_of(copy.partial_fit(X, Y)) == state_of(estimator.partial_fit(X, Y))
    assert state_of(estimator.fit(X, Y)) == state_of(fitted())
    assert estimator.rounds_ == N


def test_the_import_needs_numpy_only() -> None:
    heavy = "{'sklearn', 'pandas', 'joblib', 'matplotlib'}"
    code = f"import sys, learners.estimators; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("algorithm", sorted(set(LEARNERS) - set(STRUCTURED_LEARNERS)))
def test_the_defaults_are_those_of_the_learner(algorithm: str) -> None:
    built, cls = set_up(Choice(algorithm), 3, 4), LEARNERS[algorithm]
    assert (built.preparation.policy, built.preparation.intercept) == (cls.norm_policy, cls.intercept)
    assert (built.preparation.n_features, built.learner.problem.n_features) == (4, 4 + cls.intercept)
