"""FOLKLORE's theorem: the surrogate is below the loss, and regret is within its bound."""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import softmax

from learners.algorithms.improper.folklore import Folklore, regret_bound, surrogate_constant
from learners.base import FloatArray, IntArray, Problem
from tests.learners.algorithms.folklore_reference import log_losses, logits_of
from tests.learners.arrays import unit_rows
from tests.learners.worlds import make_world, play


def worst_excess(K: int, reach: float, gamma: float) -> float:
    """Return the largest surrogate minus loss over random logits z_t and Wx with entries up to BR."""
    rng, n = np.random.default_rng(K), 20_000
    z, other = (reach * np.sign(u) * np.abs(u) ** rng.choice([0.0, 0.3, 1.0, 3.0], (n, 1))
                for u in rng.uniform(-1, 1, (2, n, K)))  # fmt: skip
    y, p, moved = rng.integers(0, K, n), softmax(z, axis=1), other - z
    curvature = (p * moved**2).sum(axis=1) - (p * moved).sum(axis=1) ** 2
    surrogate = log_losses(z, y) + ((p - np.eye(K)[y]) * moved).sum(axis=1) + gamma * curvature
    return float((surrogate - log_losses(other, y)).max())


@pytest.mark.parametrize("K", [2, 3, 10])
@pytest.mark.parametrize("reach", [0.5, 2.0, 10.0])
def test_surrogate_is_below_the_loss(K: int, reach: float) -> None:
    """The corrected constant works wherever ‖Wx‖_∞ <= BR; the printed 1/(BR + ln(K)/2) does not."""
    assert worst_excess(K, reach, surrogate_constant(reach, 1.0, K)) <= 1e-9
    assert worst_excess(K, reach, 1 / (reach + np.log(K) / 2)) > 1e-3


def best_loss(x: FloatArray, y: IntArray, K: int, bound: float) -> float:
    """Return the loss of the best W that a generic optimizer finds, with rows clipped to norm B."""

    def clipped(w: FloatArray) -> FloatArray:
        W = w.reshape(K, -1)
        return np.asarray(W * np.minimum(1, bound / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)))

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        z = x @ w.reshape(K, -1).T
        return float(log_losses(z, y).sum()), ((softmax(z, axis=1) - np.eye(K)[y]).T @ x).ravel()

    start = np.zeros(K * x.shape[1])
    W = start
    for _ in range(300):  # projected gradient steps from the unconstrained optimum
        free = W if W is not start else optimize.minimize(objective, start, jac=True, method="L-BFGS-B").x
        W = clipped(free - objective(free)[1] / len(x)).ravel()
    return float(objective(W)[0])


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("bound", [1.0, 10.0])
def test_regret_is_within_its_bound(noise: float, bound: float) -> None:
    """The loss is at most that of a fitted comparator with rows of norm at most B, plus R(T)."""
    problem = Problem(4, 3)
    learner, world = Folklore(problem=problem, comparator_bound=bound), make_world(8, 400, problem, noise)
    loss = log_losses(logits_of(list(play(learner, world))), world.truth).sum()
    regret = loss - best_loss(world.contexts, world.truth, 4, bound)
    assert regret <= regret_bound(bound, problem, 400)
    assert loss < 400 * np.log(4) or noise == 1.0


def test_regret_bound_is_broken_without_learning() -> None:
    """A learner that stays at its first state exceeds the bound, so the test above can fail."""
    problem, rng = Problem(2, 1), np.random.default_rng(1)
    x, y = unit_rows(rng, 2000, 1), np.zeros(2000, dtype=np.int64)
    y[x[:, 0] < 0] = 1
    assert 2000 * np.log(2) - best_loss(x, y, 2, 10.0) > regret_bound(10.0, problem, 2000)
