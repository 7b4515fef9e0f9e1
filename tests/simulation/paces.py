"""The pace of a learner after rounds of a log, one by one: by what it answered, or by what it would answer."""

from typing import Any, NamedTuple

import numpy as np

from learners.base import Prices, Rounds
from service.choice.requests import NO_OPTIONS
from service.models.model import Model
from service.store.records.optional_fields import GIVEN_COSTS, LogRows
from service.store.values import LogEntry
from tests.simulation.pace import Pace
from tests.simulation.prices_in_force import PricesInForce
from tests.simulation.rules_in_force import RulesInForce


class InForce(NamedTuple):
    """The policies at a place of the log."""

    rules: RulesInForce
    prices: PricesInForce


def paced(pace: Pace, entry: LogEntry, model: Model, state: Any, there: InForce) -> Pace:
    """Return the pace after the rounds of an entry. `model` and `state` are those before it."""
    budget, rows = there.prices.budget, model.choice.records.rows([entry.payload])
    if budget is None:
        return pace
    state = type(state)(*(np.array(array) for array in state))
    for i in range(len(rows.table)):
        row = rows.row(i)
        one, seen = model.rounds_of(row), row.table[0]
        paid = _paid(row)
        if model.served_by is not None or seen["changes_seen"] < model.learner_since:
            paid, one = _expected(pace, row, one, model, state, there)
        state = model.learner.fold(state, one)
        if paid is not None:
            pace = pace.after(budget, *paid, float(seen["round"]) - 1.0 - float(seen["rounds_seen"]))
    return pace


def _paid(row: LogRows) -> tuple[float, float] | None:
    """Return what the answer of a round cost, and λ in its decision; None if nobody knows."""
    if not (row.parts.prices.size and row.parts.prices[0, 0] >= 0.0):
        return None
    weight, cost = row.parts.prices[0].tolist()
    return cost, weight


def _expected(
    pace: Pace, row: LogRows, one: Rounds, model: Model, state: Any, there: InForce
) -> tuple[tuple[float, float], Rounds]:
    """Return the mean cost of what the learner would answer and its λ, and the round with its evidence."""
    assert there.prices.budget is not None
    priced = there.prices.of(NO_OPTIONS, pace)
    assert priced is not None
    weight, costs = priced
    for label, given in np.frombuffer(row.parts.costs[0], GIVEN_COSTS).tolist():
        costs[label] = given
    prices = Prices(np.array([weight]), np.array([costs]))
    decisions = model.learner.decide(state, one.contexts, one.eligible, prices)
    nearest = there.rules.nearest_to(decisions.distributions[0].tolist(), one.eligible[0].tolist())
    cost = sum(p * c for p, c in zip(nearest, costs, strict=True))
    return (cost, weight), one._replace(evidence=decisions.evidence)
