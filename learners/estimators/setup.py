"""Builds a learner and the preparation of its contexts, as the service does for a new model."""

import dataclasses
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pydantic

from learners.base import AnyLearner, Contexts, NormPolicy, Problem
from learners.checks import check_contexts
from learners.mathematics.preparation import Preparation, prepare
from learners.new_models import check_new, check_state_size
from learners.registry import LEARNERS, STRUCTURED_LEARNERS

NormChoice: TypeAlias = NormPolicy | Literal["default"]
InterceptChoice: TypeAlias = bool | Literal["default"]

MAX_STATE_BYTES = 2**31  # the limit of a learner's state

_NORMS = ("default", "none", "reject", "scale", "unit")


class Choice(NamedTuple):
    """A learner and how its contexts are prepared, before the problem is known."""

    algorithm: str
    hyperparameters: Mapping[str, Any] | None = None
    norm: NormChoice = "default"
    norm_bound: float = 1.0
    intercept: InterceptChoice = "default"


class Setup(NamedTuple):
    """A learner for a problem, and how its contexts are prepared."""

    learner: AnyLearner
    preparation: Preparation

    def prepared(self, contexts: Contexts) -> Contexts:
        """Return the prepared contexts for the learner. Raises `ValueError` if their d or a norm does not fit."""
        check_contexts(contexts, self.preparation.n_features)
        if self.preparation.policy == "reject":
            self._check_norms(contexts)
        return prepare(contexts, self.preparation)

    def _check_norms(self, contexts: Contexts) -> None:
        sizes = np.abs(contexts.values)
        if self.learner.context_norm == "euclidean":
            rows = np.repeat(np.arange(contexts.n), np.diff(contexts.starts))
            sizes = np.sqrt(np.bincount(rows, sizes * sizes, contexts.n))
        room = self.preparation.room
        if sizes.size and sizes.max() > room * (1.0 + 1e-12):
            raise ValueError(
                f"X has a row with a norm of {sizes.max():.9g}; must be at most {room:.9g}, because norm is "
                f"'reject' and norm_bound {self.preparation.bound:g}"
            )


def class_of(algorithm: str) -> type[Any]:
    """Return the class of an algorithm that answers single labels. Raises `ValueError` for any other name."""
    if not isinstance(algorithm, str):
        raise ValueError(f"unknown algorithm {algorithm!r}; must be a name; its settings go in `hyperparameters`")
    if algorithm in STRUCTURED_LEARNERS:
        raise ValueError(f"algorithm {algorithm!r} answers sets or rankings; must answer a single label")
    if algorithm not in LEARNERS:
        near = get_close_matches(algorithm, LEARNERS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown algorithm {algorithm!r}; {hint}known algorithms: {', '.join(sorted(LEARNERS))}")
    return LEARNERS[algorithm]


def set_up(choice: Choice, n_labels: int, n_features: int) -> Setup:
    """Return the learner for K labels and d features, with the service's defaults. Raises `ValueError` if invalid."""
    chosen = class_of(choice.algorithm)
    choice = choice._replace(norm_bound=_number("norm_bound", choice.norm_bound))
    policy, intercept = _features_of(choice, chosen)
    problem = _problem(n_labels, n_features + intercept, choice.norm_bound)
    hyperparameters = hyperparameters_of(choice)
    _check_names(choice.algorithm, hyperparameters, chosen)
    learner = _validated(chosen, problem, hyperparameters)
    check_state_size(learner, MAX_STATE_BYTES)
    return Setup(learner, Preparation(policy, choice.norm_bound, intercept, n_features))


def hyperparameters_of(choice: Choice) -> dict[str, Any]:
    """Return the hyperparameters that the choice states, by name. Raises `ValueError` if they are not a mapping."""
    given = choice.hyperparameters
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"hyperparameters: got {given!r}; must be a dictionary, by name, or None")
    return {str(name): value for name, value in (given or {}).items()}


def _number(name: str, given: object) -> float:
    if not isinstance(given, int | float | np.integer | np.floating):
        raise ValueError(f"{name}: got {given!r}; must be a number")
    try:
        return float(given)
    except OverflowError as error:
        raise ValueError(f"{name}: got a number that is too large: {error}") from error


def _features_of(choice: Choice, chosen: type[Any]) -> tuple[NormPolicy, bool]:
    if choice.norm not in _NORMS:
        raise ValueError(f"norm: got {choice.norm!r}; must be one of {', '.join(_NORMS)}")
    if choice.intercept != "default" and not isinstance(choice.intercept, bool | np.bool_):
        raise ValueError(f"intercept: got {choice.intercept!r}; must be True, False or 'default'")
    policy = chosen.norm_policy if choice.norm == "default" else choice.norm
    intercept = chosen.intercept if choice.intercept == "default" else bool(choice.intercept)
    if intercept and not chosen.intercept:
        raise ValueError(f"intercept: must be False, as a constant would be one more expert of {chosen.algorithm}")
    if chosen.context_norm == "maximum" and not choice.norm_bound <= 1.0:
        raise ValueError(f"norm_bound: got {choice.norm_bound!r}; must be at most 1 for {chosen.algorithm}")
    return policy, intercept


def _problem(n_labels: int, n_features: int, norm_bound: float) -> Problem:
    try:
        return Problem(n_labels, n_features, norm_bound)
    except pydantic.ValidationError as error:
        raise ValueError(f"norm_bound: got {norm_bound!r}; must be a number from 1e-6 to 1e6") from error


def _check_names(algorithm: str, hyperparameters: Mapping[str, Any], chosen: type[Any]) -> None:
    known = sorted({field.name for field in dataclasses.fields(chosen)} - {"problem"})
    unknown = sorted(set(map(str, hyperparameters)) - set(known))
    if unknown:
        listed = f"its hyperparameters are {', '.join(known)}" if known else "it has none"
        raise ValueError(f"{algorithm} does not have the hyperparameter {unknown[0]!r}; {listed}")


def _validated(chosen: type[Any], problem: Problem, hyperparameters: dict[str, Any]) -> AnyLearner:
    try:
        learner: AnyLearner = chosen(problem=problem, **hyperparameters)
        check_new(learner)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = str(first["loc"][0]) if first["loc"] else chosen.algorithm
        given = f"got {hyperparameters[where]!r}; " if where in hyperparameters else ""
        raise ValueError(f"{where}: {given}{first['msg']}") from error
    return learner
