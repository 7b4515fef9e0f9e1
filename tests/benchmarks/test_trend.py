"""The laws of slopes with intervals."""

import numpy as np
import pytest

from benchmarks.soak.trend import trend

HOURS = np.linspace(0.0, 1.0, 360)
RUNS = 200


def test_a_line_is_found_exactly() -> None:
    """Fit values on a line."""
    found = trend(HOURS, 5.0 + 3.0 * HOURS)
    assert found.slope == pytest.approx(3.0)
    assert found.level == pytest.approx(6.5)
    assert found.half_width == pytest.approx(0.0, abs=1e-6)
    assert found.relative == pytest.approx(3.0 / 6.5)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_interval_has_the_slope_about_as_often_as_it_says(correlation: float) -> None:
    """Fit noise around a line, in which each value depends on the one before."""
    rng, covered = np.random.default_rng(1), 0
    for _ in range(RUNS):
        noise = rng.normal(size=len(HOURS))
        for i in range(1, len(noise)):
            noise[i] += correlation * noise[i - 1]
        found = trend(HOURS, 10.0 + 2.0 * HOURS + noise)
        covered += abs(found.slope - 2.0) <= found.half_width
    assert 0.88 <= covered / RUNS <= 0.99


def test_zeros_have_no_slope() -> None:
    """Fit nothing but zeros: a level of zero is no error."""
    assert trend(HOURS, np.zeros(len(HOURS))).relative == 0.0


def test_two_measurements_have_no_trend() -> None:
    """Two points are refused."""
    with pytest.raises(ValueError, match="three"):
        trend(HOURS[:2], HOURS[:2])
