"""Weighs what candidates cost against their estimated rewards.

A learner with estimated rewards r decides by r - λ c, for costs c with weight λ. It learns only the rewards, so λ may
differ in every round.
"""

from learners.base import BoolArray, FloatArray, Prices
from learners.kernels import compiled, narrow


@compiled
def price_row(prices: Prices, t: int) -> Prices:
    """Return the prices of the t-th context alone, as views."""
    return Prices(prices.weights[t : t + 1], prices.costs[t : t + 1] if len(prices.costs) > 1 else prices.costs)


@compiled
def penalize(prices: Prices, eligible: BoolArray, i: int, penalties: FloatArray) -> FloatArray:
    """Return the penalties λ c of the K' labels eligible for context i, in the array `penalties` (K,).

    They are relative to the least of them, because only differences count. The result is empty if λ is 0.
    """
    weights, costs = price_row(prices, i)
    if len(weights) == 0 or weights[0] == 0.0:
        return penalties[:0]
    for k in range(len(penalties)):
        penalties[k] = costs[0, k]
    found = penalties[: narrow(eligible, i, penalties)]
    weigh_costs(weights[0], found)
    return found


@compiled
def weigh_costs(weight: float, costs: FloatArray) -> None:
    """Replace costs (K,) by λ (c - the least c), in place."""
    least = costs[0]
    for cost in costs:
        least = min(least, cost)
    for k in range(len(costs)):
        costs[k] = weight * (costs[k] - least)
