"""The plain search for the nearest distribution finds those that a person finds."""

from typing import Any

import pytest

from tests.simulation.nearest import nearest

Q = [0.8, 0.2, 0.0]
LAST = {"last": ["b", "c"]}


@pytest.mark.parametrize(
    ("rules", "eligible", "expected"),
    [
        ({"floor": {"c": 0.1}}, "abc", [0.72, 0.18, 0.1]),
        ({"cap": {"a": 0.4}}, "abc", [0.4, 0.6, 0.0]),
        ({"floor_each": 0.1}, "ac", [0.9, 0.0, 0.1]),
        ({"floor": {"last": 0.5, "c": 0.1}, "groups": LAST}, "abc", [0.5, 0.4, 0.1]),
        ({"cap": {"last": 0.1}, "groups": LAST}, "abc", [0.9, 0.1, 0.0]),
        ({"cap": {"b": 0.1}}, "bc", [0.0, 0.1, 0.9]),
        ({"cap": {"b": 0.1}, "floor": {"a": 0.3}}, "b", [0.0, 1.0, 0.0]),
    ],
)
def test_the_nearest_distribution_is_that_of_a_person(
    rules: dict[str, Any], eligible: str, expected: list[float]
) -> None:
    whole = {"floor": {}, "cap": {}, "floor_each": 0.0, "groups": {}} | rules
    assert nearest(Q, "abc", whole, [label in eligible for label in "abc"]) == pytest.approx(expected)
