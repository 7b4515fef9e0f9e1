"""Every mismatch raises a `ValueError` with a clear message, and changes nothing."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from learners.estimators.bandit_classifier import Choices
from learners.estimators.fitted import NotFittedError
from tests.learners.estimators.rows import CLASSES, NAMES, N, X, Y, classifier, fitted, state_of


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
