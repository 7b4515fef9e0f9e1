"""SOBA against its paper: the matrix, the margin test, Lemmas 1, 2 and 4, long runs."""

from typing import NamedTuple

import numpy as np
import pydantic
import pytest

from learners.algorithms.second_order.soba import Soba, SobaState
from learners.algorithms.second_order.soba_diagonal import SobaDiagonal
from learners.algorithms.second_order.soba_low_rank import SobaLowRank, SobaLowRankState
from learners.base import Problem, StateTooLargeError
from learners.new_models import check_state_size
from tests.learners.arrays import assert_close, copied, matrix, soba_inverse, unpacked
from tests.learners.formulas import Accepted, soba
from tests.learners.worlds import Step, join, make_world, one_round, pick, play, random_rounds

PROBLEM, A0 = Problem(3, 4), 0.7
N = PROBLEM.n_labels * PROBLEM.n_features


class Run(NamedTuple):
    """SOBA's correct rounds, with the paper's Algorithm 1 on the same rounds."""

    learner: Soba | SobaLowRank
    steps: list[Step]
    paper: list[Accepted]


@pytest.fixture(scope="module", params=[(cls, rate) for cls in (Soba, SobaLowRank) for rate in (0.1, 0.6, "adaptive")])
def run(request: pytest.FixtureRequest) -> Run:
    """Run 400 rounds, at low, high and adaptive exploration."""
    learner_type, exploration = request.param
    room = {"max_updates": 300, "max_nonzeros": 1200} if learner_type is SobaLowRank else {}
    learner = learner_type(problem=PROBLEM, regularization=A0, exploration=exploration, **room)
    steps = [step for step in play(learner, make_world(4, 400, PROBLEM)) if step.round.correct[0]]
    rounds = join(steps)
    return Run(learner, steps, list(soba(matrix(rounds.contexts), rounds.labels, rounds.propensities, 3, A0)))


def accepted(steps: list[Step]) -> list[bool]:
    """Return whether each step was an update."""
    return [int(step.after.updates) > int(step.before.updates) for step in steps]


def log_determinant(state: SobaState | SobaLowRankState) -> float:
    """Return ln det A, computed from the inverse."""
    return -float(np.linalg.slogdet(soba_inverse(state, A0))[1])


def test_runs_cover_every_case(run: Run) -> None:
    """The runs contain refused rounds, and accepted ones with the leader wrong and correct."""
    assert {(p.accepted, p.leader_wrong) for p in run.paper} >= {(True, True), (True, False), (False, False)}


def test_state_matches_algorithm_1(run: Run) -> None:
    """A⁻¹, W, Σ, Q and the updates match the paper's A and θ with a linear solve in every round."""
    assert accepted(run.steps) == [p.accepted for p in run.paper]
    margin_sum = np.cumsum([p.m * p.accepted for p in run.paper])
    quadratic_sum = np.cumsum([p.q / (1 + p.q) * p.accepted for p in run.paper])
    for step, p, total, quadratic in zip(run.steps, run.paper, margin_sum, quadratic_sum, strict=True):
        assert_close(soba_inverse(step.after, A0), np.linalg.inv(p.A), 1e-9)
        assert_close(step.after.weights, np.linalg.solve(p.A, p.theta).reshape(3, 4).T, 1e-9)
        assert_close((step.after.margin_sum, step.after.quadratic_sum), (total, quadratic), 1e-9)


def test_inverse_is_positive_and_only_shrinks(run: Run) -> None:
    """0 < A⁻¹ ≤ I/a, and A⁻¹ only shrinks, because A only grows."""
    for step in run.steps:
        eigenvalues = np.linalg.eigvalsh(soba_inverse(step.after, A0))
        assert eigenvalues.min() > 0
        assert eigenvalues.max() <= (1 + 1e-12) / A0
        assert np.linalg.eigvalsh(soba_inverse(step.before, A0) - soba_inverse(step.after, A0)).min() >= -1e-12


def test_common_directions_are_never_learned(run: Run) -> None:
    """Weights sum to zero over the labels, and block sums of A⁻¹ stay I/a, because u has no common component."""
    for step in run.steps:
        assert_close(step.after.weights.sum(axis=1), np.zeros(4), 1e-12)
        blocks = soba_inverse(step.after, A0).reshape(3, 4, 3, 4)
        assert_close(blocks.sum(axis=2), np.broadcast_to(np.eye(4) / A0, (3, 4, 4)), 1e-9)


def test_margin_sum_is_never_negative(run: Run) -> None:
    """Σ ≥ 0 after every round."""
    assert min(float(step.after.margin_sum) for step in run.steps) >= 0.0


def test_correct_answer_against_the_leader_is_accepted(run: Run) -> None:
    """If the leader is wrong and the answer correct, m ≥ 0 and the round is an update."""
    for p, was_accepted in zip(run.paper, accepted(run.steps), strict=True):
        assert was_accepted or not p.leader_wrong


def test_first_correct_round_is_accepted() -> None:
    """With Σ = 0 and all scores zero, m = 0, which passes the test Σ + m ≥ 0."""
    learner: Soba = Soba(problem=PROBLEM)
    state = learner.fold(learner.init(), one_round([1.0, 0.0, 0.0, 0.0], 2, 0.5, 2, np.empty(0)))
    assert (int(state.updates), float(state.margin_sum)) == (1, 0.0)


def test_lemma_1(run: Run) -> None:
    """In expectation over the label drawn, θ moves by -h u and A by h uu', where h is 1 if y is accepted, else 0."""
    for step, p in zip(run.steps[::9], run.paper[::9], strict=True):
        x, y = matrix(step.round.contexts)[0], int(step.round.labels[0])
        move, growth = np.zeros(N), np.zeros((N, N))
        A = np.linalg.inv(soba_inverse(step.before, A0))
        for label, probability in enumerate(step.distribution):
            state = run.learner.fold(copied(step.before), one_round(x, label, probability, y, np.empty(0)))
            after = np.linalg.inv(soba_inverse(state, A0))
            move += probability * (after @ state.weights.T.ravel() - A @ step.before.weights.T.ravel())
            growth += probability * (after - A)
        assert_close(move, -float(p.accepted) * p.u, 1e-8)
        assert_close(growth, float(p.accepted) * np.outer(p.u, p.u), 1e-8)


def test_lemma_2(run: Run) -> None:
    """Σ n (2⟨U, -g⟩ - ⟨U, z⟩²) ≤ a‖U‖² + Σ n g'A_t⁻¹g for any U."""
    updates = [(s, p) for s, p in zip(run.steps, run.paper, strict=True) if p.accepted]
    right = sum(p.c**2 * p.u @ soba_inverse(s.after, A0) @ p.u for s, p in updates)
    rng = np.random.default_rng(0)
    best = np.linalg.solve(updates[-1][1].A, updates[-1][1].theta)
    for U in [best, *(scale * rng.normal(size=N) for scale in (0.01, 0.1, 1.0) for _ in range(30))]:
        left = sum(-2 * p.c * U @ p.u - p.c * (U @ p.u) ** 2 for _, p in updates)
        assert left <= A0 * U @ U + right + 1e-9


def test_quadratic_sum_is_at_most_the_growth_of_the_determinant(run: Run) -> None:
    """Σ n q/(1+q) ≤ ln det A_T - K d ln a ≤ K d ln(1 + 2 X² Σ n c / (a K d))."""
    last = run.steps[-1].after
    growth = log_determinant(last) - N * np.log(A0)
    assert 0 < float(last.quadratic_sum) <= growth
    assert growth <= N * np.log(1 + 2 * sum(p.c for p in run.paper if p.accepted) / (A0 * N))


def test_lemma_4_holds_for_adaptive_rates() -> None:
    """Σ (γ_t + α c_t/γ_t) ≤ (2 + 2α) √T √(K + Σ c) + α Σ c, with c_t = K z'A_t⁻¹z and the γ_t of the run."""
    learner: Soba = Soba(problem=PROBLEM, exploration="adaptive")
    steps = list(play(learner, make_world(5, 400, PROBLEM)))
    gamma = np.array([3 * step.distribution.min() for step in steps])
    c = 3 * np.diff([0.0, *(float(step.after.quadratic_sum) for step in steps)])
    for alpha in (0.1, 1.0, 10.0):
        bound = (2 + 2 * alpha) * np.sqrt(400 * (3 + c.sum())) + alpha * c.sum()
        assert np.sum(gamma + alpha * c / gamma) <= bound


def test_inverse_does_not_drift() -> None:
    """After 10⁴ rank-one downdates A·A⁻¹ is still I, and W is still A⁻¹θ."""
    learner: Soba = Soba(problem=PROBLEM)
    rounds = random_rounds(2, 25_000, learner, least_propensity=0.02)
    rounds = pick(rounds, np.flatnonzero(rounds.correct))
    state, A, theta, xs = learner.init(), np.eye(N), np.zeros(N), matrix(rounds.contexts)
    for t, (x, y, p) in enumerate(zip(xs, rounds.labels, rounds.propensities, strict=True)):
        s, before = x @ state.weights, int(state.updates)
        rival = int(np.argmax(np.where(np.arange(3) == y, -np.inf, s)))
        state = learner.fold(state, pick(rounds, [t]))
        if int(state.updates) > before:
            u = np.kron(np.eye(3)[rival] - np.eye(3)[y], x)
            A += np.outer(u, u) / p
            theta -= u / p
    assert int(state.updates) >= 10_000
    assert_close(A @ unpacked(state.inverse), np.eye(N), 1e-9)
    assert_close(state.weights.T.ravel(), np.linalg.solve(A, theta), 1e-9)


def test_quadratic_sum_grows_at_the_least_regularization() -> None:
    """q/(1+q) is in [0, 1) at the smallest accepted a; a smaller a would cost A⁻¹ its precision."""
    with pytest.raises(pydantic.ValidationError, match="regularization"):
        Soba(problem=Problem(4, 5, 1e4), regularization=0.099)
    learner: Soba = Soba(problem=Problem(4, 5, 1e4), regularization=0.1, exploration="adaptive")
    steps = play(learner, make_world(1, 2000, learner.problem))
    growth = np.diff([float(step.after.quadratic_sum) for step in steps])
    assert growth.min() >= 0.0
    assert growth.max() <= 1.0


def test_oversized_matrix_is_refused_with_its_size_and_an_alternative() -> None:
    """Nine labels and 400 features fit into 110 MB with A and A⁻¹; the state for Reuters is refused with its size."""
    check_state_size(Soba(problem=Problem(9, 400)), 110_000_000)
    n = 4 * 47_236
    needed = 8 * (n * (n + 1) + 2 * n + 2) + 24
    with pytest.raises(StateTooLargeError, match=f"{needed:,} bytes.*use soba-low-rank instead"):
        check_state_size(Soba(problem=Problem(4, 47_236)), 10**9)
    check_state_size(SobaLowRank(problem=Problem(4, 47_236)), 10**9)
    check_state_size(SobaDiagonal(problem=Problem(4, 47_236)), 10**9)
