"""What an estimator reads and builds before it learns: rows, classes and settings. Nothing here needs compiled code."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from learners.estimators.bandit_classifier import BanditClassifier
from learners.estimators.classes import numbered, read_labels, sorted_classes
from learners.estimators.feedback import read_bits, read_rewards
from learners.estimators.fitted import NotFittedError
from learners.estimators.inputs import read_table
from learners.estimators.setup import Choice, set_up
from learners.registry import LEARNERS, STRUCTURED_LEARNERS


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.ndarray.tolist], ids=["dense", "sparse", "lists"])
def test_rows_must_be_finite(form: Any, value: float) -> None:
    """In every form of a table."""
    with pytest.raises(ValueError, match="every number must be finite"):
        read_table(form(np.array([[1.0, 2.0], [value, 3.0]])))


def test_repeated_entries_of_sparse_rows_add_up() -> None:
    """As scipy defines them."""
    rows = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))
    contexts = read_table(rows).contexts
    assert (contexts.starts.tolist(), contexts.indices.tolist()) == ([0, 1, 2], [1, 0])
    assert contexts.values.tolist() == [3.0, 4.0]


def test_classes_are_numbered_in_their_order() -> None:
    """The order of the rows does not decide the numbers, and an unknown class has none."""
    classes = sorted_classes("y", ["c", "a", "b", "a"])
    assert numbered("y", read_labels("y", ["b", "c", "a", "b"]), classes).tolist() == [1, 2, 0, 1]
    with pytest.raises(ValueError, match="y has the unknown class 'd'; the classes are 'a', 'b', 'c'"):
        numbered("y", read_labels("y", ["a", "d"]), classes)


@pytest.mark.parametrize("algorithm", sorted(set(LEARNERS) - set(STRUCTURED_LEARNERS)))
def test_the_defaults_are_those_of_the_learner(algorithm: str) -> None:
    """Norm policy and intercept are those of a new model of the service; the intercept is one more feature."""
    built, cls = set_up(Choice(algorithm), 3, 4), LEARNERS[algorithm]
    assert (built.preparation.policy, built.preparation.intercept) == (cls.norm_policy, cls.intercept)
    assert (built.preparation.n_features, built.learner.problem.n_features) == (4, 4 + cls.intercept)


MASKED = np.ma.array([1.0, 0.0, 1.0], mask=[False, True, False])


@pytest.mark.parametrize(
    ("read", "match"),
    [
        (lambda: read_table(MASKED[:, None]), "X has masked values"),
        (lambda: read_table([MASKED, MASKED]), "X has masked values"),
        (lambda: read_labels("y", MASKED), "y has masked values"),
        (lambda: read_rewards("rewards", MASKED, 3), "rewards has masked values"),
        (lambda: read_bits("correct", [1.0, 0.5, 0.0], 3), "correct: got 0.5"),
        (lambda: read_table([[10**400, 1.0]]), "X: "),
        (lambda: set_up(Choice("uniform", 3), 3, 2), "hyperparameters: got 3"),  # type: ignore[arg-type]
        (lambda: set_up(Choice("uniform", []), 3, 2), r"hyperparameters: got \[\]"),  # type: ignore[arg-type]
        (lambda: set_up(Choice("uniform", norm_bound=10**400), 3, 2), "norm_bound: got a number that is too large"),
        (lambda: set_up(Choice(["uniform"]), 3, 2), "algorithm .*must be a name"),  # type: ignore[arg-type]
    ],
    ids=range(10),
)
def test_what_cannot_be_read_is_refused_by_name(read: Any, match: str) -> None:
    """Without compiled code; `test_wrong_arguments` has the table of all methods."""
    with pytest.raises(ValueError, match=match):
        read()


@pytest.mark.parametrize("method", ["predict", "predict_proba", "sample"])
def test_an_estimator_without_classes_says_so(method: str) -> None:
    """With its own error."""
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(BanditClassifier(), method)([[1.0]])
