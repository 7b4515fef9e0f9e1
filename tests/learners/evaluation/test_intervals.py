"""Confidence intervals against their formulas and against the frequency with which they cover."""

from math import comb, log, sqrt

import numpy as np
import pytest

from learners.evaluation.intervals import Interval, empirical_bernstein, wilson


def test_wilson_solves_the_score_equation() -> None:
    """Both ends are the shares p at which (s/n - p)² = z² p (1 - p) / n."""
    for successes, n in ((1, 10), (37, 100), (999, 1000)):
        for p in wilson(successes, n, 0.95):
            assert (successes / n - p) ** 2 == pytest.approx(1.959963984540054**2 * p * (1 - p) / n, rel=1e-9)


def test_wilson_at_its_edges() -> None:
    assert wilson(0, 0) == Interval(0.0, 1.0)
    assert wilson(0, 20).low == 0.0
    assert wilson(20, 20).high == 1.0
    assert wilson(20, 20).low == pytest.approx(1.0 - wilson(0, 20).high)


def test_wilson_covers_nearly_its_level() -> None:
    for p in (0.1, 0.3, 0.5):
        covering = [k for k in range(101) if wilson(k, 100).low <= p <= wilson(k, 100).high]
        assert 0.93 < sum(comb(100, k) * p**k * (1 - p) ** (100 - k) for k in covering) < 0.97


def test_empirical_bernstein_is_theorem_4_for_both_sides() -> None:
    """On variables in [-1, 3]: scaled to [0, 1], the bound of the paper with δ = 0.025 on each side."""
    values = np.linspace(-0.5, 1.5, 501)
    unit = (values + 1.0) / 4.0
    bound = sqrt(2 * unit.var(ddof=1) * log(2 / 0.025) / 501) + 7 * log(2 / 0.025) / (3 * 500)
    got = empirical_bernstein(values.sum(), (values**2).sum(), 501, -1.0, 3.0)
    assert got == pytest.approx((0.5 - 4 * bound, 0.5 + 4 * bound), rel=1e-9)


def test_empirical_bernstein_stays_within_the_range() -> None:
    assert empirical_bernstein(0.0, 0.0, 1, 0.0, 5.0) == Interval(0.0, 5.0)
    assert empirical_bernstein(0.0, 0.0, 3, 0.0, 5.0) == Interval(0.0, 5.0)
    assert empirical_bernstein(5e4, 5e4, 50_000, 0.0, 1.0).high == 1.0


def test_empirical_bernstein_covers_at_least_its_level() -> None:
    draws = np.random.default_rng(1).binomial(400, 0.02, 2_000)
    intervals = [empirical_bernstein(10.0 * k, 100.0 * k, 400, 0.0, 10.0) for k in draws]
    assert np.mean([i.low <= 0.2 <= i.high for i in intervals]) >= 0.95


@pytest.mark.parametrize(("successes", "n", "level"), [(-1, 3, 0.9), (4, 3, 0.9), (1, 3, 1.0), (float("nan"), 3, 0.9)])
def test_wilson_refuses_what_it_cannot_use(successes: float, n: int, level: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        wilson(successes, n, level)


@pytest.mark.parametrize(("total", "low", "high"), [(1.0, 1.0, 1.0), (9.0, 0.0, 1.0), (1.0, 0.0, float("inf"))])
def test_empirical_bernstein_refuses_what_it_cannot_use(total: float, low: float, high: float) -> None:
    with pytest.raises(ValueError, match="low"):
        empirical_bernstein(total, 1.0, 3, low, high)


@pytest.mark.parametrize("squares", [float("nan"), float("inf"), -float("inf")])
def test_empirical_bernstein_refuses_an_unknown_variance(squares: float) -> None:
    with pytest.raises(ValueError, match="total_of_squares must be finite"):
        empirical_bernstein(1.0, squares, 3, 0.0, 1.0)
