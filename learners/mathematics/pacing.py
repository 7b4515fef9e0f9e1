"""Budget pacing: the weight λ of costs for which the mean cost of a learner's rounds stays within a budget b.

λ is the dual variable of "maximize the mean reward, with a mean cost of at most b". Feedback is late, so steps along
the dual's gradient, c - b, overshoot unless they are small (Santiago Balseiro and Yonatan Gur, "Learning in Repeated
Auctions with Budgets", Management Science 2019, analyse them). But each round contains the λ that its decision used, so
the response of costs to λ is known, however late: a regression of c/b on ln λ over the latest rounds. λ is where it
predicts the budget, less a part of what was overspent so far: not only the latest costs shall have the mean b, but all.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np

from learners.base import FloatArray
from learners.kernels import compiled
from learners.layouts import Layout

_LEVEL, _DEBT, _LAG, _ROUNDS, _SINCE, _BUDGET, _SEEN, _MEAN_LEVEL, _MEAN_EXCESS, _SQUARES, _PRODUCTS = range(11)

Pacing: TypeAlias = Annotated[FloatArray, Layout("float64", ("11",))]
"""ln(λ b); Σ (c/b - 1); the mean lag; the number of rounds, and of those since b changed; b. Then the regression of
c/b - 1 on ln(λ b), in which older rounds count less: its number of rounds, both means, Σ (ln λ b - mean)², and the sum
of the products of both differences from the means. All are 0 at first."""

_FIRST, _LEAST, _MOST = 0.1, 1e-3, 100.0  # λ b at first; λ is 0 at the least one
_SHORTEST_LAG = 20.0  # rounds; costs that are known at once would otherwise cause a step at each round
_STEEPEST, _FLATTEST = 5.0, 0.3  # bounds on the slope of the regression, which is negative
_PRIOR_SLOPE, _PRIOR_SQUARES = 1.0, 20.0  # the slope that is assumed until rounds with different λ contradict it
_REMEMBERED, _FEWEST_REMEMBERED = 1.5, 100.0  # rounds of the regression: times the lag, and at least
_REPAID_IN = 2.5  # times the lag
_MOST_REPAID, _MOST_SPENT = 0.8, 1.0  # parts of the budget by which the costs of a round may be aimed below or above it
_LARGEST_STEP = 3.0  # of ln λ within the lag
_MOST_OWED, _MOST_SAVED = 10.0, 2.0  # times the lag and the budget: a larger debt, or its opposite, is forgotten
_LONGEST_MEAN = 1_000.0  # rounds of the mean lag
_LARGEST_EXCESS = 100.0  # of one round over the budget that counts: a wrong cost must not decide for long


def new_pacing() -> FloatArray:
    """Return the pacing before the first round."""
    return np.zeros(11)


def is_possible(pacing: FloatArray) -> bool:
    """Return whether no lag, number of rounds, budget or sum of squares is negative: `pace` divides by them."""
    return not (pacing[[_LAG, _ROUNDS, _SINCE, _BUDGET, _SEEN, _SQUARES]] < 0.0).any()


class Budget(NamedTuple):
    """A bound on the mean cost of a learner's rounds."""

    cost: float  # b > 0; infinite for none


NO_BUDGET = Budget(math.inf)


@compiled
def paced_weight(pacing: FloatArray, budget: Budget) -> float:
    """Return λ, from 0 to 100/b."""
    level = math.log(_FIRST)
    if pacing[_BUDGET] > 0.0:
        level = pacing[_LEVEL] + math.log(budget.cost / pacing[_BUDGET])
    if not level > math.log(_LEAST):
        return 0.0
    return math.exp(min(level, math.log(_MOST))) / budget.cost


@compiled
def pace(pacing: FloatArray, budget: Budget, cost: float, weight: float, lag: float) -> None:
    """Update the pacing by the cost of a round, which was decided with this weight, `lag` rounds before. Skip NaN.

    After a change of the budget, λ continues within its bounds, and what was decided before is not owed.
    """
    if np.isnan(cost):
        return
    if pacing[_BUDGET] != budget.cost:
        level = math.log(max(_LEAST, paced_weight(pacing, budget) * budget.cost))
        pacing[_SEEN:], pacing[_DEBT], pacing[_SINCE] = 0.0, 0.0, 0.0
        pacing[_LEVEL], pacing[_BUDGET] = level, budget.cost
    pacing[_ROUNDS] += 1.0
    pacing[_SINCE] += 1.0
    pacing[_LAG] += (lag - pacing[_LAG]) / min(pacing[_ROUNDS], _LONGEST_MEAN)
    time, excess = _SHORTEST_LAG + pacing[_LAG], min(_LARGEST_EXCESS, cost / budget.cost - 1.0)
    owed = excess if lag < pacing[_SINCE] else 0.0
    pacing[_DEBT] = min(_MOST_OWED * time, max(-_MOST_SAVED * time, pacing[_DEBT] + owed))
    level = math.log(min(_MOST, max(_LEAST, weight * budget.cost)))
    _regress(pacing, max(_FEWEST_REMEMBERED, _REMEMBERED * time), level, excess)
    slope = (_PRIOR_SLOPE * _PRIOR_SQUARES - pacing[_PRODUCTS]) / (_PRIOR_SQUARES + pacing[_SQUARES])
    aim = -min(_MOST_REPAID, max(-_MOST_SPENT, pacing[_DEBT] / (_REPAID_IN * time)))
    wanted = pacing[_MEAN_LEVEL] + (pacing[_MEAN_EXCESS] - aim) / min(_STEEPEST, max(_FLATTEST, slope))
    step = _LARGEST_STEP / time
    level = pacing[_LEVEL] + min(step, max(-step, wanted - pacing[_LEVEL]))
    pacing[_LEVEL] = min(math.log(_MOST), max(math.log(_LEAST), level))


@compiled
def _regress(pacing: FloatArray, remembered: float, level: float, excess: float) -> None:
    """Add a point to the regression, whose former points count less by the factor 1 - 1/remembered."""
    kept = 1.0 - 1.0 / remembered
    pacing[_SEEN] = kept * pacing[_SEEN] + 1.0
    from_mean = level - pacing[_MEAN_LEVEL]
    pacing[_MEAN_LEVEL] += from_mean / pacing[_SEEN]
    pacing[_MEAN_EXCESS] += (excess - pacing[_MEAN_EXCESS]) / pacing[_SEEN]
    pacing[_SQUARES] = kept * pacing[_SQUARES] + from_mean * (level - pacing[_MEAN_LEVEL])
    pacing[_PRODUCTS] = kept * pacing[_PRODUCTS] + from_mean * (excess - pacing[_MEAN_EXCESS])


@compiled
def pace_all(pacing: FloatArray, budget: Budget, costs: FloatArray, weights: FloatArray, lags: FloatArray) -> None:
    """Update the pacing by n rounds in their order."""
    for t in range(len(costs)):
        pace(pacing, budget, costs[t], weights[t], lags[t])
