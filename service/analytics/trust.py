"""Whether the value of a policy can be trusted: the doubts about its estimates, as one word and one sentence."""

from typing import Literal, NamedTuple

from learners.evaluation.off_policy.estimates import Evaluation

_LEAST_WORTH = 10.0  # effective rounds; with fewer, an estimate is hardly more than a few rewards
_MOST_WEIGHT = 0.5  # share of all weight on one round
_MISSING_WEIGHT = 0.1  # difference of the mean weight from 1: so much of the policy is not in the log, or counted twice
_WIDE = 0.2  # width of an interval


class Trust(NamedTuple):
    """Whether to trust the first estimate of a policy, and why, in one sentence."""

    word: Literal["yes", "care", "no"]
    reason: str


def trust_of(found: Evaluation) -> Trust:
    """Judge the estimate that is to be read first."""
    if not found.rounds:
        return Trust("no", "The log has no round for this policy.")
    first = next(each for each in found.estimates if each.value is not None)
    if first.doubt is not None:
        return _doubted(found, first.doubt)
    if first.interval is None:
        return Trust("care", "There is no interval, so nothing says how precise the value is.")
    width = first.interval.high - first.interval.low
    if width > _WIDE:
        return Trust("care", f"The interval is wide ({width:.2f}), so the value may be far off.")
    return Trust("yes", f"The log is worth {found.effective_rounds:,.0f} rounds of this policy.")


def _doubted(found: Evaluation, doubt: str) -> Trust:
    said = doubt[0].upper() + doubt[1:]
    if found.mean_weight > 1.0 + _MISSING_WEIGHT and "mean weight" in doubt:
        return Trust("no", f"{said}: the propensities are wrong, so no number here can be trusted.")
    all_weight = found.mean_weight * found.rounds
    shaken = (
        found.effective_rounds < _LEAST_WORTH
        or found.largest_weight > _MOST_WEIGHT * all_weight
        or (found.mean_weight < 1.0 - _MISSING_WEIGHT and "mean weight" in doubt)
    )
    if shaken:
        return Trust("no", f"{said}: only the conservative interval counts.")
    return Trust("care", f"{said}: read the conservative interval as well.")
