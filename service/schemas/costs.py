"""Schemas of costs: what labels cost, how much that weighs against rewards, and a budget."""

from typing import Annotated

from pydantic import Field

from service.error_messages.patterns import MOST_COST
from service.schemas.rules import RuleName
from service.strict_body import Body

MOST_COSTS = 1_000  # maximum labels with a cost
LEAST_BUDGET = 1e-6

Cost = Annotated[float, Field(ge=0, le=MOST_COST)]
CostWeight = Annotated[float, Field(ge=0, le=MOST_COST)]
Costs = Annotated[dict[RuleName, Cost], Field(max_length=MOST_COSTS)]


class Budget(Body):
    """A bound on the mean cost of the learner's answers."""

    cost: Annotated[float, Field(ge=LEAST_BUDGET, le=MOST_COST)]
    """The mean cost to stay within, over the rounds that the learner answered."""
