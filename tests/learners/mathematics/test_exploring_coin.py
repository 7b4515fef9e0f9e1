"""The law of the coin of the bandit reduction: a round explores with each label alike, whatever the distribution."""

import numpy as np
import pytest

from learners.algorithms.improper.bandit_reduction import explored
from learners.base import Contexts, Rounds
from learners.mathematics.exploration import draw


@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("sigma", [[0.8, 0.15, 0.05], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
def test_exploring_coin_is_uniform(gamma: float, sigma: list[float]) -> None:
    """Over all uniforms, a round explores with label k with probability γ/K, for any distribution."""
    n, K = 100_000, 3
    p = np.tile((1 - gamma) * np.array(sigma) + gamma / K, (n, 1))
    labels, propensities, residual_uniforms = draw(p, (np.arange(n) + 0.5) / n)
    evidence, contexts = np.full((n, 1), gamma), Contexts.dense(np.zeros((n, 1)))
    rounds = Rounds.of_bits(contexts, labels, propensities, labels == 0, labels, evidence, residual_uniforms)
    shares = np.bincount(labels[explored(rounds, K)], minlength=K) / n
    np.testing.assert_allclose(shares, gamma / K, atol=3 / n)
