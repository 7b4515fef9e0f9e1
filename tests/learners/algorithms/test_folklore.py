"""FOLKLORE against its paper: the leader's equation, the surrogate, identities, the bound, and printed errors."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import logsumexp, softmax

from learners.algorithms.improper.folklore import (
    Folklore,
    FolkloreState,
    learn,
    predict,
    regret_bound,
    surrogate_constant,
)
from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.evaluation.folklore_to_batch import online_to_batch
from learners.mathematics.regularized_softmax import covariance_factor, solve_fixed_point
from tests.learners.worlds import (
    LAWS,
    Step,
    World,
    assert_close,
    copied,
    join,
    make_world,
    one_round,
    pack,
    pick,
    play,
    unit_rows,
    unpacked,
)

DATA = Path(__file__).parent.parent.parent / "data"
MICRO: dict[str, Any] = json.loads((DATA / "traces.json").read_text())
LONG: dict[str, Any] = json.loads((DATA / "long_traces.json").read_text())
PROBLEM = Problem(3, 2)


# --- the paper's algorithm once more, with A and G themselves


class Reference:
    """Algorithm 1 with A and G formed and a solve in every round."""

    def __init__(
        self, problem: Problem, bound: float, gamma: float | None = None, *, printed_sum: bool = False
    ) -> None:
        self.K, self.d = problem.n_labels, problem.n_features
        n = self.K * self.d
        self.gamma = surrogate_constant(bound, problem.norm_bound, self.K) if gamma is None else gamma
        self.printed_sum = printed_sum
        self.A, self.G = 2 * problem.norm_bound / bound * np.eye(n), np.zeros(n)

    def terms(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The matrix Ã = ½P and the offset of z = g̃ - Ã softmax(z)."""
        wide = np.kron(np.eye(self.K), x[:, None])
        P = wide.T @ np.linalg.solve(self.A, wide)
        return P / 2, np.diag(P) / 4 - wide.T @ np.linalg.solve(self.A, self.G) / 2

    def logits(self, x: FloatArray) -> FloatArray:
        """The fixed point, by minimising the convex function it is the gradient of."""
        A, g = self.terms(x)
        u = optimize.minimize(
            lambda u: u @ A @ u / 2 + logsumexp(g - A @ u),
            np.full(self.K, 1 / self.K),
            jac=lambda u: A @ (u - softmax(g - A @ u)),
            method="BFGS",
            options={"gtol": 1e-12},
        ).x
        z = g - A @ u
        for _ in range(50):  # a few undamped Newton steps to the last digit
            p = softmax(z)
            jacobian = np.eye(self.K) + A @ (np.diag(p) - np.outer(p, p))
            z = z - np.linalg.solve(jacobian, z - g + A @ p)
        return np.asarray(z)

    def learn(self, x: FloatArray, y: int, z: FloatArray) -> None:
        """A += γ S ⊗ xx', G += r ⊗ x."""
        p = softmax(z)
        S = np.diag(p) - np.outer(p, p)
        r = p - np.eye(self.K)[y] - (0.0 if self.printed_sum else 2 * self.gamma) * S @ z
        self.A += self.gamma * np.kron(S, np.outer(x, x))
        self.G += np.kron(r, x)


def log_losses(z: FloatArray, y: IntArray) -> FloatArray:
    """The logistic losses, in nats, of rows of logits (n, K)."""
    return np.asarray(logsumexp(z, axis=1) - z[np.arange(len(y)), y])


def logits_of(steps: list[Step]) -> FloatArray:
    """The z of each step, (n, K)."""
    return join(steps).evidence


# --- traces


def play_trace(learner: Folklore, trace: dict[str, Any]) -> list[Step]:
    """The learner's life on the contexts and labels of a micro trace."""
    x, y = np.array([r["x"] for r in trace["rounds"]]), np.array([r["y"] for r in trace["rounds"]])
    return list(play(learner, World(x, y, np.zeros(len(y)))))


def test_micro_trace() -> None:
    """Logits, distribution, loss, A and G of every round are those of `folklore_fixed`."""
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


def test_paper_as_printed_is_another_algorithm() -> None:
    """The box's sum G and the printed constant lead elsewhere: the reference shows it for both and for either."""
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
    """Regret, bound, last logits, log det A and ‖G‖ after 100 rounds are those of the long trace."""
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


# --- the leader


class Life(NamedTuple):
    """A run, and the reference beside it."""

    learner: Folklore
    world: World
    steps: list[Step]


@pytest.fixture(scope="module", params=[0.5, 20.0])
def life(request: pytest.FixtureRequest) -> Life:
    """A hundred rounds with contexts up to norm 2, at a small and a large B."""
    problem = Problem(3, 4, 2.0)
    learner, world = Folklore(problem=problem, comparator_bound=request.param), make_world(3, 100, problem)
    return Life(learner, world, list(play(learner, world)))


def test_state_is_the_papers(life: Life) -> None:
    """A⁻¹ and h are those of A and G, and the logits solve the paper's equation, in every round."""
    reference = Reference(life.learner.problem, life.learner.comparator_bound)
    for step, x, y in zip(life.steps, life.world.contexts, life.world.truth, strict=True):
        z = step.round.evidence[0]
        assert_close(z, reference.logits(x), 1e-9)
        reference.learn(x, int(y), z)
        inverse = np.linalg.inv(reference.A)
        assert_close(unpacked(step.after.inverse), inverse, 1e-9)
        assert_close(step.after.solution, inverse @ reference.G, 1e-9)


def leader_logits(life: Life, t: int) -> FloatArray:
    """Wx for the minimiser of the explicit regularised sum of surrogates and φ, by a generic optimiser."""
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
def test_logits_are_those_of_the_regularized_leader(life: Life, t: int) -> None:
    """Logits from A⁻¹ and h are Wx for the W that minimises the ridge, all past surrogates and φ, written out."""
    assert_close(life.steps[t].round.evidence[0], leader_logits(life, t), 1e-9)


def test_blocks_of_the_inverse_sum_to_its_start(life: Life) -> None:
    """Σ_j A⁻¹[i, j] = I/λ for every block row: what all labels share is never learned."""
    inverse = unpacked(life.steps[-1].after.inverse).reshape(3, 4, 3, 4)
    start = life.learner.comparator_bound / (2 * life.learner.problem.norm_bound) * np.eye(4)
    for k in range(3):
        assert_close(inverse[k].sum(axis=1), start, 1e-9)


def test_what_all_labels_share_changes_no_distribution(life: Life) -> None:
    """G plus 1 ⊗ v gives the same distributions."""
    state, v = copied(life.steps[-1].after), np.array([3.0, -1.0, 0.5, 2.0])
    contexts = Contexts.dense(life.world.contexts)
    before = life.learner.decide(state, contexts).distributions
    state.solution[:] += np.tile(v, 3) * life.learner.comparator_bound / (2 * life.learner.problem.norm_bound)
    assert_close(life.learner.decide(state, contexts).distributions, before, 1e-9)


def test_labels_have_no_order(life: Life) -> None:
    """With the labels renamed throughout, the logits are the same, renamed."""
    order = np.array([2, 0, 1])
    world = life.world._replace(truth=np.argsort(order)[life.world.truth])
    renamed = logits_of(list(play(life.learner, world)))
    assert_close(renamed, logits_of(life.steps)[:, order], 1e-9)


def test_order_of_arrival_does_not_matter(life: Life) -> None:
    """Late rounds in any order lead to the same state, up to rounding: A and G are sums."""
    rounds = join(life.steps)
    shuffled = life.learner.fold(life.learner.init(), pick(rounds, np.random.default_rng(1).permutation(100)))
    assert_close(tuple(shuffled), tuple(life.steps[-1].after), 1e-9)


def test_two_labels_need_no_bias() -> None:
    """At K = 2 the distributions are those of the algorithm with B_t = 0."""
    problem = Problem(2, 3)
    learner, world = Folklore(problem=problem, comparator_bound=3.0), make_world(5, 60, problem)
    reference = Reference(problem, 3.0)
    for step, x, y in zip(play(learner, world), world.contexts, world.truth, strict=True):
        A, offset = reference.terms(x)
        z = np.empty(2)
        solve_fixed_point(A, offset - np.diag(A) / 2, z)
        assert_close(softmax(z), step.distribution, 1e-9)
        reference.learn(x, int(y), z)


# --- numerics


@pytest.mark.parametrize("K", [2, 3, 9])
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e3, 1e6, 1e9])
def test_fixed_point_is_found(K: int, scale: float) -> None:
    """Z = g - A softmax(z) to rounding, for matrices and offsets of any size, full rank or not."""
    rng = np.random.default_rng(K)
    for rank in (1, K):
        for reach in (0.1, 1.0, 10.0):
            half, g, z = rng.normal(size=(K, rank)), reach * scale * rng.normal(size=K), np.empty(K)
            A = scale * half @ half.T
            solve_fixed_point(A, g, z)
            assert np.abs(z - g + A @ softmax(z)).max() <= 1e-13 * (1 + scale) * (1 + np.abs(z).max())


@LAWS
@given(st.lists(st.sampled_from([0.0, 1e-310, 1e-200, 1e-17, 0.3, 1.0]), min_size=2, max_size=6).filter(any))
def test_covariance_factor_is_a_factor(weights: list[float]) -> None:
    """LL' = diag(σ) - σσ', with probabilities of zero or next to it too."""
    p = np.array(weights) / max(np.sum(weights), 1e-300)
    p /= max(p.sum(), 1e-300)
    L = np.full((len(p), len(p) - 1), np.nan)
    covariance_factor(p, L)
    if abs(p.sum() - 1) <= 1e-12:
        assert_close(L @ L.T, np.diag(p) - np.outer(p, p), 1e-15)


def test_long_run_keeps_its_digits() -> None:
    """After 5,000 rounds A⁻¹ is still the inverse of A, and h still solves A h = G."""
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
def test_rounding_stays_small_without_refreshes(K: int, d: int, bound: float, noise: float) -> None:
    """After 100,000 rounds A⁻¹, h and the logits are, to 1e-9, those of A and G summed beside them."""
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
def test_logits_without_digits_are_refused(bound: float, norm: float) -> None:
    """B·X over 1e9 is refused."""
    with pytest.raises(pydantic.ValidationError, match="1e9"):
        Folklore(problem=Problem(2, 2, norm), comparator_bound=bound)


# --- the surrogate


def worst_excess(K: int, reach: float, gamma: float) -> float:
    """The largest surrogate - loss over random logits z_t and Wx with entries up to BR."""
    rng, n = np.random.default_rng(K), 20_000
    z, other = (reach * np.sign(u) * np.abs(u) ** rng.choice([0.0, 0.3, 1.0, 3.0], (n, 1))
                for u in rng.uniform(-1, 1, (2, n, K)))  # fmt: skip
    y, p, moved = rng.integers(0, K, n), softmax(z, axis=1), other - z
    curvature = (p * moved**2).sum(axis=1) - (p * moved).sum(axis=1) ** 2
    surrogate = log_losses(z, y) + ((p - np.eye(K)[y]) * moved).sum(axis=1) + gamma * curvature
    return float((surrogate - log_losses(other, y)).max())


@pytest.mark.parametrize("K", [2, 3, 10])
@pytest.mark.parametrize("reach", [0.5, 2.0, 10.0])
def test_surrogate_is_below_the_loss(K: int, reach: float) -> None:
    """With the corrected constant, wherever ‖Wx‖_∞ <= BR; with the printed 1/(BR + ln(K)/2) it is not."""
    assert worst_excess(K, reach, surrogate_constant(reach, 1.0, K)) <= 1e-9
    assert worst_excess(K, reach, 1 / (reach + np.log(K) / 2)) > 1e-3


# --- the theorem


def best_loss(x: FloatArray, y: IntArray, K: int, bound: float) -> float:
    """The loss of the best W that a generic optimiser finds, its rows clipped to norm B."""

    def clipped(w: FloatArray) -> FloatArray:
        W = w.reshape(K, -1)
        return np.asarray(W * np.minimum(1, bound / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)))

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        z = x @ w.reshape(K, -1).T
        return float(log_losses(z, y).sum()), ((softmax(z, axis=1) - np.eye(K)[y]).T @ x).ravel()

    start = np.zeros(K * x.shape[1])
    W = start
    for _ in range(300):  # projected gradient steps from the free optimum
        free = W if W is not start else optimize.minimize(objective, start, jac=True, method="L-BFGS-B").x
        W = clipped(free - objective(free)[1] / len(x)).ravel()
    return float(objective(W)[0])


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("bound", [1.0, 10.0])
def test_regret_bound(noise: float, bound: float) -> None:
    """The loss is at most that of a fitted comparator with rows of norm at most B, plus R(T)."""
    problem = Problem(4, 3)
    learner, world = Folklore(problem=problem, comparator_bound=bound), make_world(8, 400, problem, noise)
    loss = log_losses(logits_of(list(play(learner, world))), world.truth).sum()
    regret = loss - best_loss(world.contexts, world.truth, 4, bound)
    assert regret <= regret_bound(bound, problem, 400)
    assert loss < 400 * np.log(4) or noise == 1.0


def test_regret_is_not_logarithmic_without_learning() -> None:
    """A learner that stays at its first state breaks the bound: the test above can fail."""
    problem, rng = Problem(2, 1), np.random.default_rng(1)
    x, y = unit_rows(rng, 2000, 1), np.zeros(2000, dtype=np.int64)
    y[x[:, 0] < 0] = 1
    assert 2000 * np.log(2) - best_loss(x, y, 2, 10.0) > regret_bound(10.0, problem, 2000)


# --- online to batch


def test_online_to_batch_keeps_the_state_of_its_step() -> None:
    """Step τ is the state that round τ was decided with."""
    learner, world = Folklore(problem=PROBLEM), make_world(2, 30, PROBLEM)
    contexts = Contexts.dense(world.contexts)
    for t, step in enumerate(play(learner, world)):
        kept: FolkloreState = online_to_batch(learner, contexts, world.truth, t + 1)
        assert_close(tuple(kept), tuple(step.before), 1e-12)


@pytest.mark.parametrize("step", [0, 31, -1])
def test_online_to_batch_refuses_steps_outside_of_the_sample(step: int) -> None:
    """τ is from 1 to T, and the labels are labels."""
    learner, world = Folklore(problem=PROBLEM), make_world(2, 30, PROBLEM)
    with pytest.raises(ValueError, match="from 1 to 30"):
        online_to_batch(learner, Contexts.dense(world.contexts), world.truth, step)
    with pytest.raises(ValueError, match="from 0 to 2"):
        online_to_batch(learner, Contexts.dense(world.contexts), world.truth + 1, 5)
