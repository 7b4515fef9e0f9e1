"""Surrogate losses: the formula, Lemma 3.1, zero only at the mean."""

import numpy as np

from learners.output_spaces.base import OutputSpace
from tests.learners.arrays import assert_close
from tests.learners.output_spaces.spaces import EACH_SPACE, random_scores, regularizer, vertices


@EACH_SPACE
def test_surrogate_matches_the_formula(space: OutputSpace) -> None:
    """S = Ψ*(θ) + Ψ(y) - ⟨θ, y⟩ for every vertex."""
    V = vertices(space)
    for theta in random_scores(space, 5, 6):
        mean = space.decode(theta)
        conjugate = theta @ mean - regularizer(space, mean[None])[0]
        expected = conjugate + regularizer(space, V) - V @ theta
        assert_close(np.array([space.surrogate(theta, v) for v in V]), expected, 1e-9)


@EACH_SPACE
def test_surrogate_bounds_the_expected_loss(space: OutputSpace) -> None:
    """Lemma 3.1: E[L] <= 4γ/(λν) S for all scores and truths, with E[L] by enumeration; S >= (λ/2)‖y - ŷ‖²."""
    V, constants = vertices(space), space.constants
    for theta in random_scores(space, 6, 6):
        mean = space.decode(theta)
        P = np.array([space.probability(mean, v) for v in V])
        for y in V:
            S, expected = space.surrogate(theta, y), space.expected_loss(mean, y)
            assert_close(P @ np.array([space.target_loss(v, y) for v in V]), expected, 1e-9)
            assert expected <= constants.loss_share * S + 1e-9
            assert constants.strong_convexity / 2 * space.distance(y, mean) ** 2 <= S + 1e-9


@EACH_SPACE
def test_surrogate_is_zero_only_at_the_mean(space: OutputSpace) -> None:
    """S vanishes where ŷ is the truth, which strong scores reach, and is positive elsewhere."""
    for y in vertices(space):
        theta = 100.0 * space.constants.strong_convexity * (2.0 * y - 1.0)
        assert_close(space.decode(theta), y, 1e-9)
        assert space.surrogate(theta, y) < 1e-9
    for theta in random_scores(space, 7, 6):
        mean = space.decode(theta)
        S = np.array([space.surrogate(theta, v) for v in vertices(space)])
        far = np.array([space.distance(v, mean) for v in vertices(space)]) > 1e-4
        assert S.min() >= 0.0
        assert (S[far] > 0.0).all()
