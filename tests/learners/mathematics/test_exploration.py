"""From scores to distributions to labels: the stored propensity is the probability of the draw."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from learners.answers import is_structured
from learners.base import Contexts, Problem
from learners.mathematics.exploration import (
    LEAST_PROPENSITY,
    adaptive_rate,
    draw,
    draw_unchecked,
    leader,
    leader_except,
    mix_with_uniform,
    settle_each,
    softmax,
)
from tests.learners.arrays import assert_close
from tests.learners.implementations import IMPLEMENTATIONS, Case
from tests.learners.worlds import LAWS, make_world, play

PROBLEM = Problem(4, 5)
DRAWS = 100_000
ALMOST_ONE = float(np.nextafter(1.0, 0.0))


@pytest.mark.parametrize("case", [case for case in IMPLEMENTATIONS if not is_structured(case.learner)], ids=str)
def test_draw_frequencies_match_propensities(case: Case) -> None:
    """Over 10⁵ draws, label frequencies match the propensities (chi-square). For rankings and sets: test_structured."""
    learner, rng = case.at(PROBLEM), np.random.default_rng(1)
    *_, last = play(learner, make_world(2, 200, learner.problem))
    contexts = Contexts.dense(make_world(3, 1, learner.problem).contexts)
    distribution = learner.decide(last.after, contexts).distributions[0]
    labels, propensities, _ = draw(np.tile(distribution, (DRAWS, 1)), rng.random(DRAWS))
    assert propensities.tobytes() == distribution[labels].tobytes()
    possible = distribution > 0
    counts = np.bincount(labels, minlength=len(distribution))
    assert not counts[~possible].any()
    expected = distribution[possible] * DRAWS
    chi_square = np.sum((counts[possible] - expected) ** 2 / expected)
    assert possible.sum() == 1 or stats.chi2.sf(chi_square, possible.sum() - 1) > 1e-3


def test_chi_square_detects_a_wrong_propensity() -> None:
    """Propensities that are off by two per cent fail the chi-square test."""
    distribution, uniforms = np.full(4, 0.25), np.random.default_rng(1).random(DRAWS)
    labels, _, _ = draw(np.tile(distribution, (DRAWS, 1)), uniforms)
    wrong = (0.98 * distribution + 0.02 * np.eye(4)[1]) * DRAWS
    assert stats.chi2.sf(np.sum((np.bincount(labels) - wrong) ** 2 / wrong), 3) < 1e-3


@LAWS
@given(
    hnp.arrays(np.float64, st.integers(1, 9), elements=st.just(0.0) | st.floats(1e-12, 1.0)).filter(
        lambda p: p.sum() > 0
    ),
    st.floats(0.0, ALMOST_ONE),
)
def test_draw_inverts_the_cumulative_distribution(weights: np.ndarray, uniform: float) -> None:
    """The label is the first whose cumulative probability exceeds u, and never one of probability zero."""
    distribution = weights / weights.sum()
    (label,), (propensity,), (residual_uniform,) = draw(distribution[None], np.array([uniform]))
    above = np.flatnonzero(np.cumsum(distribution) > uniform)
    assert label == (above[0] if len(above) else np.flatnonzero(distribution)[-1])
    assert propensity == distribution[label] > 0
    assert 0.0 <= residual_uniform < 1.0
    exact = (uniform - distribution[:label].sum()) / propensity
    assert abs(residual_uniform - exact) <= 1e-15 / propensity


@pytest.mark.parametrize(
    ("distribution", "uniform", "label"),
    [
        ([0.1] * 10, ALMOST_ONE, 9),  # sums to less than 1
        ([*[0.1] * 10, 0.0, 0.0], ALMOST_ONE, 9),
        ([0.0, 0.0, 1.0], 0.0, 2),
        ([0.0, 0.5, 0.5], 0.5, 2),
        ([0.5, 0.5, 0.0], ALMOST_ONE, 1),
        ([1.0, 0.0], ALMOST_ONE, 0),
        ([0.25, 0.75], 0.25, 1),
        ([0.25, 0.75], float(np.nextafter(0.25, 0.0)), 0),
    ],
)
def test_draw_returns_a_possible_label_at_the_edges(distribution: list[float], uniform: float, label: int) -> None:
    """At the ends of the interval and at the borders, the label has a positive probability despite rounding."""
    labels, propensities, residual_uniforms = draw(np.array([distribution]), np.array([uniform]))
    assert 0.0 <= residual_uniforms[0] < 1.0
    assert (labels[0], propensities[0]) == (label, distribution[label])


def test_empty_draw_is_empty() -> None:
    """No distributions give no labels."""
    assert [len(column) for column in draw(np.empty((0, 3)), np.empty(0))] == [0, 0, 0]


def test_residuals_are_uniform_for_every_label() -> None:
    """Given the label, the residual uniform is uniform in [0, 1) (Kolmogorov–Smirnov)."""
    distribution, uniforms = np.array([0.05, 0.6, 0.0, 0.35]), np.random.default_rng(4).random(DRAWS)
    labels, _, residual_uniforms = draw(np.tile(distribution, (DRAWS, 1)), uniforms)
    for label in (0, 1, 3):
        assert stats.kstest(residual_uniforms[labels == label], "uniform").pvalue > 1e-3


@pytest.mark.parametrize("probability", [1.0 + 4e-16, 1.0, 0.3, 1e-300, 5e-324, 0.0, -1e-17])
def test_propensities_are_in_range_for_any_distribution(probability: float) -> None:
    """Propensities are in (0, 1] with a finite inverse, even where rounding takes a distribution out of range."""
    _, propensities, residual_uniforms = draw_unchecked(np.array([[probability, 0.0]]), np.array([0.0]))
    assert 0.0 < propensities[0] <= 1.0
    assert np.isfinite(1.0 / propensities[0])
    assert propensities[0] == min(1.0, max(probability, LEAST_PROPENSITY))
    assert 0.0 <= residual_uniforms[0] < 1.0


def test_settled_distributions_are_in_range() -> None:
    """Entries outside [0, 1] are clipped, entries with an infinite inverse become 0, others keep their bits."""
    rows = np.array([[1.0 + 4e-16, -1e-17, 5e-324], [0.25, 0.5, 0.25]])
    settle_each(rows)
    assert rows.tolist() == [[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]]


SCORES = hnp.arrays(np.float64, st.integers(2, 9), elements=st.sampled_from([-1.0, 0.0, -0.0, 1.0, 2.5]))


@LAWS
@given(SCORES, st.data())
def test_leader_is_the_first_of_the_largest_scores(scores: np.ndarray, data: st.DataObject) -> None:
    """Ties go to the lowest index, and the excluded label never leads."""
    excluded = data.draw(st.integers(0, len(scores) - 1))
    assert leader(scores) == np.argmax(scores)
    others = [k for k in range(len(scores)) if k != excluded]
    assert leader_except(scores, excluded) == max(others, key=lambda k: (scores[k], -k))


@LAWS
@given(st.integers(2, 50), st.floats(0.0, 1.0), st.data())
def test_mixing_gives_each_label_its_share(K: int, share: float, data: st.DataObject) -> None:
    """The mixture is (1 - q) e_top + (q/K) 1, which sums to 1."""
    top, distribution = data.draw(st.integers(0, K - 1)), np.full(K, np.nan)
    mix_with_uniform(top, share, distribution)
    assert_close(distribution, share / K + (1 - share) * np.eye(K)[top], 1e-15)
    assert abs(distribution.sum() - 1.0) <= 1e-12


@LAWS
@given(hnp.arrays(np.float64, st.integers(2, 9), elements=st.floats(-1e6, 1e6)))
def test_softmax_is_stable(scores: np.ndarray) -> None:
    """Scores up to ±10⁶ do not overflow, and the leader keeps the largest probability."""
    result = np.full(len(scores), np.nan)
    softmax(scores, result)
    exact = np.exp(scores - scores.max())
    assert_close(result, exact / exact.sum(), 1e-14)
    assert result.max() == result[leader(scores)]


def test_adaptive_rate_starts_at_one_and_falls_as_one_over_root_t() -> None:
    """The rate is min(1, √(K (1 + Q)/t)), with t counted from 1."""
    assert adaptive_rate(4, 0.0, 0) == 1.0
    assert adaptive_rate(4, 0.0, 3) == 1.0
    assert adaptive_rate(4, 0.0, 15) == 0.5
    assert adaptive_rate(4, 3.0, 63) == 0.5
    assert adaptive_rate(2, 0.0, 2 * 10**12 - 1) == pytest.approx(1e-6, rel=1e-12)
