"""Whether the value of a policy can be trusted: the doubts about its estimates, as one word and one sentence."""

from typing import Literal, NamedTuple

from learners.evaluation.off_policy.estimates import Evaluation

_LEAST_WORTH = 10.0  # effective rounds; with fewer, an estimate is hardly more than a few rewards
_MISSING_WEIGHT = 0.1  # difference of the mean weight from 1: so much of the policy is not in the log, or counted twice


class Trust(NamedTuple):
    """Whether to trust the first estimate of a policy, and why, in one sentence."""

    word: Literal["yes", "care", "no"]
    reason: str


def trust_of(found: Evaluation) -> Trust:
    """Judge the estimate that is to be read first."""
    if not found.rounds:
        return Trust("no", "The log has no round for this policy.")
    doubt = next(each.doubt for each in found.estimates if each.value is not None)
    if doubt is None:  # then no few rounds decide the value, and its interval is at most about 0.2 wide
        return Trust("yes", f"The log is worth {found.effective_rounds:,.0f} rounds of this policy.")
    said, beyond = doubt[0].upper() + doubt[1:], found.mean_weight - 1.0
    if "mean weight" in doubt and beyond > _MISSING_WEIGHT:
        return Trust("no", f"{said}: the propensities are wrong, so no number here can be trusted.")
    if found.effective_rounds < _LEAST_WORTH or ("mean weight" in doubt and beyond < -_MISSING_WEIGHT):
        return Trust("no", f"{said}: only the conservative interval counts.")
    return Trust("care", f"{said}: read the conservative interval as well.")
