"""Slopes of measurements over time, with intervals."""

import math
from typing import NamedTuple

from learners.base import FloatArray

_NORMAL = 1.96
"""Quantile of the normal distribution of an interval of 95 %."""

_MOST_CORRELATED = 0.98


class Trend(NamedTuple):
    """A straight line through measurements."""

    level: float  # the mean
    slope: float  # per unit of time
    half_width: float  # of the 95 % interval of the slope

    @property
    def relative(self) -> float:
        """The slope as a share of the level; 0 if both are 0."""
        return self._share(self.slope)

    @property
    def least(self) -> float:
        """The lower end of the interval as a share of the level; 0 if both are 0."""
        return self._share(self.slope - self.half_width)

    def _share(self, slope: float) -> float:
        return slope / self.level if self.level else math.copysign(math.inf, slope) if slope else 0.0


def trend(times: FloatArray, values: FloatArray) -> Trend:
    """Fit a line by least squares, with an interval that allows for correlated residuals.

    The interval assumes that each residual depends on the one before it (AR(1)): n residuals with the correlation r
    count as n·(1 − r)/(1 + r) independent ones.

    Args:
        times: when each value was measured, (n,) with n ≥ 3, at equal distances.
        values: the measurements, (n,).

    Raises:
        ValueError: if there are fewer than three measurements.
    """
    n = len(times)
    if n < 3:
        raise ValueError("a trend needs three measurements")
    centred = times - times.mean()
    spread = float(centred @ centred)
    slope = float(centred @ values) / spread
    residuals = values - values.mean() - slope * centred
    independent = max(3.0, n * _independent_share(residuals))
    variance = float(residuals @ residuals) / n * independent / (independent - 2.0)
    return Trend(float(values.mean()), slope, _NORMAL * math.sqrt(variance / (spread * independent / n)))


def _independent_share(residuals: FloatArray) -> float:
    total = float(residuals @ residuals)
    correlation = float(residuals[1:] @ residuals[:-1]) / total if total else 0.0
    correlation = min(max(correlation, 0.0), _MOST_CORRELATED)
    return (1.0 - correlation) / (1.0 + correlation)
