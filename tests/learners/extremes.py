"""Hyperparameters at the ends of their ranges, read from each learner's JSON Schema."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pydantic

from learners.base import AnyLearner, Problem
from learners.layouts import state_bytes

_ALMOST_ZERO = 1e-12
_LARGEST_COUNT = 50  # cap on counts that cost memory or time: updates, support vectors, weak learners
_LARGEST_STATE = 20_000_000


def ends(field: dict[str, Any]) -> list[Any]:
    """Return the allowed words, or the least and greatest numbers, of a field; None if it may be null."""
    if "anyOf" in field:
        return [end for part in field["anyOf"] for end in ends(part)]
    match field.get("type"):
        case "null":
            return [None]
        case "boolean":
            return [False, True]
        case "string":
            return list(field.get("enum", [field.get("const")]))
        case "integer":
            most = field["maximum"]
            return [field["minimum"], most if most == 2**53 else min(most, _LARGEST_COUNT)]
        case _:
            least = field.get("minimum", _ALMOST_ZERO)
            return [float(least), float(field.get("maximum", 2.0 - 1e-9))]


def extremes(cls: type[Any], seed: int, n_random: int) -> Iterator[dict[str, Any]]:
    """Yield each field at each end of its range alone, then random combinations of ends."""
    schema = pydantic.TypeAdapter(cls).json_schema()["properties"]
    choices = {name: ends(field) for name, field in schema.items() if name != "problem"}
    yield from ({name: value} for name, values in choices.items() for value in values)
    rng = np.random.default_rng(seed)
    for _ in range(n_random if choices else 0):
        yield {name: values[rng.integers(len(values))] for name, values in choices.items()}


def built(cls: type[Any], problem: Problem, fields: dict[str, Any]) -> AnyLearner | None:
    """Return the learner, or None if it refuses these fields or its state is too large for a test."""
    try:
        learner: AnyLearner = cls(problem=problem, **fields)
    except pydantic.ValidationError:
        return None
    return learner if state_bytes(learner) <= _LARGEST_STATE else None


def extreme_learners(cls: type[Any], norm_bound: float, n_random: int) -> list[AnyLearner]:
    """Return all learners that can be built, with 3 labels and with 7."""
    cases = itertools.product((Problem(3, 4, norm_bound), Problem(7, 2, norm_bound)), extremes(cls, 1, n_random))
    found = (built(cls, problem, fields) for problem, fields in cases)
    return [learner for learner in found if learner is not None]
