"""The bandit reduction over each base: its updates, its state, and the bound."""

from typing import Any

import numpy as np
import pydantic
import pytest

from learners.algorithms.improper.bandit_reduction import BanditReduction
from learners.algorithms.improper.explored_rounds import explored
from learners.algorithms.improper.folklore_bandit import FolkloreBandit
from learners.algorithms.improper.reduction_bases import BASES, BaseName
from learners.base import Problem
from learners.layouts import state_layout
from tests.learners.arrays import assert_close, bits
from tests.learners.formulas import losses_of
from tests.learners.worlds import expected_mistakes as mistakes_of
from tests.learners.worlds import join, largest_mean, make_world, pick, play, two_clusters

PROBLEM = Problem(3, 2)
NAMES: list[BaseName] = list(BASES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["as_of_prediction", "recompute"])
def test_base_learns_from_correct_exploring_rounds_only(name: BaseName, mode: Any) -> None:
    """The base's part of the state is that of the base alone after the correct exploring rounds, bit for bit."""
    learner = BanditReduction(problem=PROBLEM, base=name, exploration=0.4, delayed_update=mode)
    base = learner.base_learner
    steps = list(play(learner, make_world(4, 300, PROBLEM)))
    rounds, final = join(steps), steps[-1].after
    lucky = np.flatnonzero(rounds.correct & explored(rounds, 3))
    assert 20 < len(lucky) < 80
    evidence = np.ascontiguousarray(rounds.evidence[lucky, : base.evidence_size])
    alone = pick(rounds, lucky)._replace(evidence=evidence)
    assert bits(learner.base_state(final)) == bits(base.fold(base.init(), alone._replace(true_labels=alone.labels)))
    assert int(final.updates) == len(lucky)
    assert int(final.rounds) == 300


def test_reduction_over_folklore_equals_folklore_bandit() -> None:
    """With the base `folklore`, answers and evidence are those of `folklore-bandit`, bit for bit."""
    settings: dict[str, Any] = {"problem": PROBLEM, "exploration": 0.3, "comparator_bound": 4.0}
    world = make_world(6, 200, PROBLEM)
    one = list(play(BanditReduction(base="folklore", **settings), world))
    two = list(play(FolkloreBandit(**settings), world))
    assert bits(join(one)) == bits(join(two))
    assert bits([step.distribution for step in one]) == bits([step.distribution for step in two])


@pytest.mark.parametrize("name", NAMES)
def test_base_state_is_a_view_of_the_whole_state(name: BaseName) -> None:
    """The base's arrays fill `numbers` without gaps or overlaps, and its count of rounds is `updates`."""
    learner = BanditReduction(problem=PROBLEM, base=name)
    state = learner.init()
    state.numbers[:] = np.arange(state.numbers.size)
    *arrays, updates = learner.base_state(state)
    assert (np.concatenate([array.ravel() for array in arrays]) == state.numbers).all()
    assert updates is state.updates
    assert all(layout.dtype == np.float64 for layout in list(state_layout(learner.base_learner).values())[:-1])
    assert all(np.shares_memory(array, state.numbers) for array in arrays)


@pytest.mark.parametrize("name", NAMES)
def test_anytime_rate_uses_the_bound_of_the_base(name: BaseName) -> None:
    """γ_t = min(1, √(K R(t)/t)) falls from 1; a larger comparator explores more."""
    small, large = (
        BanditReduction(problem=PROBLEM, base=name, exploration="anytime", comparator_bound=B) for B in (1.0, 10.0)
    )
    t = 10**7
    assert small.exploration_rate(0) == large.exploration_rate(0) == 1.0
    assert_close(small.exploration_rate(t - 1), np.sqrt(3 * small.base_regret(t) / t), 1e-15)
    assert small.exploration_rate(t - 1) < large.exploration_rate(t - 1) < 1.0


def test_regret_bound_of_bases_with_a_step_is_half_the_squared_norm_over_the_step() -> None:
    """R = B²/(2η): X²B²/(2(1 - ln 2) ln 2) for Fenchel-Young, K X²B²/ln 2 for Gaptron, and with a fixed step."""
    problem, B, ln2 = Problem(5, 2, 3.0), 7.0, np.log(2.0)
    expected: list[tuple[Any, Any, float]] = [
        ("fenchel-young", "theorem", 9 * B**2 / (2 * (1 - ln2) * ln2)),
        ("gaptron", "theorem", 5 * 9 * B**2 / ln2),
        ("gaptron", 0.25, 2 * B**2),
    ]
    for name, step, bound in expected:
        learner = BanditReduction(problem=problem, base=name, comparator_bound=B, learning_rate=step)
        assert_close(learner.base_regret(10), bound, 1e-12 * bound)


def test_step_for_a_base_without_one_is_refused() -> None:
    """FOLKLORE takes no step; the other bases take any positive one."""
    with pytest.raises(pydantic.ValidationError, match="folklore takes no learning_rate"):
        BanditReduction(problem=PROBLEM, base="folklore", learning_rate=1.0)
    for name in NAMES[1:]:
        assert BanditReduction(problem=PROBLEM, base=name, learning_rate=1.0).learning_rate == 1.0


T, RUNS = 1000, 8


@pytest.mark.parametrize("name", ["fenchel-young", "gaptron"])
@pytest.mark.parametrize("gamma", [0.3, 0.8])
def test_bound_of_bases_with_a_mistake_bound_holds(name: BaseName, gamma: float) -> None:
    """Mistakes are at most the base-2 logistic loss of any U plus K ‖U‖²/(2ηγ) + γT."""
    problem = Problem(2, 2)
    learner, world = BanditReduction(problem=problem, base=name, exploration=gamma), two_clusters(1, T, noise=0.02)
    draws = np.random.default_rng(2).random((RUNS, T))
    worst, bounds = largest_mean(mistakes_of, learner, world, draws), []
    for norm in (0.0, 1.0, 2.0, 3.0):
        U = norm / np.sqrt(2) * np.array([[1.0, 0.0], [-1.0, 0.0]])
        regret = BanditReduction(problem=problem, base=name, comparator_bound=max(norm, 1e-6)).base_regret(T)
        loss = float(losses_of("logistic", world.contexts @ U.T, world.truth).sum())
        bounds.append(loss + 2 * regret / gamma + gamma * T)
    assert worst <= min(bounds)
