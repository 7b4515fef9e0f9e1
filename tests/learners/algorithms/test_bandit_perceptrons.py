"""Bandit perceptrons, linear, kernelized and over the feature map: traces, the map, the mistake bound."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pydantic
import pytest

from learners.algorithms.first_order.bandit_perceptrons import BanditPerceptrons
from learners.algorithms.first_order.bandit_perceptrons_features import BanditPerceptronsFeatures
from learners.algorithms.first_order.bandit_perceptrons_kernel import BanditPerceptronsKernel, rational_kernel
from learners.base import Contexts, FloatArray, Problem
from tests.learners.arrays import as_sparse, assert_close, bits, copied, matrix, monomials, unit_rows
from tests.learners.traces import LONG, MICRO, TOLERANCE, long_world
from tests.learners.worlds import World, make_world, one_round, play

PROBLEM = Problem(4, 5)
RULES: dict[str, dict[str, Any]] = {"paper": {}, "full": {"use_known_label": True}}
"""The default is Algorithm 1; the authors' code learns from every right answer."""


def with_kernel(name: str, problem: Problem, **others: Any) -> BanditPerceptronsKernel:
    _, _, kernel, rule = name.split("_")
    choice: Any = {"kernel": kernel, **RULES[rule], **others}
    return BanditPerceptronsKernel(problem=problem, **choice)


def scores_of(learner: BanditPerceptronsKernel, state: Any, x: FloatArray) -> FloatArray:
    """Return the scores (K,) from the support, in plain numpy."""
    products = state.support.T @ x
    gram = 1 / (1 - products / 2) if learner.kernel == "rational" else products
    return np.asarray(gram @ state.coefficients)


def support_of(state: Any, label: int) -> list[tuple[tuple[float, ...], float]]:
    signs = state.coefficients[:, label]
    return sorted((tuple(state.support[:, j].tolist()), float(signs[j])) for j in np.flatnonzero(signs))


@pytest.mark.parametrize("name", [name for name in MICRO if name.startswith("bandit_perceptrons")])
def test_micro_trace(name: str) -> None:
    learner = with_kernel(name, Problem(3, 2), max_support=8)
    state = learner.init()
    for expected in MICRO[name]["rounds"]:
        x, label = np.array(expected["x"]), expected["yhat"]
        decisions = learner.decide(state, Contexts.dense(x))
        p = decisions.distributions[0]
        assert_close((scores_of(learner, state, x), p), (expected["scores"], expected["p"]), TOLERANCE)
        assert decisions.evidence[0, 0] == (not expected["S"])
        state = learner.fold(state, one_round(x, label, p[label], expected["y"], decisions.evidence))
        for k in range(3):
            assert support_of(state, k) == sorted((tuple(v), float(sign)) for v, sign in expected["J"][k])


@pytest.mark.parametrize("name", [name for name in LONG if name.startswith("bandit_perceptrons")])
def test_long_trace(name: str) -> None:
    learner, world, expected = with_kernel(name, PROBLEM), long_world(), LONG[name]
    T = expected["T"]
    steps = list(play(learner, World(world.contexts[:T], world.truth[:T], world.uniforms[:T])))
    state, last = steps[-1], matrix(steps[-1].round.contexts)[0]
    assert sum(not bool(step.round.correct[0]) for step in steps) == expected["mistakes"]
    assert [len(support_of(state.after, k)) for k in range(4)] == expected["support"]
    assert_close(scores_of(learner, state.after, last).sum(), expected["score_sum_last"], TOLERANCE)
    assert int(state.after.updates) == sum(expected["support"])


@pytest.mark.parametrize("known", [True, False])
def test_linear_kernel_matches_the_linear_learner(known: bool) -> None:
    kernel = BanditPerceptronsKernel(problem=PROBLEM, kernel="linear", use_known_label=known)
    choice: dict[str, Any] = RULES["full" if known else "paper"]
    linear: BanditPerceptrons = BanditPerceptrons(problem=PROBLEM, **choice)
    world = make_world(1, 400, PROBLEM)
    for one, two in zip(play(kernel, world), play(linear, world), strict=True):
        assert_close(one.distribution, two.distribution, 1e-12)
        assert_close(one.after.support @ one.after.coefficients, two.after.weights, 1e-9)
        assert int(one.after.updates) == int(two.after.updates)


def test_rational_kernel() -> None:
    """On the unit ball k = 1/(1 - ⟨x, x'⟩/2) is positive semidefinite with k(x, x) ≤ 2; larger products are clipped."""
    rng = np.random.default_rng(0)
    x = unit_rows(rng, 40, 3) * rng.uniform(0, 1, 40)[:, None]
    gram = np.array([[rational_kernel(float(a @ b)) for b in x] for a in x])
    assert_close(gram, 1 / (1 - x @ x.T / 2), 1e-12)
    assert np.linalg.eigvalsh(gram).min() >= -1e-12
    assert gram.diagonal().max() <= 2.0
    assert [rational_kernel(product) for product in (1.0, 2.0, 1e300, -1e300)] == [2.0, 2.0, 2.0, 2 / 3]


@pytest.mark.parametrize("order", [1, -1])
def test_repeated_context_reuses_its_support_vector(order: int) -> None:
    learner = BanditPerceptronsKernel(problem=Problem(3, 2), max_support=3, use_known_label=True)
    state = learner.init()
    met = [([1.0, 0.0], 0), ([0.0, 1.0], 1), ([1.0, 0.0], 2), ([1.0, 0.5], 0)]
    for x, truth in [*met[::order], met[0]]:
        for label in (truth, (truth + 1) % 3):
            rounds = one_round(x, label, 1.0, truth, np.zeros(1))
            state = learner.fold(state, rounds._replace(contexts=as_sparse(rounds.contexts)))
    assert int(state.used) == 3
    assert int(state.refused) == 0
    assert sorted(map(tuple, state.support.T.tolist())) == [(0.0, 1.0), (1.0, 0.0), (1.0, 0.5)]


def test_full_support_refuses_and_counts() -> None:
    learner = BanditPerceptronsKernel(problem=PROBLEM, max_support=6)
    steps = list(play(learner, make_world(2, 300, PROBLEM)))
    full = [step for step in steps if int(step.before.used) == 6]
    for step in full:
        refused = int(step.after.refused) - int(step.before.refused)
        assert bits(step.after[:3]) == bits(step.before[:3])
        assert int(step.after.updates) == int(step.before.updates)
        assert refused in (0, 1)
    state = full[-1].after
    assert int(state.refused) > 0
    again = one_round(state.support[:, 2].copy(), 1, 1.0, 1, np.ones(1))
    changed = [learner.fold(copied(state), again._replace(labels=np.array([k]))) for k in range(4)]
    assert any(int(after.updates) > int(state.updates) for after in changed)
    assert all(int(after.refused) == int(state.refused) for after in changed)


CASES: Sequence[tuple[float, bool, bool, bool, float]] = [
    # score of the label served, no label claimed, correct, known labels used, change of that label's weight
    (-1.0, True, True, False, 1.0),
    (1.0, True, True, False, 0.0),  # late feedback: no longer errs
    (1.0, False, False, False, -1.0),
    (-1.0, False, False, False, 0.0),  # late feedback: no longer errs
    (1.0, True, False, True, 0.0),  # a wrong guess without a claim causes no update
    (-1.0, False, True, False, 0.0),
    (-1.0, False, True, True, 1.0),
]


@pytest.mark.parametrize(("score", "unclaimed", "correct", "known", "change"), CASES)
def test_perceptron_is_corrected_only_if_it_errs_now(
    score: float, unclaimed: bool, correct: bool, known: bool, change: float
) -> None:
    learner: BanditPerceptrons = BanditPerceptrons(problem=Problem(3, 1), use_known_label=known)
    state = learner.init()._replace(weights=np.array([[-3.0, score, -3.0]]))
    after = learner.fold(state, one_round([1.0], 1, 1.0, 1 if correct else 0, np.array([float(unclaimed)])))
    assert_close(after.weights, [[-3.0, score + change, -3.0]], 1e-15)
    assert int(after.updates) == (change != 0.0)


def separable(seed: int, n: int, K: int) -> tuple[World, float]:
    """Draw unit contexts near (e_y, 1)/√2 in K + 1 dimensions; return them with γ.

    γ/2 is their strong margin for w_k ∝ (e_k, -1/2). Contexts with a small margin are dropped.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, K, n)
    x = np.column_stack([np.eye(K)[truth], np.ones(n)]) + 0.1 * rng.normal(size=(n, K + 1))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = np.column_stack([np.eye(K), np.full(K, -0.5)]) / np.sqrt(1.25 * K)
    margins = (x @ w.T) * np.where(np.eye(K)[truth] > 0, 1.0, -1.0)
    kept = margins.min(axis=1) > 0.3 * np.median(margins.min(axis=1))
    return World(x[kept], truth[kept], rng.random(kept.sum())), 2.0 * float(margins[kept].min())


def run_delayed(learner: Any, world: World, delay: int) -> tuple[int, int]:
    state, waiting, mistakes = learner.init(), [], 0
    for x, y, u in zip(world.contexts, world.truth, world.uniforms, strict=True):
        decisions = learner.decide(state, Contexts.dense(x))
        p = decisions.distributions[0]
        label = min(int(np.searchsorted(np.cumsum(p), u, side="right")), len(p) - 1)
        mistakes += int(label != y)
        waiting.append(one_round(x, label, p[label], int(y), decisions.evidence))
        if len(waiting) > delay:
            state = learner.fold(state, waiting.pop(0))
    return mistakes, int(state.updates)


@pytest.mark.parametrize("delay", [0, 4])
@pytest.mark.parametrize("known", [True, False])
def test_mistake_bound_holds(known: bool, delay: int) -> None:
    """Updates are at most ⌊4/γ²⌋ in every run, and mean mistakes at most (K - 1)(1 + delay) times that."""
    learner: BanditPerceptrons = BanditPerceptrons(problem=Problem(3, 4), use_known_label=known)
    ratios = []
    for seed in range(20):
        world, margin = separable(seed, 250, 3)
        most = int(4 / margin**2)
        mistakes, updates = run_delayed(learner, world, delay)
        assert 0 < updates <= most
        ratios.append(mistakes / (2 * (1 + delay) * most))
    assert np.mean(ratios) <= 1.0


def in_ball(seed: int, n: int, d: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return unit_rows(rng, n, d) * np.where(np.arange(n) < n // 2, 1.0, rng.random(n))[:, None]


def strips(seed: int, n: int) -> World:
    x = in_ball(seed, n, 2)
    truth = 3 * (x[:, 0] > 0.0) + np.searchsorted([-0.3, 0.3], x[:, 1])
    return World(x, truth, np.random.default_rng(seed).random(n))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_inner_product_is_the_kernel(d: int) -> None:
    """At degree 40 the inner product of two maps is the rational kernel up to 1e-12, also for x = x' of norm 1."""
    x = in_ball(d, 20, d)
    kernel = [[rational_kernel(float(a @ b)) for b in x] for a in x]
    phi = monomials(x, 40)
    assert_close(phi @ phi.T, kernel, 1e-12)


@pytest.mark.parametrize(("d", "degree"), [(1, 7), (2, 10), (4, 5), (7, 3), (30, 1)])
def test_a_lower_degree_is_a_partial_sum(d: int, degree: int) -> None:
    """Up to degree D the inner product is Σ 2⁻ⁿ⟨x, x'⟩ⁿ over n ≤ D, which is within 2^-D of the kernel."""
    x = in_ball(d, 12, d)
    phi, products = monomials(x, degree), x @ x.T
    assert_close(phi @ phi.T, sum((products / 2.0) ** n for n in range(degree + 1)), 1e-13)
    assert np.abs(phi @ phi.T - 1.0 / (1.0 - products / 2.0)).max() <= 2.0**-degree * (1.0 + 1e-9)


def test_longer_contexts_are_scaled_to_the_ball() -> None:
    x = in_ball(1, 6, 3)[:3]
    for scale in (1.5, 1e9, 1e150):
        assert_close(monomials(scale * x, 40), monomials(x, 40), 1e-12)
    assert np.isfinite(monomials(np.full((1, 3), 1e300), 40)).all()


@pytest.mark.parametrize("known", [True, False])
def test_the_mistakes_are_those_of_the_kernel(known: bool) -> None:
    world, problem = strips(3, 3000), Problem(6, 2)
    choice: dict[str, Any] = RULES["full" if known else "paper"]
    features = BanditPerceptronsFeatures(problem=problem, **choice)
    kernel = BanditPerceptronsKernel(problem=problem, max_support=3000, use_known_label=known)
    mistakes = 0
    for one, two in zip(play(features, world), play(kernel, world), strict=True):
        assert one.distribution.tolist() == two.distribution.tolist()
        assert bool(one.round.correct[0]) == bool(two.round.correct[0])
        assert int(one.after.updates) == int(two.after.updates)
        mistakes += not bool(one.round.correct[0])
    assert 300 < mistakes < 2000  # it learns, but slowly


def test_the_default_degree_is_exact_for_few_features() -> None:
    for d in (1, 2, 3):
        assert BanditPerceptronsFeatures(problem=Problem(3, d)).highest == 40
    for d in (4, 5, 10, 50, 198):
        learner = BanditPerceptronsFeatures(problem=Problem(3, d))
        assert learner.features <= 20_000 < math.comb(d + learner.highest + 1, d)
    assert BanditPerceptronsFeatures(problem=Problem(3, 50_000)).highest == 1


@pytest.mark.parametrize(("d", "degree"), [(5, 40), (100, 4), (10_000, 2)])
def test_a_degree_with_too_many_monomials_is_refused(d: int, degree: int) -> None:
    with pytest.raises(pydantic.ValidationError, match=r"use at most \d+") as caught:
        BanditPerceptronsFeatures(problem=Problem(3, d), degree=degree)
    (error,) = caught.value.errors()
    assert error["loc"] == ("degree",)
    most = int(error["msg"].rpartition(" ")[2])
    assert BanditPerceptronsFeatures(problem=Problem(3, d), degree=most).features <= 1_000_000
    with pytest.raises(pydantic.ValidationError):
        BanditPerceptronsFeatures(problem=Problem(3, d), degree=most + 1)


def test_full_support_gives_a_warning() -> None:
    """The warning appears with the last free place, and counts the rounds skipped since then."""
    learner = BanditPerceptronsKernel(problem=PROBLEM, max_support=6)
    for step in play(learner, make_world(2, 300, PROBLEM)):
        state = step.after
        skipped = f"max_support: 6 contexts are stored; {int(state.refused)} rounds were skipped since."
        assert learner.warnings(state) == ([skipped] if int(state.used) == 6 else [])
    assert int(state.refused) > 0
    many = state._replace(refused=np.array(1234))
    assert learner.warnings(many) == ["max_support: 6 contexts are stored; 1,234 rounds were skipped since."]
