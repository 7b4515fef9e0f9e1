"""The points of `groups`: their margins and their regions."""

import numpy as np
import pytest

from benchmarks.papers.data.synthetic import MARGIN, grouped_points
from learners.base import FloatArray


def test_groups_keep_their_margin() -> None:
    """Check the paper's definition at every point: both margins, for vectors whose squared norms sum to 1."""
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    between = np.stack([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(12.0)  # u_g
    within = np.stack([-np.sin(angles), np.cos(angles)], axis=1) / 2.0  # u'_g
    assert (between**2).sum() + (within**2).sum() == pytest.approx(1.0)
    contexts, labels = grouped_points(50_000, 3, 0)
    points: FloatArray = contexts.values.reshape(-1, 2)
    groups, strip, here = labels // 3, labels % 3, np.arange(len(labels))
    scores = points @ between.T
    others = np.where(np.arange(3) == groups[:, None], -np.inf, scores).max(axis=1)
    across, cuts = (points @ within.T)[here, groups], np.array([-np.inf, -0.1, 0.1, np.inf])
    margins = scores[here, groups] - others, across - cuts[strip], cuts[strip + 1] - across
    assert all(0.0 <= margin.min() - MARGIN < 1e-4 for margin in margins)


def test_groups_fill_the_disc() -> None:
    """Check that points lie in the unit disc, that no class is rare, and that classes are two margins apart."""
    contexts, labels = grouped_points(5000, 3, 0)
    points: FloatArray = contexts.values.reshape(-1, 2)
    assert 0.99 < np.linalg.norm(points, axis=1).max() <= 1.0
    assert (np.bincount(labels, minlength=9) > 450).all()
    nearest = min(_distance(points[labels == j], points[labels == k]) for j in range(9) for k in range(j))
    assert 4 * MARGIN <= nearest < 6 * MARGIN


def _distance(some: FloatArray, others: FloatArray) -> float:
    return float(np.linalg.norm(some[:, None] - others[None], axis=2).min())
