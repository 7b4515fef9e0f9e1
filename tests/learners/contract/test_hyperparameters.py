"""Hyperparameters: described, frozen, refused by name."""

import dataclasses
import json
import math
from typing import Any

import pydantic
import pytest

from learners.base import Problem
from tests.learners.contract.lives import PROBLEM, Life, of_each_algorithm


def schema(life: Life) -> dict[str, Any]:
    properties: dict[str, Any] = dict(pydantic.TypeAdapter(life.case.learner).json_schema()["properties"])
    del properties["problem"]
    return properties


def out_of_range(alternatives: list[dict[str, Any]]) -> list[Any]:
    bad: list[Any] = ["nonsense", math.nan, math.inf, -math.inf, [1], {}, b"1"]
    ends = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
    limits = [a[key] for a in alternatives for key in ends if key in a]
    if limits:
        bad += [min(limits) - 1, max(limits) + 1 if any("maximum" in a for a in alternatives) else "0.5"]
    return bad


@of_each_algorithm
def test_hyperparameters_are_described(life: Life) -> None:
    json.dumps(pydantic.TypeAdapter(life.case.learner).json_schema(), allow_nan=False)
    for name, field in schema(life).items():
        assert field.get("description", "").endswith("."), name
        assert "default" in field, name


@of_each_algorithm
def test_hyperparameters_out_of_range_are_refused_by_name(life: Life) -> None:
    for name, field in schema(life).items():
        for value in out_of_range(field.get("anyOf", [field])):
            with pytest.raises(pydantic.ValidationError) as caught:
                life.case.learner(problem=PROBLEM, **{name: value})
            assert {error["loc"][0] for error in caught.value.errors()} == {name}, value
    with pytest.raises(pydantic.ValidationError, match="momentum"):
        life.case.learner(problem=PROBLEM, momentum=0.9)


def test_hyperparameters_are_frozen_values(life: Life) -> None:
    twin = life.case.at(PROBLEM)
    for field in dataclasses.fields(life.case.learner):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(twin, field.name, None)
    assert twin == life.learner
    assert hash(twin) == hash(life.learner)
    adapter = pydantic.TypeAdapter(life.case.learner)
    assert adapter.validate_json(adapter.dump_json(life.learner)) == life.learner


def test_learner_describes_itself(life: Life) -> None:
    assert life.learner.guarantee.endswith(".")
    assert life.learner.smaller
    assert 0 < life.learner.fold_cost(1) <= life.case.at(Problem(8, 50)).fold_cost(50)


@pytest.mark.parametrize(
    "sizes",
    [(1, 5), (4, 0), (2.0, 5), ("4", 5), *((4, 5, x) for x in (0.0, -1.0, 1e-7, 1e7, 1e200, math.inf, math.nan))],
)
def test_invalid_problems_are_refused(sizes: tuple[Any, ...]) -> None:
    with pytest.raises(pydantic.ValidationError):
        Problem(*sizes)
