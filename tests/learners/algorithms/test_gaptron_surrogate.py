"""Gaptron's losses, gradients and surrogate gap against Table 1 of its paper."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.first_order.gaptron import Gaptron
from learners.base import FloatArray, Problem
from learners.mathematics.gaptron_schedules import safe_step
from learners.mathematics.losses import LOSS_CODES, LossName, gap_share
from tests.learners.algorithms.gaptron_scores import EACH_K, EACH_LOSS, at_scores, scores_with_ties, surrogates
from tests.learners.arrays import assert_close
from tests.learners.formulas import gap_of, losses_of, margins, theorem


@EACH_LOSS
@EACH_K
def test_loss_matches_the_formula(loss: LossName, K: int) -> None:
    """The loss is Table 1's for every label; the hinge is zero if the leader is correct by a margin of 1/K or more."""
    s = scores_with_ties(K, K)
    for label in range(K):
        y = np.full(len(s), label)
        values, coefficients = surrogates(loss, s, y)
        zero = (loss == "hinge") & (margins(s, y) >= 1 / K - 1e-12)
        assert_close(values, np.where(zero, 0.0, losses_of(loss, s, y)), 1e-12)
        assert not coefficients[zero].any()


@EACH_LOSS
@EACH_K
def test_coefficients_match_the_derivative(loss: LossName, K: int) -> None:
    """The coefficients agree with central differences of the loss, away from kinks."""
    rng, h = np.random.default_rng(K), 1e-6
    for s in rng.normal(size=(50, K)):
        y, top = int(rng.integers(K)), np.sort(s)
        if abs(top[-1] - top[-2] - 1 / K) < 1e-4 or np.diff(top).min() < 1e-4:
            continue
        shifted = np.concatenate([s + h * np.eye(K), s - h * np.eye(K)])
        values, _ = surrogates(loss, shifted, np.full(2 * K, y))
        _, coefficients = surrogates(loss, s[None], np.array([y]))
        assert_close(coefficients[0], (values[:K] - values[K:]) / (2 * h), 1e-6)


@EACH_LOSS
@EACH_K
def test_gap_map_matches_the_formula(loss: LossName, K: int) -> None:
    """The gap a is Table 1's map and in [0, 1], with 1 - m* for the hinge (the printed form becomes negative)."""
    s = np.concatenate([scores_with_ties(K, K), 1e3 * scores_with_ties(K + 10, K)])
    actual = np.array(
        [gap_share(LOSS_CODES[loss], row, leader) for row, leader in zip(s, s.argmax(axis=1), strict=True)]
    )
    assert_close(actual, gap_of(loss, s), 1e-12)
    assert actual.min() >= 0.0
    assert actual.max() <= 1.0


@EACH_LOSS
@EACH_K
def test_answer_mixes_by_the_larger_of_gap_and_rate(loss: LossName, K: int) -> None:
    """The answer is (1 - q) e_y* + (q/K) 1 with q = max(a, γ), and the evidence is s = W x."""
    s = scores_with_ties(K, K)
    learner = theorem(Problem(K, len(s)), loss=loss, exploration=0.3)
    distributions, evidence = learner.decide(*at_scores(learner, s))
    q = np.maximum(gap_of(loss, s), 0.3)[:, None]
    assert_close(distributions, (1 - q) * np.eye(K)[s.argmax(axis=1)] + q / K, 1e-12)
    assert_close(evidence, s, 1e-15)


def largest_gap(learner: Gaptron, s: FloatArray, eta: float) -> float:
    """Return the largest P(mistake) - loss + (η/2) E‖ĝ‖² over these scores and all labels, without γ's share."""
    state, contexts = at_scores(learner, s)
    distributions, X = learner.decide(state, contexts).distributions, learner.problem.norm_bound
    K, bandit, gaps = s.shape[1], not learner.needs_true_label, []
    top = s.argmax(axis=1)
    a = np.array([gap_share(LOSS_CODES[learner.loss], row, leader) for row, leader in zip(s, top, strict=True)])
    for label in range(K):
        y = np.full(len(s), label)
        values, c = surrogates(learner.loss, s, y)
        squared = np.sum(c**2, axis=1) * X**2 / (distributions[:, label] if bandit else 1.0)
        gaps.append((1 - a) * (top != y) + a * (K - 1) / K - values + eta / 2 * squared)
    return float(np.max(gaps))


@EACH_LOSS
@EACH_K
@pytest.mark.parametrize("gamma", [None, 1e-3, 0.3, 1.0])
def test_surrogate_gap_is_never_positive(loss: LossName, K: int, gamma: float | None) -> None:
    """With the safe step the gap is at most zero, for any weights and label, with full or bandit feedback."""
    for X in (1.0, 3.0):
        s = scores_with_ties(K, K)
        problem = Problem(K, len(s), X)
        hyperparameters: dict[str, Any] = {"information": "full"} if gamma is None else {"exploration": gamma}
        learner = theorem(problem, loss=loss, **hyperparameters)
        assert largest_gap(learner, s, safe_step(loss, problem, gamma)) <= 1e-12


@EACH_K
def test_printed_smooth_hinge_step_opens_the_gap(K: int) -> None:
    """The step of the paper's Table 2, 1/(2KX²), gives a gap of 1/K, so the test above can fail."""
    problem = Problem(K, len(scores_with_ties(K, K)))
    learner = theorem(problem, loss="smooth_hinge", information="full")
    assert_close(largest_gap(learner, scores_with_ties(K, K), 1 / (2 * K)), 1 / K, 1e-12)


@pytest.mark.parametrize(("loss", "factor"), [("logistic", 3.0), ("hinge", 1.05), ("smooth_hinge", 1.05)])
def test_larger_step_opens_the_gap(loss: LossName, factor: float) -> None:
    """A larger step gives a positive gap at K = 2: the hinge constants are exact, the logistic one within factor 3."""
    s = scores_with_ties(2, 2)
    learner = theorem(Problem(2, len(s)), loss=loss, exploration=1.0)
    assert largest_gap(learner, s, factor * safe_step(loss, learner.problem, 1.0)) > 1e-3
