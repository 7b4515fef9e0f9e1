"""Gaptron against its paper: the weights after each round, the adaptive step, the ball."""

from typing import Any

import numpy as np
import pydantic
import pytest

from learners.algorithms.first_order.gaptron import Gaptron, GaptronState
from learners.base import Contexts, FloatArray, Problem
from learners.mathematics.gaptron_schedules import anytime_constant, safe_step
from learners.mathematics.linear_algebra import squared_norm
from learners.mathematics.losses import LossName
from tests.learners.algorithms.gaptron_scores import EACH_K, EACH_LOSS
from tests.learners.arrays import assert_close, copied, matrix
from tests.learners.formulas import gradient, projected, theorem
from tests.learners.worlds import make_world, one_round, pick, play, random_rounds

RECURSIONS: dict[str, dict[str, Any]] = {
    "bandit": {"exploration": 0.2, "learning_rate": 0.4},
    "full": {"information": "full", "learning_rate": 0.4},
    "theorem": {"information": "full", "eta_scale": 3.0},
    "anytime": {"eta_scale": 50.0, "least_exploration": 0.05},
}


@EACH_LOSS
@pytest.mark.parametrize("mode", ["as_of_prediction", "recompute"])
@pytest.mark.parametrize("information", RECURSIONS)
def test_weights_match_the_plain_recursion(loss: LossName, mode: Any, information: str) -> None:
    """W matches projected gradient descent, or dual averaging, in plain numpy on any rounds."""
    problem, D, kappa = Problem(3, 4, 2.0), 1.5, safe_step(loss, Problem(3, 4, 2.0), 1.0) * 50
    hyperparameters: dict[str, Any] = {"radius": D, "delayed_update": mode, **RECURSIONS[information]}
    learner = theorem(problem, loss=loss, **hyperparameters)
    step = 3.0 * safe_step(loss, problem) if information == "theorem" else 0.4
    rounds, state, W, theta = random_rounds(5, 200, learner), learner.init(), np.zeros((3, 4)), np.zeros((3, 4))
    for t, x in enumerate(matrix(rounds.contexts)):
        s = rounds.evidence[t] if learner.evidence_size else W @ x
        y, weight = int(rounds.true_labels[t]), rounds.correct[t] / rounds.propensities[t]
        g = (1.0 if learner.needs_true_label else weight) * gradient(loss, s, y, x)
        theta += g
        gamma = max(0.05, min(1.0, anytime_constant(loss, problem, D) / np.sqrt(t + 2)))
        W = projected(-kappa * gamma * theta if information == "anytime" else W - step * g, D)
        state = learner.fold(state, pick(rounds, [t]))
        assert_close(learner.weights(state), W, 1e-9)


@EACH_LOSS
@EACH_K
def test_bandit_gradient_is_unbiased(loss: LossName, K: int) -> None:
    """In expectation over the label drawn, the step equals the full-information step."""
    problem, world = Problem(K, 3), make_world(K, 20, Problem(K, 3))
    bandit = theorem(problem, loss=loss, exploration=0.2, learning_rate=0.3, radius=1e6)
    full = theorem(problem, loss=loss, information="full", learning_rate=0.3, radius=None)
    state = bandit.init()
    state.direction[:] = 2 * np.random.default_rng(K).normal(size=(3, K))
    state.squared_norm[()] = np.sum(state.direction**2)
    for x, y in zip(world.contexts, world.truth, strict=True):
        p, evidence = (d[0] for d in bandit.decide(state, Contexts.dense(x)))
        drawn = [bandit.fold(copied(state), one_round(x, k, p[k], y, evidence)) for k in range(K)]
        moves = np.array([bandit.weights(after) - bandit.weights(state) for after in drawn])
        expected = full.weights(full.fold(copied(state), one_round(x, 0, 0.5, y, evidence))) - full.weights(state)
        assert_close(np.tensordot(p, moves, 1), expected, 1e-12)


@EACH_LOSS
def test_anytime_state_does_not_depend_on_the_order_of_arrival(loss: LossName) -> None:
    """Dual averaging sums gradients as of prediction, so late feedback in any order gives one state."""
    learner = theorem(Problem(4, 3), loss=loss)
    rounds = random_rounds(1, 100, learner)
    shuffled = pick(rounds, np.random.default_rng(2).permutation(100))
    assert_close(tuple(learner.fold(learner.init(), shuffled)), tuple(learner.fold(learner.init(), rounds)), 1e-9)


@EACH_LOSS
@pytest.mark.parametrize("choice", [{}, {"exploration": 0.1}, {"information": "full"}], ids=str)
def test_units_do_not_matter(loss: LossName, choice: dict[str, Any]) -> None:
    """Contexts and X in other units, with D in the inverse units, give the same decisions."""
    world = make_world(3, 60, Problem(3, 4))
    learners = [theorem(Problem(3, 4, c), loss=loss, radius=0.5 / c, **choice) for c in (1.0, 8.0)]
    scaled = [world, world._replace(contexts=8.0 * world.contexts)]
    one, two = ([s.distribution for s in play(*pair)] for pair in zip(learners, scaled, strict=True))
    assert_close(np.array(one), np.array(two), 1e-9)


def adaptive_run(
    loss: LossName, information: str, radius: float | None
) -> tuple[Gaptron, list[tuple[FloatArray, FloatArray]], GaptronState]:
    """Run a learner with the step 0.7/X; return it, each round's weights and weighted gradient, and the last state."""
    bandit: dict[str, Any] = {"exploration": 0.2} if information == "bandit" else {"information": "full"}
    learner: Gaptron = Gaptron(problem=Problem(3, 4, 2.0), loss=loss, eta_scale=1.4, radius=radius, **bandit)
    rounds, state, met = random_rounds(6, 200, learner), learner.init(), []
    for t, x in enumerate(matrix(rounds.contexts)):
        weight = 1.0 if information == "full" else rounds.correct[t] / rounds.propensities[t]
        g = weight * gradient(loss, rounds.evidence[t], int(rounds.true_labels[t]), x)
        met.append((learner.weights(state).copy(), g))
        state = learner.fold(state, pick(rounds, [t]))
    return learner, met, state


@EACH_LOSS
@pytest.mark.parametrize("information", ["bandit", "full"])
@pytest.mark.parametrize("radius", [None, 0.3])
def test_adaptive_weights_match_the_plain_recursion(loss: LossName, information: str, radius: float | None) -> None:
    """Each feature moves by a multiple of 1/X over the root of its squared gradients, within its ball if any."""
    learner, met, end = adaptive_run(loss, information, radius)
    W, G = np.zeros((3, 4)), np.zeros(4)
    for before, g in met:
        assert_close(before, W, 1e-9)
        G += np.sum(g**2, axis=0)
        W = W - 0.7 * g / np.sqrt(np.maximum(G, 1e-300))
        if radius is not None:
            W = W * np.minimum(1.0, radius / np.maximum(np.linalg.norm(W, axis=0), 1e-300))
    assert_close(learner.weights(end), W, 1e-9)
    assert_close(end.gradient_sums, G, 1e-9)


@EACH_LOSS
def test_adaptive_regret_is_within_its_bound(loss: LossName) -> None:
    """On the linearized losses, regret to the best U with rows in the ball is at most Σ (2 D²/η + η) √G_i."""
    D, eta = 0.3, 0.7
    _, met, end = adaptive_run(loss, "bandit", D)
    total = np.sum([g for _, g in met], axis=0)
    paid = sum(float(np.sum(W * g)) for W, g in met)
    regret = paid + D * np.linalg.norm(total, axis=0).sum()
    bound = np.sum((2 * D**2 / eta + eta) * np.sqrt(end.gradient_sums))
    assert 0.05 * bound < regret <= bound


def test_horizon_beyond_floats_is_refused() -> None:
    """JSON allows integers of any size; a horizon beyond the floats is refused by name."""
    with pytest.raises(pydantic.ValidationError, match="horizon"):
        theorem(Problem(2, 1), horizon=10**400)


@pytest.mark.parametrize(
    "contradiction",
    [
        {"exploration": "theorem", "learning_rate": "adaptive"},
        {"learning_rate": "theorem"},
        {"exploration": 0.1, "horizon": 10},
        {"horizon": 10},
        {"learning_rate": 0.1},
    ],
)
def test_contradicting_hyperparameters_are_refused(contradiction: dict[str, Any]) -> None:
    """Refused: no radius under bandit feedback, two explorations, or a step that the schedule would ignore."""
    with pytest.raises(pydantic.ValidationError):
        Gaptron(problem=Problem(2, 1), **contradiction)


@pytest.mark.parametrize(
    "choice",
    [
        {"exploration": 0.01, "eta_scale": 1e3},
        {"exploration": 0.01, "learning_rate": 1e6, "radius": 1e-3, "delayed_update": "recompute"},
        {"information": "full", "learning_rate": 3.0},
        {"eta_scale": 1e4},
        {"delayed_update": "recompute", "loss": "smooth_hinge"},
    ],
    ids=str,
)
def test_weights_stay_in_the_ball(choice: dict[str, Any]) -> None:
    """‖W‖ ≤ D after every round, also after 10⁵ rounds and where the norm is recomputed (65,536)."""
    learner = theorem(Problem(4, 3), **choice)
    assert learner.radius is not None
    rounds, state = random_rounds(3, 100_000, learner), learner.init()
    cuts = [*range(1, 40), *range(1000, 65_000, 4000), *range(65_530, 65_542), *range(66_000, 100_001, 2000)]
    for start, stop in zip([0, *cuts], cuts, strict=False):
        state = learner.fold(state, pick(rounds, range(start, stop)))
        assert np.linalg.norm(learner.weights(state)) <= learner.radius * (1 + 1e-9)
        assert_close(state.squared_norm / np.sum(state.direction**2), 1.0, 1e-9)


def test_norm_is_recomputed_every_65536_rounds() -> None:
    """The tracked norm is recomputed from the direction, bit for bit, so that rounding errors do not accumulate."""
    learner = theorem(Problem(4, 3), loss="hinge", exploration=0.1)
    rounds = random_rounds(4, 65_536, learner)
    state = learner.fold(learner.init(), pick(rounds, range(65_535)))
    assert state.squared_norm != squared_norm(state.direction.ravel())
    state = learner.fold(state, pick(rounds, [65_535]))
    assert state.squared_norm == squared_norm(state.direction.ravel())


def test_projection_acts_only_outside_the_ball() -> None:
    """Projection keeps the direction and ends on the sphere; inside the ball it changes nothing."""
    learner = theorem(Problem(2, 1), loss="hinge", information="full", learning_rate=0.5, radius=1.0)
    state, norms = learner.init(), []
    for label in (0, 0, 1, 1):
        rounds = one_round([1.0], label, 1.0, label, np.array([0.0, 0.0]))
        state = learner.fold(state, rounds)
        norms.append(learner.weights(state)[0, 0])
    assert_close(norms, [0.5, np.sqrt(0.5), np.sqrt(0.5) - 0.5, np.sqrt(0.5) - 1.0], 1e-12)
