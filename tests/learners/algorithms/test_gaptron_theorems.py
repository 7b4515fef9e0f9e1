"""Gaptron's theorems: their steps and exploration, and the bounds."""

import numpy as np
import pytest

from learners.algorithms.first_order.gaptron import Gaptron
from learners.base import Contexts, Problem
from learners.mathematics.gaptron_schedules import anytime_constant, safe_step, tuned_exploration
from learners.mathematics.losses import LossName
from tests.learners.algorithms.gaptron_scores import EACH_LOSS
from tests.learners.arrays import assert_close, unit_rows
from tests.learners.formulas import LN2, LOSSES, losses_of, theorem
from tests.learners.worlds import World, expected_mistakes, largest_mean, make_world, random_rounds, two_clusters

PROBLEMS = [Problem(2, 1), Problem(3, 4, 2.0), Problem(9, 400, 55**0.5)]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_safe_steps_match_the_theorems(problem: Problem) -> None:
    """η is ln2/(2KX²), (K-1)/(K²X²) or 1/(4KX²) with full information, and γ/K times that with bandit feedback."""
    K, X2 = problem.n_labels, problem.norm_bound**2
    full = {"logistic": LN2 / (2 * K * X2), "hinge": (1 - 1 / K) / (K * X2), "smooth_hinge": 1 / (4 * K * X2)}
    kappa = {"logistic": LN2 / (2 * K**2 * X2), "hinge": (K - 1) / (K**3 * X2), "smooth_hinge": 1 / (4 * K**2 * X2)}
    for loss in LOSSES:
        assert_close(safe_step(loss, problem), full[loss], 1e-14)
        assert_close(safe_step(loss, problem, 0.3), 0.3 * kappa[loss], 1e-14)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("D", [0.5, 1.0, 10.0])
def test_explorations_match_the_theorems(problem: Problem, D: float) -> None:
    """The tuned γ and the anytime constant are those of the corrected theorems."""
    K, X = problem.n_labels, problem.norm_bound
    squares = {
        "logistic": K**2 * X**2 * D**2 / LN2,
        "hinge": K**4 * X**2 * D**2 / (2 * (K - 1) ** 2),
        "smooth_hinge": 2 * K**2 * X**2 * D**2,
    }
    constants = {
        "logistic": K * X * D * np.sqrt(K / (2 * LN2 * (K - 1))),
        "hinge": K**2 * X * D / (2 * (K - 1)),
        "smooth_hinge": K * X * D * np.sqrt(K / (K - 1)),
    }
    for loss in LOSSES:
        for T in (1, 10**4, 10**9):
            assert_close(tuned_exploration(loss, problem, D, T), min(1.0, np.sqrt(squares[loss] / T)), 1e-13)
        assert_close(anytime_constant(loss, problem, D), constants[loss], 1e-13)


@EACH_LOSS
@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_anytime_exploration_falls_as_one_over_root_t(loss: LossName, floor: float) -> None:
    """At a zero gap, the rate of round t is min(1, max(c/√t, floor))."""
    learner = theorem(Problem(2, 1), loss=loss, radius=50.0, least_exploration=floor)
    c = anytime_constant(loss, learner.problem, 50.0)
    for t in (1, 2, 100, 10**4, 10**6, 10**8, 10**12):
        state = learner.init()
        state.direction[:], state.squared_norm[()], state.rounds[()] = [[1e20, -1e20]], 2e40, t - 1
        distribution = learner.decide(state, Contexts.dense([1.0])).distributions[0]
        assert_close(2 * distribution.min(), min(1.0, max(c / np.sqrt(t), floor)), 1e-12)


@EACH_LOSS
def test_horizon_fixes_the_tuned_exploration(loss: LossName) -> None:
    """A known horizon is equivalent to the exploration that the theorem tunes for it."""
    problem = Problem(3, 4)
    known = theorem(problem, loss=loss, horizon=5000)
    fixed = theorem(problem, loss=loss, exploration=tuned_exploration(loss, problem, 1.0, 5000))
    rounds = random_rounds(1, 50, known)
    assert_close(tuple(known.fold(known.init(), rounds)), tuple(fixed.fold(fixed.init(), rounds)), 1e-15)


def regret(learner: Gaptron, world: World, mistakes: float) -> float:
    """Return mistakes minus the least loss of some W in the ball: zero, and W that separate two labels along e_1."""
    assert learner.radius is not None
    best = learner.radius * np.array([[1.0, 0.0], [-1.0, 0.0]]) / np.sqrt(2)
    theirs = [losses_of(learner.loss, world.contexts @ (c * best).T, world.truth).sum() for c in (0.0, 0.5, 1.0)]
    return mistakes - float(min(theirs))


@EACH_LOSS
@pytest.mark.parametrize("eta_share", [1.0, 0.1])
def test_full_information_bound_holds(loss: LossName, eta_share: float) -> None:
    """Theorems 1-3: expected mistakes are at most the loss of any U plus ‖U‖²/(2η), for any safe η."""
    problem, world = Problem(4, 5, 2.0), make_world(9, 400, Problem(4, 5, 2.0))
    learner = theorem(problem, loss=loss, information="full", radius=None, eta_scale=eta_share)
    mistakes, rng = expected_mistakes(learner, world), np.random.default_rng(1)
    teacher = np.random.default_rng(0).normal(size=(4, 5))
    for U in [
        np.zeros((4, 5)),
        *(scale * unit_rows(rng, 4, 5) for scale in (0.1, 1.0, 5.0) for _ in range(30)),
        teacher,
    ]:
        bound = np.sum(U**2) / (2 * eta_share * safe_step(loss, problem))
        assert mistakes <= losses_of(loss, world.contexts @ U.T, world.truth).sum() + bound


BANDIT_BOUNDS = {
    "logistic": lambda T: max(8 / LN2, 4 * np.sqrt(T / LN2)),
    "hinge": lambda T: max(8.0, 4 * np.sqrt(T / 2)),
    "smooth_hinge": lambda T: max(16.0, 4 * np.sqrt(2 * T)),
}
"""Theorems 4-6 at K = 2, X = D = 1."""
RUNS, T = 12, 1000


@EACH_LOSS
@pytest.mark.parametrize("horizon", [T, None], ids=["tuned", "anytime"])
def test_bandit_bound_holds(loss: LossName, horizon: int | None) -> None:
    """Mean regret plus four standard errors is below Theorems 4-6, or √2 times them without a horizon."""
    learner = theorem(Problem(2, 2), loss=loss, horizon=horizon)
    world = two_clusters(1, T, noise=0.05)
    draws = np.random.default_rng(2).random((RUNS, T))
    worst = regret(learner, world, largest_mean(expected_mistakes, learner, world, draws))
    assert worst <= BANDIT_BOUNDS[loss](T) * (1.0 if horizon else np.sqrt(2))


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge"])
def test_bandit_bound_is_broken_without_learning(loss: LossName) -> None:
    """With a step a thousand times too small, regret exceeds the hinge bounds, so the test above can fail."""
    learner = theorem(Problem(2, 2), loss=loss, horizon=T, eta_scale=1e-3)
    world = two_clusters(1, T, noise=0.05)
    assert regret(learner, world, expected_mistakes(learner, world)) > BANDIT_BOUNDS[loss](T)
