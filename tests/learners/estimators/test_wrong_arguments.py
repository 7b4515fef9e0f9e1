"""Each public call refuses each wrong argument with a `ValueError`: a table of methods by arguments."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from learners.estimators import compare
from learners.estimators.bandit_classifier import BanditClassifier, Choices, NotFittedError
from tests.learners.estimators.rows import CLASSES, NAMES, N, X, Y, classifier, fitted, state_of

HUGE = 10**400
P, BITS = np.full(N, 0.5), np.ones(N, bool)


def rows(value: Any) -> list[list[Any]]:
    changed: list[list[Any]] = X.tolist()
    changed[3][1] = value
    return changed


def column(value: Any, of: Any) -> list[Any]:
    changed: list[Any] = np.asarray(of).tolist()
    changed[3] = value
    return changed


def generator() -> Iterator[int]:
    yield from [1] * N


def with_value(value: Any) -> Any:
    rows = X.astype(object)
    rows[3, 1] = value
    return rows


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
    "one dimension": X[0],
    "three dimensions": X[None],
    "no rows": X[:0],
    "no features": X[:, :0],
    "ragged": [[1.0, 2.0], [3.0]],
    **{str(bad): with_value(bad).astype(float) for bad in (np.nan, np.inf, -np.inf)},
    "a string within": with_value("x"),
    "None within": with_value(None),
    "strings": X.astype(str),
    "complex": X + 1j,
    "sparse complex": sparse.csr_array(X + 1j),
    "sparse NaN": sparse.csr_array(with_value(np.nan).astype(float)),
    "dates": X.astype("datetime64[s]"),
    "a frame with text": pd.DataFrame(X, columns=NAMES).assign(b="x"),
}
OTHER_WIDTHS = {"more": np.hstack([X, X]), "fewer": X[:, :2], "sparse": sparse.csr_array((N, 9))}
LABELS = NOTHING | {
    "a generator": generator(),
    "masked": np.ma.array(Y, mask=MASK),
    "a huge number": column(HUGE, Y),
    "a huge number among fractions": column(HUGE, P),
    "a list": column([], Y),
    "a dictionary within": column({}, Y),
    "fewer": Y[:-1],
    "a matrix": np.column_stack([Y, Y]),
    "continuous": X[:, 0] + 0.5,
    "NaN": np.full(N, np.nan),
    "None within": [None] * N,
    "mixed": np.array(["red"] * (N - 1) + [1], object),
    "dates": np.zeros(N, "datetime64[s]"),
}
OTHER_CLASSES = {"unknown": np.where(Y == "red", "pink", Y), "numbers": np.zeros(N, int)}
WRONG_CLASSES: dict[str, Any] = {"single": ["red"], "others": ["red", "green"], "empty": [], "continuous": [0.5, 1.5]}
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
    ("partial_fit", lambda v: FITTED.partial_fit(v, Y), TABLES | OTHER_WIDTHS),
    ("partial_fit y", lambda v: FITTED.partial_fit(X, v), LABELS | OTHER_CLASSES),
    ("partial_fit classes", lambda v: FITTED.partial_fit(X, Y, v), WRONG_CLASSES),
    ("first partial_fit", lambda v: classifier().partial_fit(X, Y, v), LABELS | {"fewer": ["red"]}),
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
    ("update propensities", lambda v: FITTED.update(X, CHOICES._replace(propensities=v), BITS), NUMBERS),
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
    before = state_of(FITTED), FITTED._rng.bit_generator.state
    with pytest.raises(ValueError, match=r"\w"):
        call(value)
    assert (state_of(FITTED), FITTED._rng.bit_generator.state) == before


REFUSED: dict[str, Callable[..., Any]] = {
    "fit": lambda estimator: estimator.fit(X * 1e3, Y),
    "partial_fit": lambda estimator: estimator.partial_fit(X * 1e3, Y, CLASSES),
    "logged X": lambda estimator: estimator.partial_fit_logged(X * 1e3, Y, P, BITS, CLASSES),
    "logged rewards": lambda estimator: estimator.partial_fit_logged(X / 1e3, Y, P, P, CLASSES),
}


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_argument_changes_nothing(what: str, is_fitted: bool) -> None:
    """An estimator without classes gets none, another keeps its state, and no random number is drawn."""
    estimator = classifier(algorithm="gaptron", norm="reject", random_state=np.random.RandomState(3))
    if is_fitted:
        estimator.fit(X / 1e3, Y)
    before = pickle.dumps(vars(estimator))
    with pytest.raises(ValueError, match=r"norm of|must be 0 or 1"):
        REFUSED[what](estimator)
    assert pickle.dumps(vars(estimator)) == before


@pytest.mark.parametrize("name", ["predict", "predict_proba", "sample", "score", "update"])
def test_what_needs_classes_says_so(name: str) -> None:
    arguments = {"score": (X, Y), "update": (X, CHOICES, BITS)}.get(name, (X,))
    with pytest.raises(NotFittedError, match="not fitted yet; call partial_fit or fit first"):
        getattr(BanditClassifier(), name)(*arguments)


def test_masked_arrays_without_a_mask_are_read() -> None:
    one, other = classifier().fit(np.ma.array(X), np.ma.array(Y)), classifier().fit(X, Y)
    assert state_of(one) == state_of(other)
    assert one.classes_.tolist() == sorted(CLASSES)


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
    with pytest.raises(ValueError, match=match):
        classifier(**parameters).partial_fit(X, Y, CLASSES)


def test_bad_feedback_is_a_value_error() -> None:
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
        ({}, "pass correct or rewards"),
        ({"correct": np.ones(N), "rewards": np.ones(N)}, "but not both"),
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
    frame = pd.DataFrame(X, columns=NAMES)
    estimator = classifier().fit(frame, Y)
    assert list(estimator.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="another order"):
        estimator.predict(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="unknown: z"):
        estimator.predict(frame.rename(columns={"a": "z"}))
