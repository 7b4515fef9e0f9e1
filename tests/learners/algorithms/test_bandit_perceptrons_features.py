"""Bandit perceptrons over the rational kernel's feature map: the map, its size, and the kernel learner's mistakes."""

import math

import numpy as np
import pydantic
import pytest

from learners.algorithms.first_order.bandit_perceptrons_features import BanditPerceptronsFeatures
from learners.algorithms.first_order.bandit_perceptrons_kernel import BanditPerceptronsKernel, rational_kernel
from learners.base import FloatArray, Problem
from tests.learners.arrays import assert_close, monomials, unit_rows
from tests.learners.worlds import World, play


def in_ball(seed: int, n: int, d: int) -> FloatArray:
    """Draw points in the unit ball; the first half has norm 1."""
    rng = np.random.default_rng(seed)
    return unit_rows(rng, n, d) * np.where(np.arange(n) < n // 2, 1.0, rng.random(n))[:, None]


def strips(seed: int, n: int) -> World:
    """Draw points in the unit disc, with a label for each of three strips of each half: not linearly separable."""
    x = in_ball(seed, n, 2)
    truth = 3 * (x[:, 0] > 0.0) + np.searchsorted([-0.3, 0.3], x[:, 1])
    return World(x, truth, np.random.default_rng(seed).random(n))


# --- the map


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
    """A context outside the unit ball has the map of its direction, even where its powers would overflow."""
    x = in_ball(1, 6, 3)[:3]
    for scale in (1.5, 1e9, 1e150):
        assert_close(monomials(scale * x, 40), monomials(x, 40), 1e-12)
    assert np.isfinite(monomials(np.full((1, 3), 1e300), 40)).all()


# --- the learner


@pytest.mark.parametrize("known", [True, False])
def test_the_mistakes_are_those_of_the_kernel(known: bool) -> None:
    """In every round of 3,000, the distribution and the updates equal the kernel's with unlimited support."""
    world, problem = strips(3, 3000), Problem(6, 2)
    features = BanditPerceptronsFeatures(problem=problem, use_known_label=known)
    kernel = BanditPerceptronsKernel(problem=problem, max_support=3000, use_known_label=known)
    mistakes = 0
    for one, two in zip(play(features, world), play(kernel, world), strict=True):
        assert one.distribution.tolist() == two.distribution.tolist()
        assert bool(one.round.correct[0]) == bool(two.round.correct[0])
        assert int(one.after.updates) == int(two.after.updates)
        mistakes += not bool(one.round.correct[0])
    assert 300 < mistakes < 2000  # it learns, but slowly


def test_the_default_degree_is_exact_for_few_features() -> None:
    """The default degree is 40 up to three features, and beyond the largest with at most 20,000 monomials."""
    for d in (1, 2, 3):
        assert BanditPerceptronsFeatures(problem=Problem(3, d)).highest == 40
    for d in (4, 5, 10, 50, 198):
        learner = BanditPerceptronsFeatures(problem=Problem(3, d))
        assert learner.features <= 20_000 < math.comb(d + learner.highest + 1, d)
    assert BanditPerceptronsFeatures(problem=Problem(3, 50_000)).highest == 1


@pytest.mark.parametrize(("d", "degree"), [(5, 40), (100, 4), (10_000, 2)])
def test_a_degree_with_too_many_monomials_is_refused(d: int, degree: int) -> None:
    """The error names `degree` and the largest one that is accepted; the next one is refused."""
    with pytest.raises(pydantic.ValidationError, match=r"use at most \d+") as caught:
        BanditPerceptronsFeatures(problem=Problem(3, d), degree=degree)
    (error,) = caught.value.errors()
    assert error["loc"] == ("degree",)
    most = int(error["msg"].rpartition(" ")[2])
    assert BanditPerceptronsFeatures(problem=Problem(3, d), degree=most).features <= 1_000_000
    with pytest.raises(pydantic.ValidationError):
        BanditPerceptronsFeatures(problem=Problem(3, d), degree=most + 1)


def test_too_many_features_are_refused_at_any_degree() -> None:
    """With a million features even degree 1 has too many monomials, and the error advises fewer features."""
    with pytest.raises(pydantic.ValidationError, match="use fewer features"):
        BanditPerceptronsFeatures(problem=Problem(3, 1_000_000))


def test_other_norm_bounds_are_refused() -> None:
    """The map belongs to a kernel on the unit ball, so contexts must be scaled to it."""
    for bound in (0.5, 1.1):
        with pytest.raises(pydantic.ValidationError, match="unit ball"):
            BanditPerceptronsFeatures(problem=Problem(4, 5, bound))


def test_the_weights_are_sums_of_maps() -> None:
    """After each round, the weights are the maps of the contexts met, times their corrections."""
    learner = BanditPerceptronsFeatures(problem=Problem(6, 2), degree=5)
    for step in play(learner, strips(1, 200)):
        change = step.after.weights - step.before.weights
        phi = monomials(step.round.contexts.values.reshape(1, 2), 5)[0]
        assert_close(change, np.outer(phi, np.round(change[0])), 1e-9)  # the first monomial is 1
