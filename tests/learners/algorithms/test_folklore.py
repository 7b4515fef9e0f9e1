"""FOLKLORE against its paper: the leader's equation, identities, printed errors."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import optimize
from scipy.special import softmax

from learners.algorithms.improper.folklore import Folklore, surrogate_constant
from learners.base import Contexts, FloatArray, Problem
from learners.mathematics.regularized_softmax import solve_fixed_point
from tests.learners.algorithms.folklore_reference import Reference, log_losses, logits_of
from tests.learners.arrays import assert_close, copied, unpacked
from tests.learners.traces import LONG, MICRO
from tests.learners.worlds import Step, World, join, make_world, pick, play

PROBLEM = Problem(3, 2)


def play_trace(learner: Folklore, trace: dict[str, Any]) -> list[Step]:
    """Run the learner on the contexts and labels of a micro trace."""
    x, y = np.array([r["x"] for r in trace["rounds"]]), np.array([r["y"] for r in trace["rounds"]])
    return list(play(learner, World(x, y, np.zeros(len(y)))))


def test_micro_trace() -> None:
    """Logits, distribution, loss, A and G of every round match `folklore_fixed`."""
    trace = MICRO["folklore_fixed"]
    learner = Folklore(problem=PROBLEM, comparator_bound=trace["B"])
    assert_close(learner.surrogate_constant, trace["gamma_surrogate"], 1e-12)
    for step, expected in zip(play_trace(learner, trace), trace["rounds"], strict=True):
        z, A = step.round.evidence[0], np.linalg.inv(unpacked(step.after.inverse))
        assert_close(z, expected["z"], 1e-9)
        assert_close(step.distribution, expected["sigma"], 1e-9)
        assert_close(log_losses(z[None], np.array([expected["y"]]))[0], expected["loss"], 1e-9)
        assert_close(A, expected["A"], 1e-9)
        assert_close(A @ step.after.solution, expected["G"], 1e-9)


def test_paper_as_printed_gives_other_logits() -> None:
    """The printed sum G and the printed constant, alone or together, give other logits."""
    fixed, printed = MICRO["folklore_fixed"], MICRO["folklore_paper_box_literal"]
    literal = Reference(PROBLEM, printed["B"], printed["gamma_surrogate"], printed_sum=True)
    steps = play_trace(Folklore(problem=PROBLEM, comparator_bound=printed["B"]), printed)
    z = logits_of(steps)
    for row in printed["rounds"]:
        x = np.array(row["x"])
        assert_close(literal.logits(x), row["z"], 1e-9)
        literal.learn(x, row["y"], np.array(row["z"]))
    assert np.abs(z - [row["z"] for row in printed["rounds"]]).max() > 1e-2
    for gamma, printed_sum in ((printed["gamma_surrogate"], False), (None, True)):  # either error alone
        wrong = Reference(PROBLEM, fixed["B"], gamma, printed_sum=printed_sum)
        worst = 0.0
        for row in fixed["rounds"]:
            other = wrong.logits(np.array(row["x"]))
            wrong.learn(np.array(row["x"]), row["y"], other)
            worst = max(worst, float(np.abs(other - row["z"]).max()))
        assert worst > 1e-3


def test_long_trace() -> None:
    """Regret, bound, last logits, log det A and ‖G‖ after 100 rounds match the long trace."""
    expected = LONG["folklore"]
    T, (k, j), (t, i) = expected["T"], np.mgrid[0:4, 0:5], np.mgrid[0 : expected["T"], 0:5]
    x, U = np.cos(0.7 * (t + 1) * (i + 1) + 0.3 * i) / np.sqrt(5), np.cos(1.1 * (k + 1) * (j + 2))
    y = (x @ U.T).argmax(axis=1)
    y[np.arange(T) % 13 == 5] = (y[np.arange(T) % 13 == 5] + 1) % 4
    learner = Folklore(problem=Problem(4, 5), comparator_bound=expected["B"])
    steps = list(play(learner, World(x, y, np.zeros(T))))
    z, A = logits_of(steps), np.linalg.inv(unpacked(steps[-1].after.inverse))
    cumulative, comparator = log_losses(z, y).sum(), expected["comparator_loss"]
    assert_close(cumulative, expected["cumulative_loss"], 1e-9)
    assert_close(cumulative - comparator, expected["regret"], 1e-9)
    assert_close(learner.regret_bound(T), expected["bound"], 1e-9)
    assert_close(z[-1], expected["z_last"], 1e-9)
    assert_close(np.linalg.slogdet(A)[1], expected["logdet_A"], 1e-9)
    assert_close(np.linalg.norm(A @ steps[-1].after.solution), expected["normG"], 1e-9)
    assert_close(surrogate_constant(2.0, 1.0, 4), expected["gamma"], 1e-9)


class Life(NamedTuple):
    """A run, with its learner and world."""

    learner: Folklore
    world: World
    steps: list[Step]


@pytest.fixture(scope="module", params=[0.5, 20.0])
def life(request: pytest.FixtureRequest) -> Life:
    """Run a hundred rounds with contexts up to norm 2, at a small and a large B."""
    problem = Problem(3, 4, 2.0)
    learner, world = Folklore(problem=problem, comparator_bound=request.param), make_world(3, 100, problem)
    return Life(learner, world, list(play(learner, world)))


def test_state_matches_the_paper(life: Life) -> None:
    """In every round, A⁻¹ and h match A and G, and the logits solve the paper's equation."""
    reference = Reference(life.learner.problem, life.learner.comparator_bound)
    for step, x, y in zip(life.steps, life.world.contexts, life.world.truth, strict=True):
        z = step.round.evidence[0]
        assert_close(z, reference.logits(x), 1e-9)
        reference.learn(x, int(y), z)
        inverse = np.linalg.inv(reference.A)
        assert_close(unpacked(step.after.inverse), inverse, 1e-9)
        assert_close(step.after.solution, inverse @ reference.G, 1e-9)


def leader_logits(life: Life, t: int) -> FloatArray:
    """Return Wx for the minimizer of the explicit regularized sum of surrogates and φ, by a generic optimizer."""
    (K, d), gamma, bound = (3, 4), life.learner.surrogate_constant, life.learner.comparator_bound
    xs, ys, zs, x = life.world.contexts[:t], life.world.truth[:t], logits_of(life.steps)[:t], life.world.contexts[t]
    p, wide = softmax(zs, axis=1), np.kron(np.eye(K), x[:, None])
    P = wide.T @ unpacked(life.steps[t].before.inverse) @ wide
    bias = np.linalg.solve(P, np.diag(P)) / 2  # B_t of the paper
    ridge = 2 * life.learner.problem.norm_bound / bound

    def gradient(w: FloatArray) -> FloatArray:
        W = w.reshape(K, d)
        moved = xs @ W.T - zs
        curved = p * (moved - (p * moved).sum(axis=1, keepdims=True))
        slopes = p - np.eye(K)[ys] + 2 * gamma * curved
        return np.asarray(2 * ridge * w + (slopes.T @ xs + np.outer(softmax(W @ x) - bias, x)).ravel())

    solution = optimize.root(gradient, np.zeros(K * d), tol=1e-14)
    assert np.abs(gradient(solution.x)).max() <= 1e-9
    return np.asarray(solution.x.reshape(K, d) @ x)


@pytest.mark.parametrize("t", [1, 10, 99])
def test_logits_match_the_regularized_leader(life: Life, t: int) -> None:
    """Logits are Wx for the W that minimizes the ridge term, all past surrogates and φ."""
    assert_close(life.steps[t].round.evidence[0], leader_logits(life, t), 1e-9)


def test_blocks_of_the_inverse_keep_their_sum(life: Life) -> None:
    """Σ_j A⁻¹[i, j] = I/λ for every block row: a component common to all labels is never learned."""
    inverse = unpacked(life.steps[-1].after.inverse).reshape(3, 4, 3, 4)
    start = life.learner.comparator_bound / (2 * life.learner.problem.norm_bound) * np.eye(4)
    for k in range(3):
        assert_close(inverse[k].sum(axis=1), start, 1e-9)


def test_common_component_changes_no_distribution(life: Life) -> None:
    """Adding 1 ⊗ v to G changes no distribution."""
    state, v = copied(life.steps[-1].after), np.array([3.0, -1.0, 0.5, 2.0])
    contexts = Contexts.dense(life.world.contexts)
    before = life.learner.decide(state, contexts).distributions
    state.solution[:] += np.tile(v, 3) * life.learner.comparator_bound / (2 * life.learner.problem.norm_bound)
    assert_close(life.learner.decide(state, contexts).distributions, before, 1e-9)


def test_order_of_labels_does_not_matter(life: Life) -> None:
    """Permuting the labels permutes the logits."""
    order = np.array([2, 0, 1])
    world = life.world._replace(truth=np.argsort(order)[life.world.truth])
    renamed = logits_of(list(play(life.learner, world)))
    assert_close(renamed, logits_of(life.steps)[:, order], 1e-9)


def test_order_of_arrival_does_not_matter(life: Life) -> None:
    """Late rounds in any order give the same state, up to rounding, because A and G are sums."""
    rounds = join(life.steps)
    shuffled = life.learner.fold(life.learner.init(), pick(rounds, np.random.default_rng(1).permutation(100)))
    assert_close(tuple(shuffled), tuple(life.steps[-1].after), 1e-9)


def test_two_labels_need_no_bias() -> None:
    """At K = 2 the distributions equal those of the algorithm with B_t = 0."""
    problem = Problem(2, 3)
    learner, world = Folklore(problem=problem, comparator_bound=3.0), make_world(5, 60, problem)
    reference = Reference(problem, 3.0)
    for step, x, y in zip(play(learner, world), world.contexts, world.truth, strict=True):
        A, offset = reference.terms(x)
        z = np.empty(2)
        solve_fixed_point(A, offset - np.diag(A) / 2, z)
        assert_close(softmax(z), step.distribution, 1e-9)
        reference.learn(x, int(y), z)
