"""AdaHedge with abstention against Appendix E of the Gaptron paper: the trace, Theorem 7, edge cases."""

from collections.abc import Callable

import numpy as np
import pytest

from learners.algorithms.improper.adahedge import AdaHedge, AdaHedgeState
from learners.base import NO_LABEL, Contexts, FloatArray, Problem
from learners.evaluation.simulation import simulate
from tests.learners.arrays import assert_close, bits, copied
from tests.learners.traces import MICRO, TOLERANCE
from tests.learners.worlds import one_round

NONE = np.empty(0)


def fold_one(learner: AdaHedge, state: AdaHedgeState, experts: FloatArray, truth: int) -> AdaHedgeState:
    return learner.fold(state, one_round(experts, 0, 1.0, truth, NONE))


def test_micro_trace() -> None:
    """Weights, answers, Δ and losses match the trace."""
    learner = AdaHedge(problem=Problem(3, 3))
    state = learner.init()
    for expected in MICRO["abstention_adahedge"]["rounds"]:
        w, experts = learner.weights(state), np.array(expected["experts"], dtype=np.float64)
        p = learner.decide(state, Contexts.dense(experts)).distributions[0]
        loss = (1 - expected["y"] * experts) / 2
        state = fold_one(learner, state, experts, int(expected["y"] == 1))
        assert_close((w, w @ experts), (expected["weights"], expected["ybar"]), TOLERANCE)
        assert_close((p[2], p[int(expected["ystar"] == 1)]), (expected["p_abstain"], abs(expected["ybar"])), TOLERANCE)
        assert_close(w @ loss**2 - (w @ loss) ** 2, expected["v"], TOLERANCE)
        assert_close((state.mixability_gap, state.losses), (expected["Delta"], expected["L"]), TOLERANCE)


def random_world(rng: np.random.Generator, n: int, d: int) -> tuple[FloatArray, FloatArray]:
    y = rng.choice([-1.0, 1.0], n)
    right = rng.random((n, d)) < np.linspace(0.4, 0.9, d)
    return np.where(right, y[:, None], -y[:, None]) * rng.choice([0.3, 1.0], (n, d)), y


def expert_world(rng: np.random.Generator, n: int, d: int) -> tuple[FloatArray, FloatArray]:
    y = rng.choice([-1.0, 1.0], n)
    return np.column_stack([rng.choice([-1.0, 1.0], (n, d - 1)), y]), y


def flipping_world(rng: np.random.Generator, n: int, d: int) -> tuple[FloatArray, FloatArray]:
    signs = np.where(np.arange(d) % 2, 1.0, -1.0) * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    return signs, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def contrary_world(rng: np.random.Generator, n: int, d: int) -> tuple[FloatArray, FloatArray]:
    y = rng.choice([-1.0, 1.0], n)
    return np.tile((y * np.where(np.arange(n) // 20 % 2, 1.0, -1.0))[:, None], d), y


@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("make", [random_world, expert_world, flipping_world, contrary_world])
def test_theorem_7_bound_holds(
    make: Callable[[np.random.Generator, int, int], tuple[FloatArray, FloatArray]], d: int
) -> None:
    rng = np.random.default_rng(d)
    (experts, y), costs = make(rng, 600, d), rng.uniform(0.1, 0.4, 600)
    learner = AdaHedge(problem=Problem(3, d), abstention_cost=float(costs.max()))
    state = learner.init()
    cost, variance = 0.0, 0.0
    for advice, outcome, c in zip(experts, y, costs, strict=True):
        w, loss = learner.weights(state), (1 - outcome * advice) / 2
        p = learner.decide(state, Contexts.dense(advice)).distributions[0]
        cost += p[int(outcome < 0)] + p[2] * c
        variance += w @ loss**2 - (w @ loss) ** 2
        state = fold_one(learner, state, advice, int(outcome > 0))
    slack = min(np.log(d) / (1 - 2 * costs.max()), 2 * np.sqrt(np.log(d) * max(variance, 0.0)))
    assert_close(state.losses, ((1 - y[:, None] * experts) / 2).sum(axis=0), 1e-9)
    bound = slack + 4 / 3 * np.log(d) + 2
    assert cost <= state.losses.min() + bound
    assert learner.bound(1) == pytest.approx(np.sqrt(np.log(d)) + 4 / 3 * np.log(d) + 2)  # a variance is at most 1/4
    assert bound <= learner.bound(600) <= learner.bound(10**6) <= learner.bound()
    assert f"{learner.bound():.4g} for d = {d} " in learner.guarantee


def test_nothing_but_the_reward_depends_on_the_cost() -> None:
    """The distributions and the updates are the same for every c; a simulation counts no abstention as a mistake."""
    experts, y = random_world(np.random.default_rng(1), 300, 3)
    world = Contexts.dense(experts), (y > 0).astype(np.int64), np.random.default_rng(2).random(300)
    one, other = [simulate(AdaHedge(problem=Problem(3, 3), abstention_cost=c), *world) for c in (1e-6, 0.499)]
    assert bits(one) == bits(other)
    assert {AdaHedge(problem=Problem(3, 3), abstention_cost=c).abstention_reward for c in (0.2, 0.3)} == {0.8, 0.7}
    abstained = one.labels == 2
    assert 0 < abstained.sum() < 300
    assert one.mistakes.tolist() == (~abstained & (one.labels != world[1])).tolist()


def test_uniform_weights_break_theorem_7() -> None:
    experts, y = expert_world(np.random.default_rng(10), 600, 10)
    mean = experts.mean(axis=1)
    cost = np.sum(np.abs(mean) * (mean * y < 0) + 0.25 * (1 - np.abs(mean)))
    assert cost > 2 * (np.log(10) / (1 - 0.5) + 4 / 3 * np.log(10) + 2)


def test_predictions_are_clipped() -> None:
    learner = AdaHedge(problem=Problem(3, 2, 100.0))
    state = fold_one(learner, learner.init(), np.array([0.5, -0.2]), 1)
    wild, tame = np.array([9.0, -70.0]), np.array([1.0, -1.0])
    assert bits(learner.decide(state, Contexts.dense(wild))) == bits(learner.decide(state, Contexts.dense(tame)))
    assert bits(fold_one(learner, copied(state), wild, 0)) == bits(fold_one(learner, copied(state), tame, 0))


@pytest.mark.parametrize("truth", [2, NO_LABEL])
def test_invalid_truth_is_only_counted(truth: int) -> None:
    learner = AdaHedge(problem=Problem(3, 2))
    state = fold_one(learner, learner.init(), np.array([0.5, -0.2]), 1)
    after = fold_one(learner, copied(state), np.array([1.0, 0.3]), truth)
    assert bits(after._replace(rounds=state.rounds)) == bits(state)
    assert int(after.rounds) == 2


@pytest.mark.parametrize("gap", [0.0, 5e-324, 1e-300, 1e-12, 1e300])
def test_any_gap_and_losses_give_valid_weights(gap: float) -> None:
    """For any Δ and any losses, weights sum to 1 and Δ stays finite."""
    for d in (1, 3):
        learner = AdaHedge(problem=Problem(3, d))
        for step in (0.0, 1e-17, 1e9):
            losses: FloatArray = np.arange(d, dtype=np.float64) * step
            state = learner.init()._replace(losses=losses, mixability_gap=np.array(gap))
            assert_close(learner.weights(state).sum(), 1.0, 1e-12)
            assert np.isfinite(fold_one(learner, state, np.linspace(-1, 1, d), 1).mixability_gap)
