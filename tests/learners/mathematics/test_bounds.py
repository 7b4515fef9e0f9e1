"""The bounds that the guarantees state hold on runs."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.first_order.banditron import Banditron
from learners.algorithms.first_order.gaptron import Gaptron
from learners.algorithms.improper.folklore_bandit import FolkloreBandit
from learners.base import AnyLearner, FloatArray, Problem
from learners.mathematics.gaptron_schedules import safe_step
from tests.learners.formulas import LOSSES, losses_of, projected
from tests.learners.mathematics.guarantee_table import PROBLEM, SAFE, TABLE, Row
from tests.learners.worlds import World, expected_mistakes, largest_mean, make_world, two_clusters


def comparators(world: World, problem: Problem, largest: float = np.inf) -> list[FloatArray]:
    """Return multiples of the least-squares solution U (K, d), from zero up, projected to the largest norm."""
    teacher = np.linalg.lstsq(world.contexts, np.eye(problem.n_labels)[world.truth], rcond=None)[0].T
    some = [np.asarray(scale * teacher, dtype=np.float64) for scale in (0.0, 0.3, 1.0, 3.0, 10.0, 30.0)]
    return [projected(U, largest) for U in some]


def full_bounds(learner: Any, step: float) -> None:
    """Check that expected mistakes are at most the loss of any U plus ‖U‖²/(2η)."""
    for noise in (0.0, 0.2):
        world = make_world(3, 500, learner.problem, noise)
        mistakes = expected_mistakes(learner, world)
        for U in comparators(world, learner.problem):
            loss = losses_of(getattr(learner, "loss", "logistic"), world.contexts @ U.T, world.truth).sum()
            assert mistakes <= loss + np.sum(U**2) / (2.0 * step)


FULL = [row for row in TABLE if row.theorem in ("Theorem 1", "Theorem 2", "Theorem 3") and row.learner is Gaptron]


@pytest.mark.parametrize("row", [row for row in FULL if "radius" not in row.hyperparameters], ids=str)
def test_full_information_bounds_hold(row: Row) -> None:
    """Gaptron's Theorems 1 to 3 hold with each step that the guarantee covers."""
    learner, given = row.learner(problem=PROBLEM, **row.hyperparameters), row.hyperparameters
    safe = SAFE[learner.loss]
    step = safe * learner.eta_scale if given["learning_rate"] == "theorem" else given["learning_rate"]
    full_bounds(learner, step)


@pytest.mark.parametrize("eta", [0.05, 0.01])
def test_fenchel_young_bound_holds_for_smaller_steps(eta: float) -> None:
    """The bound of Theorem 5.1 holds with steps below the theorem's."""
    full_bounds(FenchelYoung(problem=PROBLEM, learning_rate=eta), eta)


def test_adaptive_step_breaks_the_bound_of_theorem_2() -> None:
    """With many uninformative features the adaptive step exceeds Theorem 2's bound, so the guarantee omits it."""
    d, n, rng = 500, 300, np.random.default_rng(0)
    truth, x = rng.integers(0, 2, n), rng.choice([-1.0, 1.0], (n, d)) / np.sqrt(2 * (d - 1))
    x[:, 0] = np.where(truth == 0, 1.0, -1.0) / np.sqrt(2)
    world, allowed = World(x, truth, rng.random(n)), 2.0  # K²X²‖U‖²/(2(K - 1)) at ‖U‖ = 1, where the hinge loss is zero
    mistakes = [
        expected_mistakes(Gaptron(problem=Problem(2, d), loss="hinge", information="full", learning_rate=rate), world)
        for rate in ("theorem", "adaptive")
    ]
    assert mistakes[0] <= allowed
    assert mistakes[1] > 1.5 * allowed


RUNS, T = 8, 1000


def mean_mistakes(learner: AnyLearner, world: World) -> float:
    """Return the mean of expected mistakes over the learner's draws, plus four standard errors."""
    return largest_mean(expected_mistakes, learner, world, np.random.default_rng(2).random((RUNS, len(world.truth))))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "choice",
    [{"exploration": 0.2}, {"exploration": 0.2, "eta_scale": 0.3}, {}, {"least_exploration": 0.3, "eta_scale": 0.5}],
    ids=str,
)
def test_bandit_bounds_hold(loss: Any, choice: dict[str, Any]) -> None:
    """Regret is at most D²/(2η) + γT(K - 1)/K for a fixed γ, D²/(2κγ_T) + ((K - 1)/K) Σ γ_t for a falling γ."""
    problem, D = Problem(2, 2), 1.0
    learner: Gaptron = Gaptron(problem=problem, loss=loss, learning_rate="theorem", radius=D, **choice)
    gammas = np.full(T, choice.get("exploration", 0.0))
    if not gammas.any():
        gammas = np.minimum(1.0, np.maximum(np.sqrt(2 / np.arange(1, T + 1)), choice.get("least_exploration", 0.0)))
    kappa = safe_step(loss, problem, 1.0) * learner.eta_scale
    bound = D**2 / (2 * kappa * gammas[-1]) + gammas.sum() / 2
    world = two_clusters(1, T, noise=0.05)
    worst = mean_mistakes(learner, world)
    for U in comparators(world, problem, D):
        assert worst <= losses_of(loss, world.contexts @ U.T, world.truth).sum() + bound


@pytest.mark.parametrize(
    "choice", [{"exploration": 0.1}, {}, {"exploration": "theorem", "theorem_constant": 8.0}], ids=str
)
@pytest.mark.parametrize("X", [1.0, 3.0])
def test_banditron_bound_holds(choice: dict[str, Any], X: float) -> None:
    """Mistakes are at most L + Σ γ_t + 3 max(K C/γ_T, √(C Σ γ_t)) + √(K C L/γ_T), for fixed and falling γ."""
    learner, rounds = Banditron(problem=Problem(2, 2, X), **choice), np.arange(1, T + 1)
    world = two_clusters(1, T, noise=0.02)
    world = world._replace(contexts=X * world.contexts)
    falling = {"anytime": np.sqrt(2 / rounds), "theorem": (8.0 / rounds) ** (1 / 3)}
    gammas = np.minimum(1.0, falling.get(choice.get("exploration", "anytime"), np.full(T, 0.1)))
    worst, bounds = mean_mistakes(learner, world), []
    for U in comparators(world, learner.problem):
        L, C = losses_of("hinge", world.contexts @ U.T, world.truth).sum(), 2 * (X * np.linalg.norm(U)) ** 2
        paid = 3 * max(2 * C / gammas[-1], np.sqrt(C * gammas.sum()))
        bounds.append(L + gammas.sum() + paid + np.sqrt(2 * C * L / gammas[-1]))
    assert worst <= min(bounds)


@pytest.mark.parametrize("gamma", [0.3, 0.8])
def test_bandit_reduction_bound_holds(gamma: float) -> None:
    """Mistakes are at most the logistic loss plus K R(T)/γ + γT, for a γ that is not the best."""
    problem = Problem(2, 2)
    learner = FolkloreBandit(problem=problem, exploration=gamma, comparator_bound=1.0)
    world = two_clusters(1, T, noise=0.02)
    worst = mean_mistakes(learner, world)
    loss = min(
        losses_of("logistic", world.contexts @ U.T, world.truth).sum() * np.log(2.0)
        for U in comparators(world, problem)
        if np.linalg.norm(U, axis=1).max() <= 1.0
    )
    assert worst <= loss + 2 * learner.base_learner.regret_bound(T) / gamma + gamma * T
