"""Building blocks of the spaces of orders: assignments, mixtures, the mean of matchings, the isotonic fit."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from learners.output_spaces.balancing import balance
from learners.output_spaces.birkhoff import Matching, below_best, best_assignment, decompose
from learners.output_spaces.isotonic import nonincreasing_fit
from tests.learners.arrays import assert_close


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6, 1e18])
def test_matching_mean_is_doubly_stochastic(n: int, scale: float) -> None:
    """Rows and columns sum to 1 within 1e-9, before any rounding, for sharp and tied scores."""
    rng = np.random.default_rng(n)
    lines = scale * np.outer(np.arange(n), rng.normal(size=n))
    ties = scale * rng.choice([0.0, -1.0], size=(5, n, n), p=[0.3, 0.7])
    for scores in (lines, *ties, *(scale * rng.normal(size=(5, n, n)))):
        mean = balance(below_best(scores))
        assert np.abs(mean.sum(axis=0) - 1.0).max() <= 1e-9
        assert np.abs(mean.sum(axis=1) - 1.0).max() <= 1e-9


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
def test_matching_mean_is_the_limit_of_sinkhorn_iterations(scale: float) -> None:
    """After 100,000 Sinkhorn iterations the matrix equals the mean, to 1e-9."""
    rng = np.random.default_rng(7)
    for scores in (scale * rng.normal(size=(5, 5)), scale * np.round(rng.normal(size=(5, 5)))):
        u = np.zeros((5, 1))
        for _ in range(100_000):
            v = -np.logaddexp.reduce(scores + u, axis=0, keepdims=True)
            u = -np.logaddexp.reduce(scores + v, axis=1, keepdims=True)
        assert_close(Matching(n_items=5).decode(scores.reshape(-1)), np.exp(scores + u + v).reshape(-1), 1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_isotonic_fit_is_the_min_max_of_averages(n: int) -> None:
    """The fit is the min-max of averages."""
    for values in np.round(np.random.default_rng(n).normal(size=(20, n)), 1):
        sums = np.concatenate([[0.0], np.cumsum(values)])
        expected = [
            min(max((sums[b] - sums[a]) / (b - a) for b in range(i + 1, n + 1)) for a in range(i + 1)) for i in range(n)
        ]
        assert_close(nonincreasing_fit(values), expected, 1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_best_assignment_matches_scipy(n: int) -> None:
    """The total gain equals that of scipy's assignment, ties included."""
    rng = np.random.default_rng(n)
    for gains in (*rng.normal(size=(10, n, n)), *np.round(rng.normal(size=(10, n, n))), np.zeros((n, n))):
        columns = best_assignment(gains)
        assert sorted(columns) == list(range(n))
        rows, theirs = linear_sum_assignment(-gains)
        assert_close(gains[np.arange(n), columns].sum(), gains[rows, theirs].sum(), 1e-9)


@pytest.mark.parametrize("n", [2, 7, 15])
def test_decomposition_reproduces_the_matrix(n: int) -> None:
    """The mixture of at most n² permutations is the matrix."""
    for theta in np.random.default_rng(n).normal(size=(5, n * n)):
        mean = Matching(n_items=n).decode(theta)
        weights, permutations = decompose(mean.reshape(n, n))
        mixture = sum(w * np.eye(n)[p] for w, p in zip(weights, permutations, strict=True))
        assert len(weights) <= n * n
        assert weights.min() > 0.0
        assert_close(mixture, mean.reshape(n, n), 1e-10)
