"""A `BanditClassifier` equals the learner of the service on the same rounds, and refuses every mismatch."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from learners.base import Contexts, Problem
from learners.estimators import BanditClassifier, Choices, NotFittedError
from learners.evaluation.simulation import simulate
from learners.mathematics.preparation import Preparation, prepare
from learners.registry import LEARNERS
from tests.learners.arrays import bits

N, D = 120, 4
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D)) * 3.0
X[RNG.random(X.shape) < 0.3] = 0.0
Y = np.array(["blue", "green", "red"])[np.argmax(X[:, :3], axis=1)]
CLASSES = ["red", "green", "blue"]
NAMES = list("abcd")


def classifier(**parameters: Any) -> BanditClassifier:
    """Return a new estimator with a seed."""
    return BanditClassifier(**{"random_state": 7} | parameters)


def fitted(**parameters: Any) -> BanditClassifier:
    """Return an estimator that has learnt all rows."""
    return classifier(**parameters).partial_fit(X, Y, CLASSES)


def state_of(estimator: BanditClassifier) -> list[bytes]:
    """Return the state as bytes."""
    return bits(estimator._state)


@pytest.mark.parametrize(("algorithm", "policy"), [("fastcb", "none"), ("gaptron", "scale")])
def test_partial_fit_is_the_simulation(algorithm: str, policy: Any) -> None:
    """The state is that of the compiled simulation, with the norm and the intercept of a new model of the service."""
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
    """So does the same seed; another one does not."""
    estimator = classifier()
    for start in range(0, N, size):
        estimator.partial_fit(X[start : start + size], Y[start : start + size], CLASSES)
    assert state_of(estimator) == state_of(fitted()) != state_of(fitted(random_state=8))


def test_sample_and_update_are_one_round() -> None:
    """A loop of draws and feedback, one row at a time, gives the state of `partial_fit`, with any form of feedback."""
    for algorithm in ("fastcb", "gaptron"):
        loop = classifier(algorithm=algorithm).partial_fit(X[:1], Y[:1], CLASSES)
        for t in range(1, N):
            row, truth = X[t : t + 1], Y[t : t + 1]
            choices = loop.sample(row)
            feedback = [{"correct": choices.labels == truth}, {"rewards": 1.0 * (choices.labels == truth)}][t % 2]
            loop.update(row, choices, **feedback)
        assert state_of(loop) == state_of(fitted(algorithm=algorithm))


def test_draws_follow_the_distribution() -> None:
    """The propensity is the probability of the label that `sample` drew, and predictions draw nothing."""
    estimator = fitted()
    distributions = estimator.predict_proba(X)
    choices = estimator.sample(X)
    places = np.searchsorted(estimator.classes_, choices.labels)
    assert np.array_equal(choices.propensities, distributions[np.arange(N), places])
    assert np.array_equal(estimator.predict_proba(X), distributions)


@pytest.mark.parametrize("algorithm", ["fastcb", "gaptron"])
def test_logged_rounds_are_learnt(algorithm: str) -> None:
    """Rounds of another policy teach as much as they contain, in batches of any sizes, and sparse or dense."""
    labels = np.random.default_rng(1).choice(CLASSES, N)
    columns = X, labels, np.full(N, 1 / 3), labels == Y
    whole = classifier(algorithm=algorithm).partial_fit_logged(*columns, CLASSES)
    parts = classifier(algorithm=algorithm)
    for start in range(0, N, 11):
        parts.partial_fit_logged(*(column[start : start + 11] for column in columns), classes=CLASSES)
    assert state_of(parts) == state_of(whole)
    silent = classifier(algorithm=algorithm).partial_fit_logged(*columns[:3], np.zeros(N), CLASSES)
    assert whole.score(X, Y) > max(0.6, silent.score(X, Y))


def test_learners_under_full_information_get_the_true_label() -> None:
    """They learn from it in `partial_fit`, and refuse feedback without it."""
    estimator = fitted(algorithm="gaptron", hyperparameters={"information": "full"})
    choices = estimator.sample(X)
    with pytest.raises(ValueError, match="true_labels: missing"):
        estimator.update(X, choices, correct=choices.labels == Y)
    before = state_of(estimator)
    assert state_of(estimator.update(X, choices, true_labels=Y)) != before


TABLES: list[Any] = [X.tolist(), pd.DataFrame(X), pd.DataFrame(X, columns=NAMES), np.asfortranarray(X)]


@pytest.mark.parametrize("table", TABLES, ids=["lists", "frame", "named frame", "columns first"])
def test_every_form_of_a_table_gives_the_same_bits(table: Any) -> None:
    """Lists, arrays and data frames are the same rows."""
    assert state_of(classifier().partial_fit(table, Y.tolist(), CLASSES)) == state_of(fitted())


def test_sparse_matrices_are_sparse_contexts() -> None:
    """Every format of scipy gives the same state; duplicates add up; answers are those of the dense rows."""
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
    """Classes are sorted, and answers have their type."""
    estimator = classifier().fit(X, labels)
    assert estimator.classes_.tolist() == classes
    assert set(estimator.predict(X).tolist()) <= set(classes)
    assert type(estimator.predict(X).tolist()[0]) is type(classes[0])
    assert 0.5 < estimator.score(X, labels) <= 1.0


def test_fit_forgets_and_copies_go_on() -> None:
    """`fit` begins anew; a copy by pickle learns on with the same bits."""
    estimator = fitted()
    copy = pickle.loads(pickle.dumps(estimator))
    assert state_of(copy.partial_fit(X, Y)) == state_of(estimator.partial_fit(X, Y))
    assert state_of(estimator.fit(X, Y)) == state_of(fitted())
    assert estimator.rounds_ == N


def bad(**changes: Any) -> dict[str, Any]:
    """Return the arguments of `partial_fit` with changes."""
    return {"X": X, "y": Y, "classes": None} | changes


def with_value(value: Any) -> Any:
    """Return rows with one bad value."""
    rows = X.astype(object)
    rows[3, 1] = value
    return rows


BAD_ROWS = {
    "one dimension": (X[0], "2D array"),
    "three dimensions": (X[None], "2D array"),
    "no rows": (X[:0], "0 sample"),
    "no features": (X[:, :0], "0 feature"),
    "more features": (np.hstack([X, X]), "8 features"),
    "fewer features": (X[:, :2], "2 features"),
    "ragged": ([[1.0, 2.0], [3.0]], "same number of features"),
    "NaN": (with_value(np.nan).astype(float), "NaN"),
    "infinity": (with_value(-np.inf).astype(float), "infinity"),
    "string": (with_value("x"), "column 1 has 'x'"),
    "None": (with_value(None), "column 1|NaN"),
    "strings": (X.astype(str), "must be real numbers"),
    "complex": (X + 1j, "Complex"),
    "sparse complex": (sparse.csr_array(X + 1j), "Complex"),
    "sparse NaN": (sparse.csr_array(with_value(np.nan).astype(float)), "NaN"),
    "sparse of another size": (sparse.csr_array((N, 9)), "9 features"),
    "dates": (X.astype("datetime64[s]"), "must be real numbers"),
    "frame with text": (pd.DataFrame(X, columns=NAMES).assign(b="x"), "column 'b' has 'x'"),
    "a number": (3.0, "2D array"),
    "None as table": (None, "2D array"),
}
BAD_LABELS = {
    "fewer": (Y[:-1], "inconsistent"),
    "a matrix": (np.column_stack([Y, Y]), "1d array"),
    "continuous": (X[:, 0] + 0.5, "continuous"),
    "NaN": (np.full(N, np.nan), "NaN"),
    "None": ([None] * N, "must be all strings"),
    "mixed": (np.array(["red"] * (N - 1) + [1], object), "strings and numbers"),
    "missing": (None, "None"),
    "unknown": (np.where(Y == "red", "pink", Y), "unknown class 'pink'"),
    "numbers": (np.zeros(N, int), "unknown class 0"),
    "dates": (np.zeros(N, "datetime64[s]"), "Unknown label type"),
}
BAD_CLASSES = {
    "single": (["red"], "1 class"),
    "others": (["red", "green"], "not the same as on last call"),
    "empty": ([], "0 class"),
    "continuous": ([0.5, 1.5], "continuous"),
}
BAD = [
    *((f"X: {name}", bad(X=rows), match) for name, (rows, match) in BAD_ROWS.items()),
    *((f"y: {name}", bad(y=labels), match) for name, (labels, match) in BAD_LABELS.items()),
    *((f"classes: {name}", bad(classes=classes), match) for name, (classes, match) in BAD_CLASSES.items()),
]


@pytest.mark.parametrize(("arguments", "match"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_every_mismatch_is_a_value_error(arguments: dict[str, Any], match: str) -> None:
    """Nothing is learnt then, by a new estimator or an old one."""
    estimator = fitted()
    before = state_of(estimator), estimator._rng.bit_generator.state
    with pytest.raises(ValueError, match=match):
        estimator.partial_fit(**arguments)
    assert (state_of(estimator), estimator._rng.bit_generator.state) == before


BAD_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"algorithm": "fastbc"}, "did you mean 'fastcb'"),
    ({"algorithm": None}, "unknown algorithm None"),
    ({"algorithm": "fenchel-young-ranking"}, "single label"),
    ({"hyperparameters": {"gap": 1.0}}, "its hyperparameters are .*gap_scale"),
    ({"hyperparameters": {"gap_scale": -1.0}}, "gap_scale: got -1.0"),
    ({"norm": "l2"}, "norm: got 'l2'"),
    ({"norm_bound": 0.0}, "norm_bound: got 0.0"),
    ({"norm_bound": "1"}, "norm_bound"),
    ({"intercept": "yes"}, "intercept: got 'yes'"),
    ({"norm": "reject"}, "norm of"),
    ({"random_state": -1}, "random_state: got -1"),
    ({"random_state": "seed"}, "random_state: got 'seed'"),
    ({"algorithm": "adahedge", "intercept": True}, "intercept: must be False"),
]


@pytest.mark.parametrize(("parameters", "match"), BAD_PARAMETERS, ids=lambda value: str(value)[:40])
def test_bad_parameters_are_value_errors(parameters: dict[str, Any], match: str) -> None:
    """They are refused when the first rows arrive, as scikit-learn wants."""
    with pytest.raises(ValueError, match=match):
        classifier(**parameters).partial_fit(X, Y, CLASSES)


def test_too_large_problems_are_refused() -> None:
    """A state of many gigabytes is an error that names another learner, not an exhausted memory."""
    with pytest.raises(ValueError, match=r"needs a state of .* use "):
        classifier(algorithm="soba").partial_fit(sparse.csr_array((2, 500_000)), ["a", "b"], ["a", "b"])


def test_bad_feedback_is_a_value_error() -> None:
    """Propensities, rewards, choices and labels out of range are refused; a new estimator asks for its classes."""
    estimator = fitted(algorithm="gaptron")
    choices = estimator.sample(X)
    good: dict[str, Any] = {"labels": Y, "propensities": np.full(N, 0.5), "rewards": np.ones(N)}
    for change, match in (
        ({"propensities": np.zeros(N)}, "propensities: got 0; must be above 0"),
        ({"propensities": np.full(N, 1.01)}, "propensities: got 1.01"),
        ({"propensities": np.full(N, np.nan)}, "propensities: every number must be finite"),
        ({"propensities": ["0.5"] * N}, "propensities: must be 120 numbers"),
        ({"propensities": 0.5}, "propensities: must be 120 numbers"),
        ({"rewards": np.full(N, 1.5)}, "rewards: got 1.5"),
        ({"rewards": np.full(N, 0.5)}, "must be 0 or 1"),
        ({"labels": ["pink"] * N}, "unknown class 'pink'"),
    ):
        with pytest.raises(ValueError, match=match):
            estimator.partial_fit_logged(X, **good | change)
    for feedback, match in (
        ({}, "give `correct`"),
        ({"correct": np.ones(N), "rewards": np.ones(N)}, "give `correct`"),
        ({"correct": np.ones(N - 1)}, "correct: must be 120 numbers"),
    ):
        with pytest.raises(ValueError, match=match):
            estimator.update(X, choices, **feedback)
    with pytest.raises(ValueError, match="what `sample` returned"):
        estimator.update(X, tuple(choices), correct=np.ones(N))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="propensities"):
        estimator.update(X, Choices(choices.labels, choices.propensities * 3, *choices[2:]), correct=np.ones(N))
    with pytest.raises(ValueError, match="classes must be passed"):
        classifier().partial_fit(X, Y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        classifier().sample(X)


def test_columns_must_keep_their_names() -> None:
    """A data frame with other names, or in another order, is refused."""
    frame = pd.DataFrame(X, columns=NAMES)
    estimator = classifier().fit(frame, Y)
    assert list(estimator.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="another order"):
        estimator.predict(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="unknown: z"):
        estimator.predict(frame.rename(columns={"a": "z"}))


def test_the_import_needs_numpy_only() -> None:
    """scikit-learn, pandas, joblib and matplotlib are not imported. (numba imports scipy if it is installed.)"""
    heavy = "{'sklearn', 'pandas', 'joblib', 'matplotlib'}"
    code = f"import sys, learners.estimators; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
