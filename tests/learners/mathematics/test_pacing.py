"""Budget pacing: the mean cost is the budget, and the reward that of the best fixed weight."""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from learners.base import NO_LABEL, Contexts, FloatArray, Prices, Problem, Rounds, every_label
from learners.mathematics.exploration import draw_unchecked
from learners.mathematics.pacing import Budget, new_pacing, pace, pace_all, paced_weight
from learners.registry import LEARNERS

SEEDS = range(3)
DELAY, ROUNDS, BUDGET = 300, 6_000, 0.3  # feedback comes this many rounds late; 20 delays


class Stream(NamedTuple):
    contexts: FloatArray  # (n, 3)
    rewards: FloatArray  # (n, 3), the probability that each label is right
    costs: FloatArray  # (n, 3)


def still(rng: np.random.Generator) -> Stream:
    """Draw requests of which the dear label answers the difficult ones better."""
    contexts = np.column_stack([rng.normal(size=(ROUNDS, 2)), np.ones(ROUNDS)])
    difficulty = 1.0 / (1.0 + np.exp(-1.5 * contexts[:, 0]))
    rewards = 1.0 - np.array([0.9, 0.6, 0.25]) * difficulty[:, np.newaxis]
    return Stream(contexts, rewards, np.tile([0.05, 0.3, 1.0], (ROUNDS, 1)))


def drifting(rng: np.random.Generator) -> Stream:
    """Draw requests whose dear label becomes twice as dear, and whose cheap label becomes worse."""
    stream, time = still(rng), np.linspace(0.0, 1.0, ROUNDS)
    stream.rewards[:, 0] *= 1.0 - 0.3 * time
    stream.costs[:, 2] *= 1.0 + time
    return stream


class Spent(NamedTuple):
    costs: FloatArray  # (n,)
    rewards: FloatArray  # (n,), expected


@cache
def played(name: str, make: Callable[[np.random.Generator], Stream], seed: int, weight: float | None) -> Spent:
    """Play a stream with a fixed weight of costs, or within the budget."""
    rng = np.random.default_rng(seed)
    stream, uniforms, luck = make(rng), rng.random(ROUNDS), rng.random((ROUNDS, 3))
    learner, budget = LEARNERS[name](problem=Problem(3, 3)), Budget(BUDGET)
    state, pacing = learner.init(), new_pacing()
    labels, p, weights = np.zeros(ROUNDS, np.int64), np.zeros(ROUNDS), np.zeros(ROUNDS)
    rows, contexts = np.arange(ROUNDS), [Contexts.dense(row) for row in stream.contexts]
    for t in range(ROUNDS + DELAY):
        if t >= DELAY:
            k, (f, one) = labels[t - DELAY], (t - DELAY, slice(t - DELAY, t - DELAY + 1))
            right = np.array([luck[f, k] < stream.rewards[f, k]])
            truth = np.where(right, k, NO_LABEL)
            nothing = np.empty((1, 0)), np.zeros(1)
            state = learner.fold_unchecked(
                state, Rounds(contexts[f], labels[one], p[one], right, truth, *nothing, right * 1.0, every_label(1))
            )
            pace(pacing, budget, stream.costs[f, k], weights[f], float(min(f, DELAY)))
        if t < ROUNDS:
            weights[t] = paced_weight(pacing, budget) if weight is None else weight
            prices = Prices(weights[t : t + 1], stream.costs[t : t + 1].copy())
            distribution = learner.decide_unchecked(state, contexts[t], None, prices).distributions
            labels[t : t + 1], p[t : t + 1], _ = draw_unchecked(distribution, uniforms[t : t + 1])
    return Spent(stream.costs[rows, labels], stream.rewards[rows, labels])


@pytest.mark.parametrize("make", [still, drifting])
@pytest.mark.parametrize("name", ["fastcb", "squarecb"])
def test_the_mean_cost_is_the_budget_after_20_delays(name: str, make: Callable[..., Stream]) -> None:
    found = np.array([played(name, make, seed, None).costs.mean() / BUDGET - 1.0 for seed in SEEDS])
    assert abs(found.mean()) < 0.02
    assert abs(found).max() < 0.04


@pytest.mark.parametrize("make", [still, drifting])
def test_the_reward_is_that_of_the_best_fixed_weight_within_the_budget(make: Callable[..., Stream]) -> None:
    """Costs and rewards fall as the weight grows, so the best fixed weight is the smallest one within the budget."""

    def mean(of: Callable[[Spent], FloatArray], weight: float | None) -> float:
        return float(np.mean([of(played("fastcb", make, seed, weight)) for seed in SEEDS]))

    weights = np.geomspace(0.1, 2, 9)
    smallest = bisect_left(weights, True, key=lambda weight: mean(lambda spent: spent.costs, weight) <= 1.005 * BUDGET)
    assert 0 < smallest < len(weights)
    best = mean(lambda spent: spent.rewards, weights[smallest])
    assert mean(lambda spent: spent.rewards, None) > 0.97 * best


def test_one_round_after_another_gives_the_bits_of_all_together() -> None:
    rng, budget = np.random.default_rng(1), Budget(0.5)
    costs, weights, lags = rng.random(500), rng.random(500), rng.integers(0, 50, 500).astype(np.float64)
    costs[::7] = np.nan  # imported rounds
    whole, single = new_pacing(), new_pacing()
    pace_all(whole, budget, costs, weights, lags)
    for row in zip(costs, weights, lags, strict=True):
        pace(single, budget, *row)
    assert whole.tobytes() == single.tobytes()
    known, alone = ~np.isnan(costs), new_pacing()
    pace_all(alone, budget, costs[known], weights[known], lags[known])
    assert alone.tobytes() == whole.tobytes()


def test_the_weight_is_0_where_the_budget_does_not_bind_and_bounded_where_nothing_keeps_it() -> None:
    cheap, dear, budget = new_pacing(), new_pacing(), Budget(0.5)
    for _ in range(3_000):
        pace(cheap, budget, 0.1, paced_weight(cheap, budget), 10.0)
        pace(dear, budget, 0.9, paced_weight(dear, budget), 10.0)
    assert paced_weight(cheap, budget) == 0.0
    assert paced_weight(dear, budget) == pytest.approx(100.0 / 0.5)
    for _ in range(3_000):
        pace(dear, budget, 0.1, paced_weight(dear, budget), 10.0)
    assert paced_weight(dear, budget) == 0.0


def test_a_new_budget_continues_with_the_weight_and_forgets_the_debt() -> None:
    pacing = new_pacing()
    for _ in range(20):
        pace(pacing, Budget(0.5), 0.9, paced_weight(pacing, Budget(0.5)), 10.0)
    before = paced_weight(pacing, Budget(0.5))
    assert paced_weight(pacing, Budget(0.8)) == pytest.approx(before)
    pace(pacing, Budget(0.8), 0.8, before, 10.0)
    assert paced_weight(pacing, Budget(0.8)) == pytest.approx(before, rel=0.2)
    assert pacing[1] == 0.0


@pytest.mark.parametrize("broken", [np.full(11, 1e308), np.full(11, -1e308), np.full(11, math.nan)])
def test_a_corrupt_pacing_gives_a_weight_in_range(broken: FloatArray) -> None:
    budget = Budget(0.5)
    for cost in (0.1, 1e6, 0.0):
        assert 0.0 <= paced_weight(broken, budget) <= 200.0 * (1.0 + 1e-12)
        pace(broken, budget, cost, 1.0, 0.0)


def test_what_was_decided_under_a_former_budget_is_not_owed() -> None:
    """After a cut of the budget, rounds in flight cost what the former budget allowed."""
    pacing, before, after = new_pacing(), Budget(0.9), Budget(0.1)
    for t in range(400):
        pace(pacing, before, 0.9, paced_weight(pacing, before), float(min(t, 300)))
    for t in range(300):
        pace(pacing, after, 0.9, 0.1, 300.0 + t * 0.0)
    assert pacing[1] == 0.0
    pace(pacing, after, 0.9, 0.1, 300.0)
    assert pacing[1] == pytest.approx(8.0)


def test_one_wrong_cost_does_not_decide_for_long() -> None:
    pacing, budget = new_pacing(), Budget(0.3)
    for t in range(600):
        pace(pacing, budget, 1e6 if t == 500 else 0.3, paced_weight(pacing, budget), 50.0)
    assert pacing[1] < 110.0
