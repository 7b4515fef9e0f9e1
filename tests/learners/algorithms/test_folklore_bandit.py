"""The bandit reduction against its paper: the trace, the coin, the expected update, and the theorem's bound."""

from typing import Any

import numpy as np
import pydantic
import pytest
from scipy.special import logsumexp

from learners.algorithms.improper.explored_rounds import explored, select
from learners.algorithms.improper.folklore import Folklore, regret_bound
from learners.algorithms.improper.folklore_bandit import FolkloreBandit
from learners.base import Contexts, FloatArray, Problem, Rounds
from learners.mathematics.exploration import draw
from tests.learners.arrays import as_sparse, assert_close, bits, copied, matrix, unpacked
from tests.learners.traces import MICRO
from tests.learners.worlds import expected_mistakes, join, make_world, one_round, pick, play, two_clusters

TRACE: dict[str, Any] = MICRO["bandit_reduction"]
PROBLEM = Problem(3, 2)
ALMOST_ONE = float(np.nextafter(1.0, 0.0))


def sums(state: Any) -> tuple[FloatArray, FloatArray]:
    """Return A and G of FOLKLORE."""
    A = np.asarray(np.linalg.inv(unpacked(state.inverse)), dtype=np.float64)
    return A, A @ state.solution


def test_micro_trace() -> None:
    """Logits, distributions and updates of every round match the trace, given its labels and coins."""
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


@pytest.mark.parametrize("gamma", [0.01, 0.3, 1.0])
def test_exploring_labels_are_uniform(gamma: float) -> None:
    """Over all uniforms, a round explores with label k with probability γ/K, for any distribution."""
    n, K = 100_000, 3
    for sigma in ([0.8, 0.15, 0.05], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]):
        p = (1 - gamma) * np.array(sigma) + gamma / K
        labels, propensities, residual_uniforms = draw(np.tile(p, (n, 1)), (np.arange(n) + 0.5) / n)
        evidence = np.full((n, 1), gamma)
        contexts = Contexts.dense(np.zeros((n, 1)))
        rounds = Rounds.of_bits(contexts, labels, propensities, labels == 0, labels, evidence, residual_uniforms)
        shares = np.bincount(labels[explored(rounds, K)], minlength=K) / n
        assert_close(shares, np.full(K, gamma / K), 3 / n)


def test_expected_update_is_unbiased() -> None:
    """In expectation over labels and coins, A and G move by γ/K times the full-information step."""
    gamma, world = 0.3, make_world(3, 40, PROBLEM)
    learner = FolkloreBandit(problem=PROBLEM, exploration=gamma, comparator_bound=2.0)
    full = Folklore(problem=PROBLEM, comparator_bound=2.0)
    *_, last = play(learner, world)
    state, x, y = last.after, world.contexts[0], int(world.truth[0])
    (p,), evidence = learner.decide(state, Contexts.dense(x))
    start = sums(state)
    moved = [np.zeros_like(part) for part in start]
    for label in range(3):
        heads = gamma / 3 / p[label]
        for residual_uniform, chance in ((heads * (1 - 1e-9), heads), (heads * (1 + 1e-9), 1 - heads)):
            rounds = one_round(x, label, p[label], y, evidence, residual_uniform)
            after = sums(learner.fold(copied(state), rounds))
            for i in range(2):
                moved[i] += p[label] * chance * (after[i] - start[i])
    base_state = full.init()._replace(inverse=state.inverse.copy(), solution=state.solution.copy())
    taught = sums(full.fold(base_state, one_round(x, y, 1.0, y, evidence[:, :3])))
    for total, new, old in zip(moved, taught, start, strict=True):
        assert_close(total, gamma / 3 * (new - old), 1e-9)


def test_only_correct_exploring_rounds_teach() -> None:
    """The state is FOLKLORE's after the correct exploring rounds, in order."""
    learner = FolkloreBandit(problem=PROBLEM, exploration=0.4, comparator_bound=3.0)
    steps = list(play(learner, make_world(4, 300, PROBLEM)))
    rounds, final = join(steps), steps[-1].after
    lucky = np.flatnonzero(rounds.correct & explored(rounds, 3))
    assert 20 < len(lucky) < 80
    base = pick(rounds, lucky)._replace(evidence=np.ascontiguousarray(rounds.evidence[lucky, :3]))
    state = learner.base_learner.fold(learner.base_learner.init(), base._replace(true_labels=base.labels))
    assert bits(final[:3]) == bits(state)
    assert int(final.rounds) == 300


def test_select_treats_sparse_rounds_like_dense_ones() -> None:
    """`select` keeps rows whole and in order, dense or sparse."""
    steps = play(FolkloreBandit(problem=Problem(3, 4)), make_world(5, 30, Problem(3, 4)))
    rounds, which = join(list(steps)), np.arange(30) % 3 == 1
    dense = select(rounds, which)
    sparse = select(rounds._replace(contexts=as_sparse(rounds.contexts)), which)
    assert (matrix(dense.contexts) == matrix(rounds.contexts)[which]).all()
    assert bits(sparse) == bits(dense._replace(contexts=as_sparse(dense.contexts)))


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


def test_bound_refused_by_the_base_is_refused() -> None:
    """A comparator bound that FOLKLORE refuses is refused here too."""
    with pytest.raises(pydantic.ValidationError, match="1e9"):
        FolkloreBandit(problem=Problem(2, 2, 1e6), comparator_bound=1e6)


# --- the theorem

T, RUNS = 6000, 6
SMALL = Problem(2, 2)


def test_theorem_4_1_bound_holds() -> None:
    """Theorem 4.1: E[M] is at most the loss of any W plus 2 √(K T R(T)) at the tuned γ; chance exceeds it."""
    regret, world = regret_bound(1.0, SMALL, T), two_clusters(1, T, noise=0.02)
    learner = FolkloreBandit(problem=SMALL, exploration=float(np.sqrt(2 * regret / T)), comparator_bound=1.0)
    uniforms = np.random.default_rng(2).random((RUNS, T))
    mistakes = np.array([expected_mistakes(learner, world._replace(uniforms=u)) for u in uniforms])
    z = np.outer(world.contexts[:, 0], [1.0, -1.0])
    allowed = (logsumexp(z, axis=1) - z[np.arange(T), world.truth]).sum() + 2 * np.sqrt(2 * T * regret)
    assert mistakes.mean() + 4 * mistakes.std(ddof=1) / np.sqrt(RUNS) <= allowed
    assert allowed < T / 2
