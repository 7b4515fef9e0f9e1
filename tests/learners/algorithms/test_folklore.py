"""FOLKLORE against its paper: the leader's equation, printed errors, the theorem, numerical accuracy."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import optimize
from scipy.special import logsumexp, softmax

from learners.algorithms.improper.folklore import Folklore, regret_bound, solve_fixed_point, surrogate_constant
from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.evaluation.online_to_batch import online_to_batch
from tests.learners.arrays import assert_close, unit_rows, unpacked
from tests.learners.traces import LONG, MICRO
from tests.learners.worlds import Step, World, join, make_world, one_round, play

PROBLEM = Problem(3, 2)


def play_trace(learner: Folklore, trace: dict[str, Any]) -> list[Step]:
    x, y = np.array([r["x"] for r in trace["rounds"]]), np.array([r["y"] for r in trace["rounds"]])
    return list(play(learner, World(x, y, np.zeros(len(y)))))


def test_micro_trace() -> None:
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
    learner: Folklore
    world: World
    steps: list[Step]


@pytest.fixture(scope="module", params=[0.5, 20.0])
def life(request: pytest.FixtureRequest) -> Life:
    problem = Problem(3, 4, 2.0)
    learner, world = Folklore(problem=problem, comparator_bound=request.param), make_world(3, 100, problem)
    return Life(learner, world, list(play(learner, world)))


def leader_logits(life: Life, t: int) -> FloatArray:
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
    assert_close(life.steps[t].round.evidence[0], leader_logits(life, t), 1e-9)


class Reference:
    """Algorithm 1 with explicit A and G and a solve in every round."""

    def __init__(
        self, problem: Problem, bound: float, gamma: float | None = None, *, printed_sum: bool = False
    ) -> None:
        self.K, self.d = problem.n_labels, problem.n_features
        n = self.K * self.d
        self.gamma = surrogate_constant(bound, problem.norm_bound, self.K) if gamma is None else gamma
        self.printed_sum = printed_sum
        self.A, self.G = 2 * problem.norm_bound / bound * np.eye(n), np.zeros(n)

    def terms(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrix Ã = ½P and the offset g̃ of the equation z = g̃ - Ã softmax(z)."""
        wide = np.kron(np.eye(self.K), x[:, None])
        P = wide.T @ np.linalg.solve(self.A, wide)
        return P / 2, np.diag(P) / 4 - wide.T @ np.linalg.solve(self.A, self.G) / 2

    def logits(self, x: FloatArray) -> FloatArray:
        A, g = self.terms(x)
        u = optimize.minimize(
            lambda u: u @ A @ u / 2 + logsumexp(g - A @ u),
            np.full(self.K, 1 / self.K),
            jac=lambda u: A @ (u - softmax(g - A @ u)),
            method="BFGS",
            options={"gtol": 1e-12},
        ).x
        z = g - A @ u
        for _ in range(50):  # undamped Newton steps to full precision
            p = softmax(z)
            jacobian = np.eye(self.K) + A @ (np.diag(p) - np.outer(p, p))
            z = z - np.linalg.solve(jacobian, z - g + A @ p)
        return np.asarray(z)

    def learn(self, x: FloatArray, y: int, z: FloatArray) -> None:
        """Apply A += γ S ⊗ xx' and G += r ⊗ x."""
        p = softmax(z)
        S = np.diag(p) - np.outer(p, p)
        r = p - np.eye(self.K)[y] - (0.0 if self.printed_sum else 2 * self.gamma) * S @ z
        self.A += self.gamma * np.kron(S, np.outer(x, x))
        self.G += np.kron(r, x)


def log_losses(z: FloatArray, y: IntArray) -> FloatArray:
    """Return the logistic losses, in nats, of rows of logits (n, K)."""
    return np.asarray(logsumexp(z, axis=1) - z[np.arange(len(y)), y])


def logits_of(steps: list[Step]) -> FloatArray:
    """Return the logits z of each step, (n, K)."""
    return join(steps).evidence


def worst_excess(K: int, reach: float, gamma: float) -> float:
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
    """The corrected constant works wherever ‖Wx‖_∞ <= BR; the printed 1/(BR + ln(K)/2) does not."""
    assert worst_excess(K, reach, surrogate_constant(reach, 1.0, K)) <= 1e-9
    assert worst_excess(K, reach, 1 / (reach + np.log(K) / 2)) > 1e-3


def best_loss(x: FloatArray, y: IntArray, K: int, bound: float) -> float:
    def clipped(w: FloatArray) -> FloatArray:
        W = w.reshape(K, -1)
        return np.asarray(W * np.minimum(1, bound / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)))

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        z = x @ w.reshape(K, -1).T
        return float(log_losses(z, y).sum()), ((softmax(z, axis=1) - np.eye(K)[y]).T @ x).ravel()

    start = np.zeros(K * x.shape[1])
    W = start
    for _ in range(300):  # projected gradient steps from the unconstrained optimum
        free = W if W is not start else optimize.minimize(objective, start, jac=True, method="L-BFGS-B").x
        W = clipped(free - objective(free)[1] / len(x)).ravel()
    return float(objective(W)[0])


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("bound", [1.0, 10.0])
def test_regret_is_within_its_bound(noise: float, bound: float) -> None:
    problem = Problem(4, 3)
    learner, world = Folklore(problem=problem, comparator_bound=bound), make_world(8, 400, problem, noise)
    loss = log_losses(logits_of(list(play(learner, world))), world.truth).sum()
    regret = loss - best_loss(world.contexts, world.truth, 4, bound)
    assert regret <= regret_bound(bound, problem, 400)
    assert loss < 400 * np.log(4) or noise == 1.0


def test_regret_bound_is_broken_without_learning() -> None:
    problem, rng = Problem(2, 1), np.random.default_rng(1)
    x, y = unit_rows(rng, 2000, 1), np.zeros(2000, dtype=np.int64)
    y[x[:, 0] < 0] = 1
    assert 2000 * np.log(2) - best_loss(x, y, 2, 10.0) > regret_bound(10.0, problem, 2000)


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


def test_state_is_accurate_after_2000_rounds() -> None:
    """After 2,000 rounds A⁻¹ is still the inverse of A, and h solves A h = G."""
    problem = Problem(3, 2)
    learner, world = Folklore(problem=problem, comparator_bound=50.0), make_world(6, 2_000, problem)
    contexts = Contexts.dense(world.contexts)
    final = online_to_batch(learner, contexts, world.truth, 2_000)
    reference, state = Reference(problem, 50.0), learner.init()
    for x, y in zip(world.contexts[:-1], world.truth[:-1], strict=True):
        z = learner.decide(state, Contexts.dense(x)).evidence
        state = learner.fold(state, one_round(x, int(y), 1.0, int(y), z))
        reference.learn(x, int(y), z[0])
    assert_close(unpacked(state.inverse) @ reference.A, np.eye(6), 1e-9)
    assert_close(state.solution, np.linalg.solve(reference.A, reference.G), 1e-9)
    assert_close(tuple(final), tuple(state), 1e-9)
