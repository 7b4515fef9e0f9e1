"""What answers cost, in the form that decisions and folds use."""

from typing import NamedTuple

import numpy as np

from learners.actions.base import AnyActionLearner
from learners.base import NO_PRICES, AnyLearner, FloatArray, Prices
from learners.mathematics.pacing import NO_BUDGET, Budget
from learners.registry import ACTION_LEARNERS, LEARNERS
from service.choice.requests import Options
from service.error_messages.values import joined
from service.errors import InvalidInputError
from service.schemas.models import ModelDefinition
from service.store.records.optional_fields import GIVEN_COSTS, LogRows


class Bills(NamedTuple):
    """What n logged rounds cost."""

    prices: Prices  # as decided: weights (n,), costs (n, K) or (1, K); for actions none, because nothing decides again
    weights: FloatArray  # (n,), λ as decided; NaN if another policy decided
    paid: FloatArray  # (n,), the cost of each answer; NaN if another policy gave it, or if it has none
    lags: FloatArray  # (n,), how many rounds came between the decision and its round

    def rows(self, start: int, stop: int) -> "Bills":
        """Return the bills of rounds start … stop - 1, as views."""
        weights, costs = self.prices
        own = Prices(weights[start:stop], costs[start:stop] if len(costs) > 1 else costs)
        return Bills(own, *[column[start:stop] for column in self[1:]])


def bills_of(rows: LogRows, definition: ModelDefinition, costs: FloatArray | None) -> Bills | None:
    """Return what n logged rounds cost; None if neither they nor the model have prices.

    If another policy decided, use the model's λ. `costs` (K,) contains what the model's labels cost; None for a model
    with actions.
    """
    stored, table = rows.parts.prices, rows.table
    if not stored.size:
        if definition.costs is None:
            return None
        stored = np.full((len(table), 2), np.nan)  # as if they were read together with rounds that have prices
    weights, paid = stored.T
    decided = weights >= 0.0  # neither NaN nor another's
    prices = NO_PRICES
    if costs is not None:
        prices = Prices(np.where(decided, weights, definition.cost_weight), _costs_of_rows(rows, costs))
    lags = (table["round"] - 1 - table["rounds_seen"]).astype(np.float64)
    known = np.where(decided, weights, np.nan), np.where(decided, paid, np.nan)
    return Bills(prices, *known, np.maximum(lags, 0.0))


def _costs_of_rows(rows: LogRows, costs: FloatArray) -> FloatArray:
    """Return what the K labels cost in each round, (n, K), or (1, K) if no request changed the model's costs (K,)."""
    if not any(rows.parts.costs):
        return costs[np.newaxis]
    found = np.tile(costs, (len(rows.parts.costs), 1))
    for own, encoded in zip(found, rows.parts.costs, strict=True):
        given = np.frombuffer(encoded, GIVEN_COSTS)
        own[given["label"]] = given["cost"]
    return found


def budget_of(definition: ModelDefinition) -> Budget:
    """Return the budget of a model; an infinite one if it has none."""
    budget = definition.budget
    return NO_BUDGET if budget is None else Budget(budget.cost)


def check_weighs_costs(learner: AnyLearner | AnyActionLearner, field: str) -> None:
    """Raise `InvalidInputError` if a learner does not estimate rewards, which costs could be weighed against."""
    if learner.weighs_costs:
        return
    learners = LEARNERS if learner.answer != "action" else ACTION_LEARNERS
    others = joined(sorted(name for name, cls in learners.items() if cls.weighs_costs), "and")
    detail = f"must be left out: {learner.algorithm} estimates no rewards to weigh costs against; {others} do"
    raise InvalidInputError(detail, field)


def check_weight(definition: ModelDefinition, options: Options) -> None:
    """Raise `InvalidInputError` if the options have a weight of costs, but the model has a budget."""
    if options.cost_weight is not None and definition.budget is not None:
        raise InvalidInputError("must be left out: the budget of the model sets it", "cost_weight")
