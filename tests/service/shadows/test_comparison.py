"""The comparison of a shadow with what the model answered: exact values by enumeration, and direct formulas."""

import itertools
import math

import numpy as np
import pytest

from learners.base import FloatArray
from service.shadows.comparison import LARGEST, Compared, Sums, compare

SERVED = np.array([0.5, 0.3, 0.2])
SHADOW = np.array([0.1, 0.1, 0.8])
MEANS = np.array([0.2, 0.9, 0.6])  # of the reward of each label


def compared(shadow: FloatArray, served: FloatArray, rewards: FloatArray) -> Compared:
    found = compare(Sums().plus(shadow, served, rewards, np.ones(len(rewards), np.bool_)))
    assert found is not None
    return found


def test_the_estimates_are_unbiased() -> None:
    totals, probability_of_all = np.zeros(5), 0.0
    for labels, rewards in itertools.product(
        itertools.product(range(3), repeat=3), itertools.product((0.0, 1.0), repeat=3)
    ):
        chosen, r = list(labels), np.array(rewards)
        probability = float(np.prod(SERVED[chosen] * np.where(r == 1.0, MEANS[chosen], 1.0 - MEANS[chosen])))
        found = compared(SHADOW[chosen], SERVED[chosen], r)
        parts = (found.served, found.ips, found.difference, found.mean_weight, 1.0)
        totals += probability * np.array(parts)
        probability_of_all += probability
    expected = (SERVED @ MEANS, SHADOW @ MEANS, (SHADOW - SERVED) @ MEANS, 1.0, 1.0)
    assert totals == pytest.approx(expected, abs=1e-12)
    assert probability_of_all == pytest.approx(1.0)


def test_the_formulas_are_those_of_the_page() -> None:
    rng = np.random.default_rng(7)
    labels, n = rng.choice(3, 500, p=SERVED), 500
    r, w = rng.uniform(size=n), (SHADOW / SERVED)[labels]
    found, d = compared(SHADOW[labels], SERVED[labels], r), w * r - r
    margin = 1.959963984540054 * d.std(ddof=1) / math.sqrt(n)
    assert found.normal == pytest.approx((d.mean() - margin, d.mean() + margin))
    assert found.snips == pytest.approx((w * r).sum() / w.sum())
    assert found.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    width = LARGEST  # of the clipped differences, from -1 to LARGEST - 1
    bound = math.sqrt(2 * d.var(ddof=1) * math.log(4 / 0.05) / n) + 7 * width * math.log(4 / 0.05) / (3 * (n - 1))
    assert found.bernstein == pytest.approx((max(-1.0, d.mean() - bound), min(LARGEST - 1.0, d.mean() + bound)))


@pytest.mark.parametrize(
    ("n", "share", "verdict"),
    [(99, 0.9, "undecided"), (2000, 0.9, "better"), (2000, 0.1, "worse"), (2000, 0.5, "undecided")],
)
def test_a_verdict_needs_rounds_and_a_clear_difference(n: int, share: float, verdict: str) -> None:
    chosen = np.arange(n) % 2
    found = compared(np.where(chosen == 1, share, 1.0 - share), np.full(n, 0.5), chosen.astype(np.float64))
    assert found.verdict == verdict
    assert bool(found.warnings) == (n < 100)


@pytest.mark.parametrize(
    ("weights", "warning"),
    [
        (np.r_[np.zeros(900), np.full(50, 20.0)], "the effective sample size is only 50"),
        (np.r_[np.ones(900), np.full(1, 400.0)], "one round has 31% of all weight"),
        (np.full(900, 0.01), "the mean weight is 0.01, not 1"),
    ],
)
def test_a_comparison_that_cannot_carry_a_decision_says_why(weights: FloatArray, warning: str) -> None:
    found = compared(weights * 0.001, np.full(len(weights), 0.001), np.ones(len(weights)))
    assert any(warning in each for each in found.warnings)
    assert found.verdict == "undecided"


def test_no_rounds_have_no_comparison() -> None:
    assert compare(Sums()) is None
    only = compared(np.array([0.5]), np.array([0.5]), np.array([1.0]))
    assert only.normal == (-1.0, math.inf)
    assert only.verdict == "undecided"
