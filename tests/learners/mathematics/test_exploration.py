"""From scores to distributions to labels: the stored propensity is the probability of the draw."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from learners.mathematics.exploration import LEAST_PROPENSITY, draw, draw_unchecked, leader, leader_except, settle_each
from tests.learners.worlds import LAWS

ALMOST_ONE = float(np.nextafter(1.0, 0.0))


@LAWS
@given(
    hnp.arrays(np.float64, st.integers(1, 9), elements=st.just(0.0) | st.floats(1e-12, 1.0)).filter(
        lambda p: p.sum() > 0
    ),
    st.floats(0.0, ALMOST_ONE),
)
def test_draw_inverts_the_cumulative_distribution(weights: np.ndarray, uniform: float) -> None:
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
    labels, propensities, residual_uniforms = draw(np.array([distribution]), np.array([uniform]))
    assert 0.0 <= residual_uniforms[0] < 1.0
    assert (labels[0], propensities[0]) == (label, distribution[label])


@pytest.mark.parametrize("probability", [1.0 + 4e-16, 1.0, 0.3, 1e-300, 5e-324, 0.0, -1e-17])
def test_propensities_are_in_range_for_any_distribution(probability: float) -> None:
    _, propensities, residual_uniforms = draw_unchecked(np.array([[probability, 0.0]]), np.array([0.0]))
    assert 0.0 < propensities[0] <= 1.0
    assert np.isfinite(1.0 / propensities[0])
    assert propensities[0] == min(1.0, max(probability, LEAST_PROPENSITY))
    assert 0.0 <= residual_uniforms[0] < 1.0


def test_settled_distributions_are_in_range() -> None:
    rows = np.array([[1.0 + 4e-16, -1e-17, 5e-324], [0.25, 0.5, 0.25]])
    settle_each(rows)
    assert rows.tolist() == [[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]]


SCORES = hnp.arrays(np.float64, st.integers(2, 9), elements=st.sampled_from([-1.0, 0.0, -0.0, 1.0, 2.5]))


@LAWS
@given(SCORES, st.data())
def test_leader_is_the_first_of_the_largest_scores(scores: np.ndarray, data: st.DataObject) -> None:
    excluded = data.draw(st.integers(0, len(scores) - 1))
    assert leader(scores) == np.argmax(scores)
    others = [k for k in range(len(scores)) if k != excluded]
    assert leader_except(scores, excluded) == max(others, key=lambda k: (scores[k], -k))
