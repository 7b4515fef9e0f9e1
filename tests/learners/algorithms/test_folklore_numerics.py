"""FOLKLORE's numerical accuracy: the fixed point, the factor of the covariance, long runs."""

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from learners.algorithms.improper.folklore import Folklore, learn, predict
from learners.base import Contexts, Problem
from learners.evaluation.folklore_to_batch import online_to_batch
from learners.mathematics.regularized_softmax import covariance_factor, solve_fixed_point
from tests.learners.algorithms.folklore_reference import Reference
from tests.learners.arrays import assert_close, pack, unpacked
from tests.learners.worlds import LAWS, make_world, one_round


@pytest.mark.parametrize("K", [2, 3, 9])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e3, 1e6, 1e9])
def test_fixed_point_is_found(K: int, scale: float) -> None:
    """Z = g - A softmax(z) holds to rounding, for matrices and offsets of any size, full rank or not."""
    rng = np.random.default_rng(K)
    for rank in (1, K):
        for reach in (0.1, 1.0, 10.0):
            half, g, z = rng.normal(size=(K, rank)), reach * scale * rng.normal(size=K), np.empty(K)
            A = scale * half @ half.T
            solve_fixed_point(A, g, z)
            assert np.abs(z - g + A @ softmax(z)).max() <= 1e-13 * (1 + scale) * (1 + np.abs(z).max())


@LAWS
@given(st.lists(st.sampled_from([0.0, 1e-310, 1e-200, 1e-17, 0.3, 1.0]), min_size=2, max_size=6).filter(any))
def test_covariance_factor_reproduces_the_covariance(weights: list[float]) -> None:
    """LL' = diag(σ) - σσ', also with probabilities at or near zero."""
    p = np.array(weights) / max(np.sum(weights), 1e-300)
    p /= max(p.sum(), 1e-300)
    L = np.full((len(p), len(p) - 1), np.nan)
    covariance_factor(p, L)
    if abs(p.sum() - 1) <= 1e-12:
        assert_close(L @ L.T, np.diag(p) - np.outer(p, p), 1e-15)


def test_state_is_accurate_after_5000_rounds() -> None:
    """After 5,000 rounds A⁻¹ is still the inverse of A, and h solves A h = G."""
    problem = Problem(3, 2)
    learner, world = Folklore(problem=problem, comparator_bound=50.0), make_world(6, 5_000, problem)
    contexts = Contexts.dense(world.contexts)
    final = online_to_batch(learner, contexts, world.truth, 5_000)
    reference, state = Reference(problem, 50.0), learner.init()
    for x, y in zip(world.contexts[:-1], world.truth[:-1], strict=True):
        z = learner.decide(state, Contexts.dense(x)).evidence
        state = learner.fold(state, one_round(x, int(y), 1.0, int(y), z))
        reference.learn(x, int(y), z[0])
    assert_close(unpacked(state.inverse) @ reference.A, np.eye(6), 1e-9)
    assert_close(state.solution, np.linalg.solve(reference.A, reference.G), 1e-9)
    assert_close(tuple(final), tuple(state), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("K", "d", "bound"), [(3, 2, 10.0), (3, 2, 1000.0), (2, 8, 10.0)])
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_state_is_accurate_after_100000_rounds(K: int, d: int, bound: float, noise: float) -> None:
    """After 100,000 rounds A⁻¹, h and the logits match explicit sums A and G, to 1e-9."""
    problem, n = Problem(K, d), K * d
    learner, world = Folklore(problem=problem, comparator_bound=bound), make_world(6, 100_000, problem, noise)
    state, gamma, z = learner.init(), learner.surrogate_constant, np.empty(K)
    A, G = 2 / bound * np.eye(n), np.zeros(n)
    for x, y in zip(world.contexts, world.truth, strict=True):
        predict(state.inverse, state.solution, x, z)
        learn(state.inverse, state.solution, gamma, x, z, y)
        p = softmax(z)
        S = np.diag(p) - np.outer(p, p)
        A += gamma * np.kron(S, np.outer(x, x))
        G += np.kron(p - np.eye(K)[y] - 2 * gamma * S @ z, x)
    inverse, solution = (np.asarray(a, dtype=np.float64) for a in (np.linalg.inv(A), np.linalg.solve(A, G)))
    assert_close(unpacked(state.inverse) @ A, np.eye(n), 1e-9)
    assert_close(state.solution, solution, 1e-9)
    blocks = unpacked(state.inverse).reshape(K, d, K, d).sum(axis=2)
    assert_close(blocks, np.broadcast_to(bound / 2 * np.eye(d), (K, d, d)), 1e-9)
    exact = state._replace(inverse=pack(inverse), solution=solution)
    contexts = Contexts.dense(world.contexts[:200])
    assert_close(learner.decide(state, contexts).evidence, learner.decide(exact, contexts).evidence, 1e-9)


@pytest.mark.parametrize(("bound", "norm"), [(1e6, 1e6), (1e5, 2e4)])
def test_large_comparator_bound_is_refused(bound: float, norm: float) -> None:
    """B·X above 1e9 is refused: the logits would lose precision."""
    with pytest.raises(pydantic.ValidationError, match="1e9"):
        Folklore(problem=Problem(2, 2, norm), comparator_bound=bound)
