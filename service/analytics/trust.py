"""Whether the value of a policy can be trusted: the doubts about its estimates, as one word and one sentence."""

import math
from typing import Literal, NamedTuple

from learners.evaluation.off_policy.estimates import Evaluation

_LEAST_WORTH = 10.0  # effective rounds; with fewer, an estimate is hardly more than a few rewards
_LEAST_OF_EACH = 30.0
"""Effective rounds with and without a reward. A bootstrap of fewer cannot know how rare the rounds are that decide: in
simulations, 6 to 11 % of the 95 % intervals then miss, nearly always below the value; from 30, at most 7 % of the logs
are trusted and have an interval that misses."""
_MISSING_WEIGHT = 0.1  # difference of the mean weight from 1: so much of the policy is not in the log, or counted twice
_SURE = 4.0  # standard errors by which the mean weight must differ from 1


class Trust(NamedTuple):
    """Whether to trust the first estimate of a policy, and why, in one sentence."""

    word: Literal["yes", "care", "no"]
    reason: str


def trust_of(found: Evaluation) -> Trust:
    """Judge the estimate that is to be read first."""
    if not found.rounds:
        return Trust("no", "The log has no round for this policy.")
    beyond = _beyond(found)
    if beyond:
        said = f"The mean weight is {found.mean_weight:.2f}, not 1"
        if beyond > 0.0:
            return Trust("no", f"{said}: the propensities are wrong, so no number here can be trusted.")
        return Trust("no", f"{said}: only the conservative interval counts.")
    doubt = next(each.doubt for each in found.estimates if each.value is not None) or _of_rewards(found)
    if doubt is None:  # then no few rounds decide the value, and its interval is at most about 0.2 wide
        return Trust("yes", f"The log is worth {found.effective_rounds:,.0f} rounds of this policy.")
    said = doubt[0].upper() + doubt[1:]
    if found.effective_rounds < _LEAST_WORTH:
        return Trust("no", f"{said}: only the conservative interval counts.")
    return Trust("care", f"{said}: read the conservative interval as well.")


def _beyond(found: Evaluation) -> float:
    """Return by how much the mean weight exceeds 1; 0 if the difference is small, or may be chance."""
    difference, n = found.mean_weight - 1.0, found.rounds
    variance = found.mean_weight**2 * max(0.0, n / found.effective_rounds - 1.0) if found.effective_rounds else 0.0
    return difference if abs(difference) > max(_MISSING_WEIGHT, _SURE * math.sqrt(variance / n)) else 0.0


def _of_rewards(found: Evaluation) -> str | None:
    """Return the doubt about an estimate that few rewards decide, or few rounds without one."""
    value = next(each.value for each in found.estimates if each.value is not None)
    rewarded = found.effective_rounds * min(1.0, max(0.0, value))
    few, which = min((rewarded, "with"), (found.effective_rounds - rewarded, "without"))
    return f"worth only {few:.0f} rounds {which} a reward" if few < _LEAST_OF_EACH else None
