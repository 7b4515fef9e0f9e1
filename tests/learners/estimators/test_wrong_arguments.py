"""Each public call refuses each wrong argument with a `ValueError`: a table of methods by arguments."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from learners.estimators import compare
from learners.estimators.bandit_classifier import BanditClassifier, Choices
from learners.estimators.fitted import NotFittedError
from tests.learners.estimators.rows import CLASSES, N, X, Y, classifier, fitted, state_of

HUGE = 10**400
P, BITS = np.full(N, 0.5), np.ones(N, bool)


def rows(value: Any) -> list[list[Any]]:
    """Return rows in which one number is another value."""
    changed: list[list[Any]] = X.tolist()
    changed[3][1] = value
    return changed


def column(value: Any, of: Any) -> list[Any]:
    """Return a column in which one value is another one."""
    changed: list[Any] = np.asarray(of).tolist()
    changed[3] = value
    return changed


def generator() -> Iterator[int]:
    """Yield ones."""
    yield from [1] * N


MASK = np.arange(N) == 3
NOTHING = {"None": None, "a number": 3, "text": "x", "an object": object(), "a dictionary": {}, "a type": dict}
NO_NUMBER = {name: value for name, value in NOTHING.items() if name != "a number"}
TABLES = NOTHING | {
    "a huge number": rows(HUGE),
    "huge numbers": [[HUGE] * 4] * N,
    "a huge number in a frame": pd.DataFrame(rows(HUGE)),
    "a huge negative number": rows(-HUGE),
    "a generator": generator(),
    "a set": {1.0, 2.0},
    "masked": np.ma.array(X, mask=np.tile(MASK[:, None], 4)),
    "masked rows": [np.ma.array(row, mask=[True, False, False, False]) for row in X],
    "a nested list": rows([1.0, 2.0]),
    "a missing value": pd.DataFrame(rows(None)).convert_dtypes(),
    "a sparse vector": sparse.coo_array(X[0]),
}
LABELS = NOTHING | {
    "a generator": generator(),
    "masked": np.ma.array(Y, mask=MASK),
    "a huge number": column(HUGE, Y),
    "a huge number among fractions": column(HUGE, P),
    "a list": column([], Y),
    "a dictionary within": column({}, Y),
}
NUMBERS = NOTHING | {
    "a generator": generator(),
    "masked": np.ma.array(P, mask=MASK),
    "a huge number": column(HUGE, P),
    "None within": column(None, P),
    "text within": column("1", P),
    "a list within": column([], P),
    "two": column(2, P),
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "algorithm": NOTHING
    | {"as for compare": {"algorithm": "gaptron", "loss": "hinge"}, "a list": ["fastcb"], "a set": {"fastcb"}},
    "hyperparameters": {
        "a number": 3,
        "a list": [],
        "text": "gap_scale",
        "numbers": {1: 2},
        "huge": {"gap_scale": HUGE},
        "nested": {"gap_scale": {(1, 2): 3}},
    },
    "norm": NOTHING | {"a list": ["unit"]},
    "norm_bound": NO_NUMBER
    | {"huge": HUGE, "-huge": -HUGE, "a list": [1.0], "complex": 1j, "another": np.complex128(1)},
    "intercept": NOTHING | {"a list": []},
    "random_state": {name: value for name, value in NO_NUMBER.items() if name != "None"}
    | {"negative": -HUGE, "real": 0.5},
}

Call = Callable[..., Any]
FITTED = fitted()
CHOICES = FITTED.sample(X)
CALLS: list[tuple[str, Call, dict[str, Any]]] = [
    ("fit", lambda v: classifier().fit(v, Y), TABLES),
    ("fit y", lambda v: classifier().fit(X, v), LABELS),
    ("partial_fit", lambda v: FITTED.partial_fit(v, Y), TABLES),
    ("partial_fit y", lambda v: FITTED.partial_fit(X, v), LABELS),
    ("first partial_fit", lambda v: classifier().partial_fit(X, Y, v), LABELS),
    ("predict", FITTED.predict, TABLES),
    ("predict_proba", FITTED.predict_proba, TABLES),
    ("sample", FITTED.sample, TABLES),
    ("score", lambda v: FITTED.score(v, Y), TABLES),
    ("score y", lambda v: FITTED.score(X, v), LABELS),
    ("logged X", lambda v: FITTED.partial_fit_logged(v, Y, P, BITS), TABLES),
    ("logged labels", lambda v: FITTED.partial_fit_logged(X, v, P, BITS), LABELS),
    ("logged propensities", lambda v: FITTED.partial_fit_logged(X, Y, v, BITS), NUMBERS),
    ("logged rewards", lambda v: FITTED.partial_fit_logged(X, Y, P, v), NUMBERS),
    ("update X", lambda v: FITTED.update(v, CHOICES, BITS), TABLES),
    ("update choices", lambda v: FITTED.update(X, v, BITS), NOTHING | {"empty": Choices(*[None] * 4)}),  # type: ignore[arg-type]
    ("update correct", lambda v: FITTED.update(X, CHOICES, v), NUMBERS | {"a half": column(0.5, BITS.astype(float))}),
    ("update rewards", lambda v: FITTED.update(X, CHOICES, rewards=v), NUMBERS),
    (
        "update propensities",
        lambda v: FITTED.update(X, CHOICES._replace(propensities=v), BITS),
        NUMBERS,
    ),
    (
        "compare",
        lambda v: compare(v, X, Y),
        NOTHING | {"one": "fastcb", "no name": [["fastcb"]], "number": generator()},
    ),
    ("compare X", lambda v: compare(["uniform"], v, Y), TABLES),
    ("compare y", lambda v: compare(["uniform"], X, v), LABELS),
    ("compare an estimator", lambda v: compare([classifier(hyperparameters=v)], X, Y), PARAMETERS["hyperparameters"]),
    *(
        (f"compare {name}", lambda v, name=name: compare(["uniform"], X, Y, **{name: v}), values)
        for name, values in (
            ("tune", NOTHING),
            ("seeds", NO_NUMBER | {"real": 2.0, "none": 0}),
            ("rounds", {"text": "x", "real": 9.0, "huge": HUGE, "few": 3}),
            ("n_jobs", NO_NUMBER | {"none": 0, "true": True, "real": 1.5}),
            ("random_state", NO_NUMBER | {"negative": -1}),
            ("clock", {"None": None, "a number": 3}),
        )
    ),
    *(
        (f"parameter {name}", lambda v, name=name: classifier(**{name: v}).fit(X, Y), values)
        for name, values in PARAMETERS.items()
    ),
]
CASES = [pytest.param(call, v, id=f"{name}: {each}") for name, call, values in CALLS for each, v in values.items()]


@pytest.mark.parametrize(("call", "value"), CASES)
def test_every_wrong_argument_is_a_value_error(call: Call, value: Any) -> None:
    """And nothing is learnt."""
    before = state_of(FITTED), FITTED._rng.bit_generator.state
    with pytest.raises(ValueError, match=r"\w"):
        call(value)
    assert (state_of(FITTED), FITTED._rng.bit_generator.state) == before


@pytest.mark.parametrize("name", ["predict", "predict_proba", "sample", "score", "update"])
def test_what_needs_classes_says_so(name: str) -> None:
    """The error of an estimator without classes is the same from every method, and keeps scikit-learn's message."""
    arguments = {"score": (X, Y), "update": (X, CHOICES, BITS)}.get(name, (X,))
    with pytest.raises(NotFittedError, match="not fitted yet; call partial_fit or fit first"):
        getattr(BanditClassifier(), name)(*arguments)


def test_masked_arrays_without_a_mask_are_read() -> None:
    """Only what is masked cannot be read."""
    one, other = classifier().fit(np.ma.array(X), np.ma.array(Y)), classifier().fit(X, Y)
    assert state_of(one) == state_of(other)
    assert one.classes_.tolist() == sorted(CLASSES)
