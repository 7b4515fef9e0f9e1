"""Warnings of budgets, and which models have costs."""

from typing import Any

import pytest

from service.models.costs import budget_warnings, costs_count, first_weight, has_costs
from service.schemas.models import Policies

CLOSING: dict[str, Any] = {"on_expiry": "incorrect", "window_seconds": 60.0}
BUDGET = Policies(costs={"a": 1.0}, budget={"cost": 0.5}, **CLOSING)  # type: ignore[arg-type]


def test_a_budget_that_the_largest_weight_does_not_keep_warns() -> None:
    (warning,) = budget_warnings(BUDGET, 200.0, 0.875)
    assert warning.startswith("budget: ")
    assert "0.5, lately 0.875 on average" in warning
    assert budget_warnings(BUDGET, 190.0, 0.875) == []
    assert budget_warnings(Policies(), 200.0, 0.875) == []


@pytest.mark.parametrize(
    ("policies", "weight", "counts"),
    [
        (Policies(), None, False),
        (Policies(costs={"a": 1.0}), 0.0, False),
        (Policies(cost_weight=0.25), 0.25, True),
        (BUDGET, pytest.approx(0.2), True),
    ],
)
def test_the_weight_of_a_new_model_is_known(policies: Policies, weight: Any, counts: bool) -> None:
    assert first_weight(policies) == weight
    assert has_costs(policies) == (weight is not None)
    assert costs_count(policies) == counts
