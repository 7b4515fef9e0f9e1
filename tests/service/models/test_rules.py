"""What rules may cost: the bound that the guarantee states, against random rules and distributions."""

import re
from typing import Any

import numpy as np
import pytest

from learners.base import Problem
from learners.mathematics.limits import obey
from learners.registry import ALL_LEARNERS
from service.choice.rules import RuleLimits
from service.errors import WagerError
from service.models.rules import check_rules, guarantee_of, moved_by
from service.schemas.models import ModelDefinition

LEARNER = ALL_LEARNERS["uniform"](problem=Problem(2, 1))


def some_rules(rng: np.random.Generator, labels: list[str]) -> dict[str, Any]:
    """Return random rules, most of which some distribution obeys."""
    order, cuts = rng.permutation(labels).tolist(), sorted(rng.integers(0, len(labels) + 1, 2).tolist())
    groups = {f"group {i}": part for i, part in enumerate((order[: cuts[0]], order[cuts[0] : cuts[1]])) if part}
    names = [*labels, *groups]
    floor = {name: 0.5 * rng.random() + 1e-6 for name in names if rng.random() < 0.3}
    cap = {name: 0.98 * rng.random() + 0.01 for name in names if rng.random() < 0.3}
    return {"floor": floor, "cap": cap, "groups": groups, "floor_each": float(rng.choice([0.0, 0.03]))}


def possible(rng: np.random.Generator, labels: list[str]) -> ModelDefinition:
    while True:
        given = {"name": "m", "labels": labels, "rules": some_rules(rng, labels)}
        definition = ModelDefinition.model_validate(given)
        try:
            check_rules(definition, LEARNER, (), ())
        except WagerError:
            continue
        return definition


def test_rules_move_at_most_what_the_guarantee_says() -> None:
    rng, most = np.random.default_rng(1), 0.0
    for _ in range(400):
        labels = list("abcdef"[: int(rng.integers(2, 7))])
        definition = possible(rng, labels)
        assert definition.rules is not None
        limits = RuleLimits(definition.rules, {label: k for k, label in enumerate(labels)}).of_labels
        eligible = rng.random(len(labels)) < 0.8
        eligible[0] = True
        q = np.where(eligible, rng.dirichlet(np.full(len(labels), rng.choice([0.05, 0.3, 1.0]))) + 1e-9, 0.0)
        q /= q.sum()
        p = q.copy()
        obey(limits, eligible, p)
        bound = moved_by(definition)
        assert np.maximum(p - q, 0.0).sum() <= bound + 1e-9
        most = max(most, float(np.maximum(p - q, 0.0).sum() / bound) if bound else 0.0)
    assert most > 0.95  # the bound is reached


def test_a_floor_inside_a_capped_group_moves_more_than_either() -> None:
    rules = {"groups": {"g": ["a", "c"]}, "cap": {"g": 0.5}, "floor": {"a": 0.45}}
    definition = ModelDefinition.model_validate({"name": "m", "labels": list("abc"), "rules": rules})
    assert moved_by(definition) == pytest.approx(0.95)


@pytest.mark.parametrize("moved", [0.16683, 0.9999999, 0.00010001, 2 / 3, 0.1 + 0.2, 0.05, 1.0, 1e-6])
def test_the_guarantee_never_states_less_than_the_rules_move(moved: float) -> None:
    """Four digits are enough, also for sums of decimal fractions, which are inexact."""
    stated = re.findall(r"at most (\S+) (?:of|T)", guarantee_of(LEARNER, moved, weighs_costs=False))
    assert len(set(stated)) == 1
    assert moved - 1e-12 <= float(stated[0]) < moved + 0.001 * moved
    assert float(stated[0]) == pytest.approx(moved, rel=1e-9) or moved not in (0.05, 0.1 + 0.2, 1.0)
