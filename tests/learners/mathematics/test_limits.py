"""The nearest distribution within limits: against nested bisection, and what gives way if limits are impossible."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from learners.base import BoolArray, FloatArray, IntArray
from learners.mathematics.limits import NO_LIMITS, Limits, obey, obey_each

EVERY = np.empty(0, np.bool_)


def limits_of(
    low: FloatArray,
    high: FloatArray,
    groups: IntArray,
    group_low: FloatArray,
    group_high: FloatArray,
    each: float = 0.0,
) -> Limits:
    return Limits(low, high, np.array([each]), groups.astype(np.int64), group_low, group_high)


def obeyed(limits: Limits, p: FloatArray, eligible: BoolArray = EVERY) -> FloatArray:
    nearest = p.copy()
    obey(limits, eligible, nearest)
    return nearest


def bisected(mass: Callable[[float], float], total: float) -> float:
    """Return s with mass(s) = total, for a mass that does not fall."""
    low, high = -200.0, 200.0
    for _ in range(120):
        middle = (low + high) / 2.0
        low, high = (middle, high) if mass(math.exp(middle)) < total else (low, middle)
    return math.exp(high)


def plain(q: FloatArray, limits: Limits) -> FloatArray:
    """Return clip(s t_g q, low, high): search for s, and for each t_g inside; replace zeros of q by a tiny number."""
    low, high, q = np.maximum(limits.low, limits.each[0]), limits.high, np.maximum(q, 1e-40)

    def sum_in(own: BoolArray, s: float) -> float:
        return float(np.clip(s * q[own], low[own], high[own]).sum())

    def placed(s: float) -> FloatArray:
        p: FloatArray = np.clip(s * q, low, high)
        for g, bounds in enumerate(zip(limits.group_low, limits.group_high, strict=True)):
            own = limits.groups == g
            wanted = float(np.clip(p[own].sum(), *bounds))
            if own.any() and wanted != p[own].sum():
                p[own] = np.clip(bisected(partial(sum_in, own), wanted) * q[own], low[own], high[own])
        return p

    return placed(bisected(lambda s: placed(s).sum(), 1.0))


def some_limits(rng: np.random.Generator, m: int) -> Limits | None:
    """Return limits that a distribution over m candidates can obey; None for some draws."""
    count = int(rng.integers(0, 3))
    each, groups = float(rng.choice([0.0, 0.02])), rng.integers(-1, count, m) if count else np.full(m, -1)
    low = np.where(rng.random(m) < 0.4, rng.random(m) * 0.2, 0.0)
    high = np.where(rng.random(m) < 0.4, np.minimum(1.0, low + 0.02 + rng.random(m) * 0.5), 1.0)
    group_low = np.where(rng.random(count) < 0.5, rng.random(count) * 0.4, 0.0)
    group_high = np.where(rng.random(count) < 0.5, np.minimum(1.0, group_low + rng.random(count) * 0.5), 1.0)
    least = most = 0.0
    for g in range(-1, count):
        lows, highs = np.maximum(low, each)[groups == g].sum(), high[groups == g].sum()
        if g >= 0 and (lows > group_high[g] or highs < group_low[g]):
            return None
        least += lows if g < 0 else max(lows, group_low[g])
        most += highs if g < 0 else min(highs, group_high[g])
    return limits_of(low, high, groups, group_low, group_high, each) if least <= 1.0 <= most else None


def some_distribution(rng: np.random.Generator, m: int) -> FloatArray:
    p: FloatArray = rng.dirichlet(np.full(m, rng.choice([0.05, 0.5, 2.0])))
    p[1:] *= rng.random(m - 1) < rng.choice([0.5, 1.0])
    return np.asarray(p / p.sum())


def test_the_nearest_distribution_is_that_of_nested_bisection() -> None:
    rng, compared, changed = np.random.default_rng(1), 0, 0
    while compared < 100:
        m = int(rng.integers(2, 8))
        limits, q = some_limits(rng, m), some_distribution(rng, m)
        if limits is None or not np.isfinite(q).all():
            continue
        nearest = obeyed(limits, q)
        np.testing.assert_allclose(nearest, plain(q, limits), atol=1e-9)
        np.testing.assert_allclose(nearest, obeyed(limits, nearest), rtol=1e-12)
        compared, changed = compared + 1, changed + bool((nearest != q).any())
    assert changed > 33


def test_no_other_distribution_within_the_limits_is_nearer() -> None:
    rng, limits = np.random.default_rng(2), None
    while limits is None:
        limits = some_limits(rng, 5)
    q = rng.dirichlet(np.ones(5))
    nearest = obeyed(limits, q)
    for _ in range(300):
        other = obeyed(limits, rng.dirichlet(np.ones(5)))
        between = 0.5 * other + 0.5 * nearest  # within the limits too, as they are convex
        assert (nearest * np.log(nearest / q)).sum() <= (between * np.log(between / q)).sum() + 1e-12


def test_a_distribution_within_the_limits_keeps_its_bits() -> None:
    q, one = np.array([0.1, 0.3, 0.6]), np.ones(3)
    limits = limits_of(np.array([0.1, 0.0, 0.0]), 0.6 * one, np.array([0, 0, -1]), np.array([0.4]), np.array([0.5]))
    for p in (q, np.array([0.1, np.nan, 0.6])):
        assert obeyed(limits, p).tobytes() == p.tobytes()
    assert obeyed(NO_LIMITS, np.array([0.0, 1.0])).tolist() == [0.0, 1.0]


def test_candidates_without_probability_share_what_is_left() -> None:
    none = np.empty(0)
    limits = limits_of(np.zeros(4), np.array([0.4, 1.0, 1.0, 0.05]), np.full(4, -1), none, none)
    assert obeyed(limits, np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx([0.4, 0.275, 0.275, 0.05])


@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-300, 1e-32])
def test_tiny_probabilities_are_scaled_without_overflow(tiny: float) -> None:
    none, capped = np.empty(0), np.array([1.0, 1.0, 0.5])
    limits = limits_of(np.array([0.0, 0.1, 0.0]), capped, np.full(3, -1), none, none)
    expected = [0.25, 0.25, 0.5] if tiny < 1e-290 else [0.4, 0.1, 0.5]
    assert obeyed(limits, np.array([tiny, 0.0, 1.0])) == pytest.approx(expected)


def test_ineligible_candidates_stay_at_zero() -> None:
    none = np.empty(0)
    limits = limits_of(np.array([0.2, 0.2, 0.0]), np.ones(3), np.full(3, -1), none, none, 0.1)
    eligible = np.array([False, True, True])
    assert obeyed(limits, np.array([0.0, 0.0, 1.0]), eligible) == pytest.approx([0.0, 0.2, 0.8])


def test_a_bound_of_each_candidate_gives_way_only_where_it_must() -> None:
    """Nine of ten candidates share a group; its upper bound leaves them less than `each`, and the others not."""
    q, groups = np.full(10, 0.1), np.array([0] * 9 + [-1])
    few = limits_of(np.zeros(10), np.ones(10), groups, np.zeros(1), np.array([0.05]), 0.01)
    assert obeyed(few, q) == pytest.approx([0.05 / 9] * 9 + [0.95])
    alone = limits_of(np.zeros(10), np.ones(10), groups * 0, np.zeros(1), np.array([0.05]), 0.01)
    sure = np.array([0.991, *[0.001] * 9])
    assert obeyed(alone, sure) == pytest.approx([0.91, *[0.01] * 9])
    several = limits_of(np.zeros(10), np.ones(10), groups, np.zeros(1), np.array([0.05]), 0.5)
    assert obeyed(several, sure[::-1]).tolist() == sure[::-1].tolist()


def test_what_makes_limits_impossible_gives_way() -> None:
    none, one, groups = np.empty(0), np.ones(5), np.zeros(5, np.int64)
    q = np.array([0.8, 0.2, 0.0, 0.0, 0.0])
    assert obeyed(limits_of(0 * one, one, groups - 1, none, none, 0.3), q).tolist() == q.tolist()
    capped = limits_of(0 * one, one, groups, np.zeros(1), np.array([0.3]), 0.01)
    assert obeyed(capped, q) == pytest.approx([0.776, 0.194, 0.01, 0.01, 0.01])
    floor = limits_of(0 * one, 0.1 * one, np.array([0, 0, 1, 1, 1]), np.array([0.5, 0.0]), np.ones(2))
    assert obeyed(floor, q)[:2].sum() == pytest.approx(1.0)
    low = limits_of(0 * one, np.array([0.1, 0.1, 1, 1, 1]), np.array([0, 0, 1, 1, 1]), np.array([0.5, 0.0]), np.ones(2))
    assert obeyed(low, q) == pytest.approx([0.1, 0.1, 0.8 / 3, 0.8 / 3, 0.8 / 3])


def test_several_distributions_are_limited_one_by_one() -> None:
    rng, none = np.random.default_rng(5), np.empty(0)
    starts, p = np.array([0, 3, 4, 9]), np.concatenate([rng.dirichlet(np.ones(m)) for m in (3, 1, 5)])
    groups = np.array([0, -1, 1, 0, 1, 1, 0, 0, -1])
    limits = limits_of(np.zeros(9), np.ones(9), groups, np.array([0.2, 0.0]), np.array([1.0, 0.1]), 0.02)
    eligible, each = np.ones(9, np.bool_), p.copy()
    obey_each(limits, starts, eligible, each)
    for first, end in pairwise(starts.tolist()):
        own = limits_of(np.zeros(end - first), np.ones(end - first), groups[first:end], *limits[4:], 0.02)
        np.testing.assert_array_equal(each[first:end], obeyed(own, p[first:end]))
    shared = limits_of(np.zeros(3), np.array([0.5, 1.0, 1.0]), np.full(3, -1), none, none)
    rows = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    obey_each(shared, np.array([0, 3, 6]), EVERY, rows.reshape(-1))
    assert rows == pytest.approx(np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]))
