"""The bandit reduction over each base: the trace, the coin, its updates, and the bounds."""

import functools
from typing import Any

import numpy as np
import pydantic
import pytest
from scipy.special import logsumexp

from learners.algorithms.improper.bandit_reduction import BASES, BanditReduction, BaseName, explored
from learners.algorithms.improper.folklore import regret_bound
from learners.algorithms.improper.folklore_bandit import FolkloreBandit
from learners.base import Contexts, Problem
from learners.registry import LEARNERS
from tests.learners.arrays import assert_close, bits
from tests.learners.formulas import losses_of
from tests.learners.traces import MICRO
from tests.learners.worlds import expected_mistakes, join, largest_mean, make_world, one_round, pick, play, two_clusters
from tests.learners.worlds import expected_mistakes as mistakes_of

PROBLEM, SMALL, ONE = Problem(3, 2), Problem(2, 2), Contexts.dense([1.0, 0.0])
NAMES: list[BaseName] = list(BASES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["as_of_prediction", "recompute"])
def test_base_learns_from_correct_exploring_rounds_only(name: BaseName, mode: Any) -> None:
    late: Any = {} if name in ("perceptron", "adahedge") else {"base_settings": {"delayed_update": mode}}
    learner = BanditReduction(problem=PROBLEM, base=name, exploration=0.4, **late)
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
    settings: dict[str, Any] = {"problem": PROBLEM, "exploration": 0.3, "comparator_bound": 4.0}
    world = make_world(6, 200, PROBLEM)
    one = list(play(BanditReduction(base="folklore", **settings), world))
    two = list(play(FolkloreBandit(**settings), world))
    assert bits(join(one)) == bits(join(two))
    assert bits([step.distribution for step in one]) == bits([step.distribution for step in two])


def test_base_settings_are_checked_even_if_they_equal_valid_ones() -> None:
    def made(count: Any) -> BanditReduction:
        return BanditReduction(problem=SMALL, base="adaboost-olm", base_settings={"weak_learners": count})

    assert made(1) != made(2)
    for count in (True, 2.0):
        with pytest.raises(pydantic.ValidationError, match="adaboost-olm: weak_learners"):
            made(count)


def test_every_learner_of_labels_from_true_labels_is_a_base() -> None:
    full = {name for name, cls in LEARNERS.items() if cls.needs_true_label is True or name == "gaptron"}
    assert full == set(BASES)


@pytest.mark.parametrize("name", ["folklore", "fenchel-young", "gaptron"])
def test_anytime_rate_uses_the_bound_of_the_base(name: BaseName) -> None:
    """γ_t = min(1, √(K R(t)/t)) falls from 1; a larger comparator explores more."""
    small, large = (
        BanditReduction(problem=PROBLEM, base=name, exploration="anytime", comparator_bound=B) for B in (1.0, 10.0)
    )
    t = 10**7
    assert small.exploration_rate(0) == large.exploration_rate(0) == 1.0
    regret = small.base_regret(t)
    assert regret is not None
    assert_close(small.exploration_rate(t - 1), np.sqrt(3 * regret / t), 1e-15)
    assert small.exploration_rate(t - 1) < large.exploration_rate(t - 1) < 1.0


def test_regret_bound_of_bases_with_a_step_is_half_the_squared_norm_over_the_step() -> None:
    """R = B²/(2η): X²B²/(2(1 - ln 2) ln 2) for Fenchel-Young, K X²B²/ln 2 for Gaptron, and with a fixed step."""
    problem, B, ln2 = Problem(5, 2, 3.0), 7.0, np.log(2.0)
    expected: list[tuple[Any, Any, float | None]] = [
        ("fenchel-young", {}, 9 * B**2 / (2 * (1 - ln2) * ln2)),
        ("fenchel-young", {"learning_rate": "high-probability"}, 9 * B**2 / ((1 - ln2) * ln2)),
        ("gaptron", {}, 5 * 9 * B**2 / ln2),
        ("gaptron", {"loss": "hinge"}, 25 * 9 * B**2 / 8),
        ("gaptron", {"learning_rate": 1e-3}, 500 * B**2),
        ("gaptron", {"learning_rate": 0.25}, None),
        ("perceptron", {}, None),
        ("fenchel-young-ordinal", {"learning_rate": 1e-3}, 500 * B**2),
    ]
    for name, settings, bound in expected:
        given: Any = {"base_settings": settings} if settings else {}
        learner = BanditReduction(problem=problem, base=name, comparator_bound=B, **given)
        regret = learner.base_regret(10)
        assert (regret is None) == (bound is None)
        if regret is not None and bound is not None:
            assert_close(regret, bound, 1e-12 * bound)


@pytest.mark.parametrize("B", [0.05, 2.0])
@pytest.mark.parametrize("name", ["folklore-bandit", "folklore", "fenchel-young", "gaptron"])
def test_the_theorems_rate_minimizes_the_bound(name: Any, B: float) -> None:
    """With T known, γ = min(1, √(K R(T)/T)), and the guarantee prints K R(T)/γ + γT, or 2 √(K T R(T)) if γ < 1."""
    given: Any = {"exploration": "theorem", "comparator_bound": B, "problem": PROBLEM}
    for T in (10, 10**8):
        over = FolkloreBandit if name == "folklore-bandit" else functools.partial(BanditReduction, base=name)
        learner: Any = over(horizon=T, **given)
        gamma, regret = learner.exploration_rate(0), learner.base_regret(T)
        assert_close(gamma, min(1.0, np.sqrt(3 * regret / T)), 1e-14)
        assert learner.exploration_rate(10**6) == gamma == learner.decide(learner.init(), ONE).evidence[0, -1]
        bound = 2 * np.sqrt(3 * T * regret) if gamma < 1 else 3 * regret + T
        assert_close(learner.regret_bound(T), bound, 1e-9 * bound)
        assert f"At the comparator_bound, this is at most {np.ceil(bound):,.0f}. " in learner.guarantee


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
        assert regret is not None
        loss = float(losses_of("logistic", world.contexts @ U.T, world.truth).sum())
        bounds.append(loss + 2 * regret / gamma + gamma * T)
    assert worst <= min(bounds)


@pytest.mark.parametrize("gamma", [0.3, 0.8])
def test_bound_over_the_perceptron_holds(gamma: float) -> None:
    """Mistakes are at most the hinge loss L of any U plus K 2X²‖U‖²/γ + X‖U‖ √(2KL/γ) + γT."""
    learner, world = (
        BanditReduction(problem=SMALL, base="perceptron", exploration=gamma),
        two_clusters(1, T, noise=0.02),
    )
    worst, bounds = largest_mean(mistakes_of, learner, world, np.random.default_rng(2).random((RUNS, T))), []
    for norm in (0.0, 0.5, 1.0, 2.0):
        U = norm / np.sqrt(2) * np.array([[1.0, 0.0], [-1.0, 0.0]])
        loss = float(losses_of("hinge", world.contexts @ U.T, world.truth).sum())
        bounds.append(loss + 4 * norm**2 / gamma + norm * np.sqrt(4 * loss / gamma) + gamma * T)
    assert worst <= min(bounds)


def test_boosting_learns_under_bandit_feedback() -> None:
    """Over AdaBoost.OLM++, the last 300 of 1,500 rounds have less than half of the mistakes of chance."""
    learner = BanditReduction(problem=SMALL, base="adaboost-olm", base_settings={"weak_learners": 2}, exploration=0.3)
    world = two_clusters(1, 1500, noise=0.0)
    wrong = [not step.round.correct[0] for step in play(learner, world)]
    assert np.mean(wrong[-300:]) < 0.25


TRACE: dict[str, Any] = MICRO["bandit_reduction"]
ALMOST_ONE = float(np.nextafter(1.0, 0.0))


def test_micro_trace() -> None:
    learner = FolkloreBandit(problem=PROBLEM, exploration=TRACE["gamma"], comparator_bound=TRACE["B"])
    state = learner.init()
    for expected in TRACE["rounds"]:
        (distribution,), evidence = learner.decide(state, Contexts.dense(expected["x"]))
        label, residual_uniform = expected["sampled"], 0.0 if expected["explore"] else ALMOST_ONE
        rounds = one_round(expected["x"], label, distribution[label], expected["y"], evidence, residual_uniform)
        before = int(state.updates)
        state = learner.fold(state, rounds)
        assert_close(evidence[0], [*expected["z"], TRACE["gamma"]], 1e-9)
        assert_close(distribution, expected["p"], 1e-9)
        assert int(state.updates) - before == expected["updated"]
    assert int(state.rounds) == len(TRACE["rounds"])


def test_late_rounds_explore_at_the_rate_of_their_decision() -> None:
    """With an anytime γ, a late round explores at the γ of its decision."""
    learner = FolkloreBandit(problem=PROBLEM, exploration="anytime", comparator_bound=1e-3)
    assert learner.exploration_rate(0) == 1.0
    assert learner.exploration_rate(10**6) < 0.05
    decided = learner.decide(learner.init(), Contexts.dense([1.0, 0.0]))
    late = learner.init()
    late.rounds[()] = 10**6
    rounds = one_round([1.0, 0.0], 0, decided.distributions[0, 0], 0, decided.evidence, residual_uniform=0.9)
    assert int(learner.fold(late, rounds).updates) == 1


def test_anytime_rate_matches_the_formula() -> None:
    """γ_t = min(1, √(K R(t)/t)), with the base's bound R."""
    learner = FolkloreBandit(problem=PROBLEM, exploration="anytime", comparator_bound=2.0)
    for t in (1, 100, 10**4, 10**8):
        assert_close(learner.exploration_rate(t - 1), min(1, np.sqrt(3 * regret_bound(2.0, PROBLEM, t) / t)), 1e-12)


HORIZON, REPEATS = 4000, 4


def test_theorem_4_1_bound_holds() -> None:
    """Theorem 4.1: E[M] is at most the loss of any W plus 2 √(K T R(T)) at the tuned γ; chance exceeds it."""
    regret, world = regret_bound(1.0, SMALL, HORIZON), two_clusters(1, HORIZON, noise=0.02)
    learner = FolkloreBandit(problem=SMALL, exploration="theorem", horizon=HORIZON, comparator_bound=1.0)
    uniforms = np.random.default_rng(2).random((REPEATS, HORIZON))
    mistakes = np.array([expected_mistakes(learner, world._replace(uniforms=u)) for u in uniforms])
    z = np.outer(world.contexts[:, 0], [1.0, -1.0])
    allowed = (logsumexp(z, axis=1) - z[np.arange(HORIZON), world.truth]).sum() + 2 * np.sqrt(2 * HORIZON * regret)
    assert mistakes.mean() + 4 * mistakes.std(ddof=1) / np.sqrt(REPEATS) <= allowed
    assert allowed < HORIZON / 2
