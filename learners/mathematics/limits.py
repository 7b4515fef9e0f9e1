"""Limits on the probabilities of candidates and of groups of candidates, and the nearest distribution within them.

The nearest one in relative entropy, argmin KL(p‖q), is an I-projection (Imre Csiszár, "I-Divergence Geometry of
Probability Distributions and Minimization Problems", Annals of Probability 1975). For bounds on single probabilities,
the conditions of optimality give p_i = clip(s q_i, low_i, high_i) with the one s for which p sums to 1. A bound on the
sum of a group that is reached replaces s by the group's own factor.
"""

from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from learners.kernels import compiled

_ROUNDING = 1e-12  # by which sums of bounds may miss 1
_LEAST = 1e-290  # smaller probabilities count as 0, so that quotients stay finite


class Limits(NamedTuple):
    """Bounds on the probabilities of m candidates, and on the sums of G disjoint groups of them; all in [0, 1]."""

    low: FloatArray  # (m,)
    high: FloatArray  # (m,)
    each: FloatArray  # (1,), a lower bound for every eligible candidate; (0,) if nothing is limited
    groups: IntArray  # (m,), the position of each candidate's group; -1 for none
    group_low: FloatArray  # (G,)
    group_high: FloatArray  # (G,)


NO_LIMITS = Limits(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0), np.empty(0))


@compiled
def obey(limits: Limits, eligible: BoolArray, p: FloatArray) -> None:
    """Replace a distribution p (m,) by the nearest one, in relative entropy, within the limits.

    `eligible` is (m,), or (0,) if all candidates are; p is 0 elsewhere, and stays 0. Where candidates with probability
    0 must get some, they get equal shares: the limit of p + ε. Some limits give way to what the eligible candidates
    cannot obey: all upper bounds, if they leave less than 1; the lower bound of a group, as far as the upper bounds of
    its candidates demand; and `each`, in a group whose upper bound it exceeds, and everywhere if all lower bounds
    exceed 1. A distribution within the limits keeps its bits, and so does one with NaN, which the caller refuses.
    """
    if len(limits.each) == 0 or np.isnan(p.sum()):
        return
    bounds, of_groups, placed = np.empty((2, len(p))), np.empty((2, len(limits.group_low))), np.empty(len(p))
    each, is_capped = limits.each[0], True
    least, most = _bounds_of(limits, each, is_capped, eligible, bounds, of_groups)
    if most < 1.0 - _ROUNDING:
        is_capped = False
        least, most = _bounds_of(limits, each, is_capped, eligible, bounds, of_groups)
    if least > 1.0 + _ROUNDING:
        _bounds_of(limits, 0.0, is_capped, eligible, bounds, of_groups)
    if not _is_within(p, limits.groups, bounds, of_groups):
        _bound_by_groups(p, limits.groups, bounds, of_groups)
        _fill(p, bounds[0], bounds[1], 1.0, placed)
        p[:] = placed


@compiled
def obey_each(limits: Limits, starts: IntArray, eligible: BoolArray, p: FloatArray) -> None:
    """Apply `obey` to n distributions, concatenated in p (m,), which begin at starts (n + 1,).

    The limits are those of all m candidates, or of K labels if each distribution is over the same K.
    """
    low, high, each, groups, group_low, group_high = limits
    for i in range(len(starts) - 1):
        first, end = starts[i], starts[i + 1]
        among = eligible[first:end] if len(eligible) > 0 else eligible
        if len(low) == len(p):
            own = Limits(low[first:end], high[first:end], each, groups[first:end], group_low, group_high)
            obey(own, among, p[first:end])
        else:
            obey(limits, among, p[first:end])


@compiled
def _bounds_of(
    limits: Limits, each: float, is_capped: bool, eligible: BoolArray, bounds: FloatArray, of_groups: FloatArray
) -> tuple[float, float]:
    """Write each candidate's bounds (2, m) and each group's (2, G); return the least and the largest possible sum."""
    (low, high), groups, sums = bounds, limits.groups, np.zeros((3, of_groups.shape[1]))
    for i in range(len(low)):
        is_eligible = len(eligible) == 0 or eligible[i]
        low[i] = max(limits.low[i], each) if is_eligible else 0.0
        high[i] = (limits.high[i] if is_capped else 1.0) if is_eligible else 0.0
        if groups[i] >= 0:
            sums[0, groups[i]] += low[i]
            sums[1, groups[i]] += high[i]
    least, most = 0.0, 0.0
    for i in range(len(low)):
        g = groups[i]
        if g < 0:
            least, most = least + low[i], most + high[i]
            continue
        if is_capped and sums[0, g] > limits.group_high[g] + _ROUNDING:  # without `each`
            low[i] = min(low[i], limits.low[i])
        sums[2, g] += low[i]
    for g in range(of_groups.shape[1]):
        of_groups[0, g] = min(limits.group_low[g], sums[1, g])
        of_groups[1, g] = limits.group_high[g] if is_capped else 1.0
        least += max(of_groups[0, g], sums[2, g])
        most += min(of_groups[1, g], sums[1, g])
    return least, most


@compiled
def _is_within(p: FloatArray, groups: IntArray, bounds: FloatArray, of_groups: FloatArray) -> bool:
    sums, is_within = np.zeros(of_groups.shape[1]), True
    for i in range(len(p)):
        is_within &= bounds[0, i] <= p[i] <= bounds[1, i]
        if groups[i] >= 0:
            sums[groups[i]] += p[i]
    for g in range(len(sums)):
        is_within &= of_groups[0, g] <= sums[g] <= of_groups[1, g]
    return is_within


@compiled
def _bound_by_groups(p: FloatArray, groups: IntArray, bounds: FloatArray, of_groups: FloatArray) -> None:
    """Tighten the bounds of candidates: to where their group reaches its own bounds, if all share one factor s."""
    order = np.argsort(groups)
    ordered, end = groups[order], np.searchsorted(groups[order], 0)
    for g in range(of_groups.shape[1]):
        first, end = end, np.searchsorted(ordered, g + 1)
        own = order[first:end]
        q, low, high, placed = p[own], bounds[0][own], bounds[1][own], np.empty(len(own))
        if low.sum() < of_groups[0, g]:
            _fill(q, low, high, of_groups[0, g], placed)
            bounds[0][own] = placed
        if high.sum() > of_groups[1, g]:
            _fill(q, low, high, of_groups[1, g], placed)
            bounds[1][own] = placed


@compiled
def _fill(q: FloatArray, low: FloatArray, high: FloatArray, total: float, placed: FloatArray) -> None:
    """Write clip(s q, low, high) with the s for which it sums to `total`, or the nearest bounds.

    If that would be infinite, every candidate with q > 0 is at its upper bound, and the others get equal shares.
    """
    reach = 0.0
    for i in range(len(q)):
        reach += high[i] if q[i] > _LEAST else low[i]
    if low.sum() >= total:
        placed[:] = low
    elif reach > total:
        _scale(q, low, high, total, placed)
    else:
        _scale(np.ones(len(q)), np.where(q > _LEAST, high, low), high, total, placed)


@compiled
def _scale(q: FloatArray, low: FloatArray, high: FloatArray, total: float, placed: FloatArray) -> None:
    """Write clip(s q, low, high) with the s for which it sums to `total`, which the bounds allow."""
    breaks = np.zeros(2 * len(q))  # the sum is linear in s between them
    for i in range(len(q)):
        if q[i] > _LEAST:
            breaks[2 * i], breaks[2 * i + 1] = low[i] / q[i], high[i] / q[i]
    breaks.sort()
    first, last = 0, len(breaks) - 1  # the first break at which the sum reaches `total` is between them
    while first < last:
        middle = (first + last) // 2
        if _clipped_sum(breaks[middle], q, low, high) >= total:
            last = middle
        else:
            first = middle + 1
    start, end = breaks[max(0, first - 1)], breaks[first]
    between = (start + end) / 2.0
    fixed, free = 0.0, 0.0
    for i in range(len(q)):
        if low[i] < between * q[i] < high[i]:
            free += q[i]
        else:
            fixed += low[i] if between * q[i] <= low[i] else high[i]
    s = min(end, max(start, (total - fixed) / free)) if free > 0.0 else end  # clipped, because of rounding errors
    for i in range(len(q)):
        placed[i] = min(high[i], max(low[i], s * q[i]))


@compiled
def _clipped_sum(s: float, q: FloatArray, low: FloatArray, high: FloatArray) -> float:
    total = 0.0
    for i in range(len(q)):
        total += min(high[i], max(low[i], s * q[i]))
    return total
