"""Low-rank SOBA against SOBA: equal until full, implicit steps after that; memory and rounding."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.second_order.soba import Soba
from learners.algorithms.second_order.soba_low_rank import SobaLowRank, SobaLowRankState
from learners.base import Contexts, FloatArray, Problem, Rounds
from learners.layouts import state_bytes
from tests.learners.arrays import accepted_rows, as_sparse, assert_close, bits, copied, matrix, soba_inverse
from tests.learners.worlds import join, make_world, one_round, pick, play, random_rounds

PROBLEM = Problem(4, 60)
N = PROBLEM.n_labels * PROBLEM.n_features


def thin_rounds(seed: int, n: int, learner: Any) -> Rounds:
    """Draw correct rounds with nine of ten features zero, as dense contexts."""
    rounds, rng = random_rounds(seed, n, learner, least_propensity=0.05), np.random.default_rng(seed)
    rows = matrix(rounds.contexts) * (rng.random((n, learner.problem.n_features)) < 0.1)
    return rounds._replace(
        contexts=Contexts.dense(rows), correct=np.ones(n, np.bool_), rewards=np.ones(n), true_labels=rounds.labels
    )


def generous(learner: Any) -> Any:
    """Return a first state whose margin sum accepts every correct round."""
    state = learner.init()
    state.margin_sum[()] = 1e9
    return state


def trained(learner: Any, n: int = 30) -> Any:
    """Return the state after n accepted rounds."""
    return learner.fold(generous(learner), thin_rounds(2, n, learner))


def step_of(state: SobaLowRankState, rounds: Rounds) -> tuple[FloatArray, FloatArray, float]:
    """Return w (n,), u (n,) and c of a single round."""
    x, y = matrix(rounds.contexts)[0], int(rounds.labels[0])
    own = np.eye(state.weights.shape[1])[y]
    rival = np.eye(len(own))[np.argmax(np.where(own, -np.inf, x @ state.weights))]
    return state.weights.T.ravel(), np.kron(rival - own, x), 1.0 / float(rounds.propensities[0])


# --- below capacity


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("exploration", [0.1, 0.3])
def test_low_rank_matches_soba_until_full(sparse: bool, exploration: float) -> None:
    """Each round gives the same distributions, accepted rounds, weights, sums and A⁻¹; some rounds are refused."""
    full = Soba(problem=PROBLEM, regularization=0.7, exploration=exploration)
    low = SobaLowRank(problem=PROBLEM, regularization=0.7, exploration=exploration, max_updates=400)
    world = make_world(3, 1000, PROBLEM)
    world.contexts[np.random.default_rng(1).random(world.contexts.shape) < 0.8] = 0.0
    twin, refused = low.init(), 0
    for step in play(full, world):
        contexts = as_sparse(step.round.contexts) if sparse else step.round.contexts
        assert_close(low.decide(twin, contexts).distributions[0], step.distribution, 1e-9)
        twin = low.fold(twin, step.round._replace(contexts=contexts))
        assert (int(twin.updates), int(twin.stored)) == (int(step.after.updates),) * 2
        assert_close(twin.weights, step.after.weights, 1e-9)
        assert_close((twin.margin_sum, twin.quadratic_sum), (step.after.margin_sum, step.after.quadratic_sum), 1e-9)
        refused += int(step.round.correct[0] and step.after.updates == step.before.updates)
    assert_close(soba_inverse(twin, 0.7), soba_inverse(step.after, 0.7), 1e-9)
    assert int(twin.stored) >= 50
    assert refused >= 5


def test_factor_matches_the_stored_rows() -> None:
    """LL' = aI + ZZ', and the stored entries contain no zeros."""
    learner = SobaLowRank(problem=PROBLEM, regularization=0.7)
    state = trained(learner)
    Z = accepted_rows(state)
    L = np.linalg.cholesky(0.7 * np.eye(len(Z)) + Z @ Z.T)
    assert_close(state.factor[: len(Z) * (len(Z) + 1) // 2], L[np.tril_indices(len(Z))], 1e-12)
    assert (state.values[: state.ends[len(Z) - 1]] != 0.0).all()


@pytest.mark.parametrize(("above", "accepted"), [(1e-9, True), (-1e-9, False)])
def test_margin_test_is_exact(above: float, accepted: bool) -> None:
    """The exact m decides, even where a bound on m that needs no matrix would accept."""
    learner = SobaLowRank(problem=Problem(2, 1), exploration=0.1)
    first, again = one_round([1.0], 1, 0.5, 1, np.empty(0)), one_round([1.0], 1, 0.25, 1, np.empty(0))
    state = learner.fold(learner.init(), first)
    w, u, c = step_of(state, again)
    delta, q = float(w @ u), c * float(u @ soba_inverse(state, 1.0) @ u)
    gain, bound = ((c * delta**2 + 2.0 * c * delta) / (1.0 + each) for each in (q, c * float(u @ u)))
    assert gain < bound < 0.0
    state.margin_sum[()] = above - gain
    after = learner.fold(copied(state), again)
    assert int(after.updates) == 1 + accepted
    assert accepted or bits(after._replace(rounds=state.rounds)) == bits(state)


def test_sparse_batch_equals_single_folds() -> None:
    """Folding several sparse rounds together gives the bits of folding them one by one."""
    learner = SobaLowRank(problem=PROBLEM)
    rounds = thin_rounds(8, 12, learner)
    together = learner.fold(generous(learner), rounds._replace(contexts=as_sparse(rounds.contexts)))
    state = generous(learner)
    for t in range(rounds.n):
        one = pick(rounds, [t])
        state = learner.fold(state, one._replace(contexts=as_sparse(one.contexts)))
    assert bits(together) == bits(state)


# --- at capacity


@pytest.mark.parametrize("limit", [{"max_updates": 30}, {"max_nonzeros": 150}])
def test_full_low_rank_takes_implicit_steps(limit: dict[str, int]) -> None:
    """At capacity A, Q and the rows keep their bits, and W moves to argmin ½‖w - W‖²_A + c/2 (1 + u'w)²."""
    learner = SobaLowRank(problem=PROBLEM, regularization=0.7, **limit)
    state, later = trained(learner, 60), thin_rounds(5, 20, learner)
    stored = int(state.stored)
    assert 0 < stored < int(state.updates)
    assert stored == limit.get("max_updates", stored)
    A = 0.7 * np.eye(N) + accepted_rows(state).T @ accepted_rows(state)
    for t in range(later.n):
        rounds = pick(later, [t])
        w, u, c = step_of(state, rounds)
        after = learner.fold(copied(state), rounds)
        if int(after.stored) > stored:  # a context that fits the remaining capacity
            assert "max_nonzeros" in limit
            continue
        assert_close(after.weights.T.ravel(), np.linalg.solve(A + c * np.outer(u, u), A @ w - c * u), 1e-9)
        assert int(after.updates) == int(state.updates) + 1
        assert bits(after[1:6]) == bits(state[1:6])
        assert float(after.quadratic_sum) == float(state.quadratic_sum)


def test_capacity_counts_nonzeros() -> None:
    """Capacity counts non-zeros: zeros of a dense context take none."""
    learner = SobaLowRank(problem=Problem(2, 4), max_nonzeros=5)
    state = learner.init()
    for x, stored in (([0.5] * 4, 1), ([0.5, 0.5, 0, 0], 1), ([0, 0, 0.5, 0], 2), ([0, 0, 0, 0.5], 2)):
        state.margin_sum[()] = 1e9
        state = learner.fold(state, one_round(x, 1, 0.5, 1, np.empty(0)))
        assert int(state.stored) == stored
    assert int(state.updates) == 4
    assert state.ends.tolist()[:3] == [4, 5, 0]


@pytest.mark.parametrize("limit", [{"max_updates": 30}, {"max_nonzeros": 150}])
def test_full_low_rank_gives_a_warning(limit: dict[str, int]) -> None:
    """The first accepted round that finds no room gives a warning, which names the limit and counts such rounds."""
    learner = SobaLowRank(problem=PROBLEM, **limit)
    state, rounds = generous(learner), thin_rounds(2, 60, learner)
    for t in range(rounds.n):
        state = learner.fold(state, pick(rounds, [t]))
        stored, lost = int(state.stored), int(state.updates - state.stored)
        sentence = f"{next(iter(limit))}: {stored} updates are stored; {lost} accepted rounds found no room."
        assert learner.warnings(state) == ([sentence] if lost else [])
    assert lost > 0


def test_full_low_rank_keeps_learning() -> None:
    """Full after twenty updates, it still tracks a world whose labels are permuted, better than if it stopped."""
    problem = Problem(3, 4)
    learner = SobaLowRank(problem=problem, exploration=0.1, max_updates=20, max_nonzeros=80)
    world = make_world(4, 3000, problem, noise=0.02)
    world.truth[1000:] = (world.truth[1000:] + 1) % 3
    steps = list(play(learner, world))
    right = np.array([step.distribution[y] for step, y in zip(steps, world.truth, strict=True)])
    assert int(steps[1000].before.stored) == 20
    assert right[-500:].mean() > 0.6
    stopped = learner.decide(steps[1000].before, Contexts.dense(world.contexts[-500:])).distributions
    assert stopped[np.arange(500), world.truth[-500:]].mean() < 0.3


# --- memory and rounding


def test_memory_is_linear_in_the_features() -> None:
    """Another feature costs K numbers; with 2¹⁸ features and four labels the default state takes 16 MB."""
    small, large = (state_bytes(SobaLowRank(problem=Problem(4, d))) for d in (1000, 2**18))
    assert large - small == (2**18 - 1000) * 4 * 8
    assert large < 16_000_000


def test_state_with_an_empty_factor_learns_nothing() -> None:
    """If a state claims stored rows but its factor is zero, every round is counted and otherwise ignored."""
    learner = SobaLowRank(problem=PROBLEM, max_updates=5)
    state = learner.init()
    state.stored[()] = 2**62
    after = learner.fold(copied(state), thin_rounds(1, 10, learner))
    assert bits(after._replace(rounds=state.rounds)) == bits(state)
    assert int(after.rounds) == 10


@pytest.mark.parametrize("a", [1.0, 1e-4])
def test_rounding_does_not_accumulate(a: float) -> None:
    """After 2,000 updates, more than K·d, with weights 1/p up to 20, A A⁻¹ is I and W is A⁻¹θ."""
    learner = SobaLowRank(problem=PROBLEM, regularization=a, max_updates=2000)
    state = trained(learner, 2000)
    Z = accepted_rows(state)
    assert len(Z) == 2000
    roots = np.sqrt(1.0 / thin_rounds(2, 2000, learner).propensities)
    A, theta = a * np.eye(N) + Z.T @ Z, -Z.T @ roots
    assert_close(A @ soba_inverse(state, a), np.eye(N), 1e-9)
    assert_close(state.weights.T.ravel(), np.linalg.solve(A, theta), 1e-9)


def test_played_sparse_batch_equals_single_folds() -> None:
    """A batch of sparse rounds from a run gives the same bits in one fold and one by one."""
    learner = SobaLowRank(problem=PROBLEM, exploration=0.3, max_updates=20)
    rounds = join(list(play(learner, make_world(6, 200, PROBLEM))))
    whole = learner.fold(learner.init(), rounds._replace(contexts=as_sparse(rounds.contexts)))
    parts = learner.init()
    for t in range(200):
        part = pick(rounds, [t])
        parts = learner.fold(parts, part._replace(contexts=as_sparse(part.contexts)))
    assert bits(parts) == bits(whole)
