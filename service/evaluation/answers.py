"""The values of policies, as clients get them."""

import math

from learners.evaluation.off_policy.estimates import Estimate, evaluation_of
from learners.evaluation.off_policy.sums import Settings, Sums
from service.schemas.reports.evaluation import EstimateAnswer, PolicyValue

LEVEL = 0.95
"""The level of all intervals."""

_LEAST_CLIP = 10.0


def clip_for(rounds: int) -> float:
    """Return the largest weight of clipped IPS for a log of this size: √n, as in the paper, but at least 10."""
    return max(_LEAST_CLIP, float(round(math.sqrt(rounds))))


def policy_value(policy: str, label: str | None, sums: Sums, settings: Settings) -> PolicyValue:
    """Return what a log says about a policy."""
    found = evaluation_of(sums, settings, LEVEL)
    return PolicyValue(
        policy=policy,
        label=label,
        estimates=[_estimate(each, each.value) for each in found.estimates if each.value is not None],
        low=found.conservative.low,
        high=found.conservative.high,
        rounds=found.rounds,
        effective_rounds=found.effective_rounds,
        largest_weight=found.largest_weight,
        mean_weight=found.mean_weight,
        clipped_share=found.clipped_share,
        warnings=found.warnings,
    )


def _estimate(found: Estimate, value: float) -> EstimateAnswer:
    low, high = (None, None) if found.interval is None else found.interval
    return EstimateAnswer(estimator=found.estimator, value=value, low=low, high=high)
