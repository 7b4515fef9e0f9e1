"""Gaptron against its paper: Table 1, steps and explorations of the theorems, weights after each round."""

from typing import Any

import numpy as np
import pytest

from learners.algorithms.first_order.gaptron import Gaptron, GaptronState
from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.mathematics.gaptron_schedules import (
    anytime_constant,
    least_gap,
    safe_step,
    tuned_bound,
    tuned_exploration,
)
from learners.mathematics.losses import LOSS_CODES, LossName, gap_share, surrogate
from tests.learners.arrays import assert_close, matrix
from tests.learners.formulas import LN2, LOSSES, gap_of, gradient, losses_of, margins, projected, theorem
from tests.learners.worlds import pick, random_rounds

RECURSIONS: dict[str, dict[str, Any]] = {
    "bandit": {"exploration": 0.2, "learning_rate": 0.4},
    "full": {"information": "full", "learning_rate": 0.4},
    "theorem": {"information": "full", "eta_scale": 3.0},
    "anytime": {"eta_scale": 50.0, "least_exploration": 0.05},
}


EACH_LOSS = pytest.mark.parametrize("loss", LOSSES)


@EACH_LOSS
@pytest.mark.parametrize("mode", ["as_of_prediction", "recompute"])
@pytest.mark.parametrize("information", RECURSIONS)
def test_weights_match_the_plain_recursion(loss: LossName, mode: Any, information: str) -> None:
    problem, D, kappa = Problem(3, 4, 2.0), 1.5, safe_step(loss, Problem(3, 4, 2.0), 1.0) * 50
    hyperparameters: dict[str, Any] = {"radius": D, "delayed_update": mode, **RECURSIONS[information]}
    learner = theorem(problem, loss=loss, **hyperparameters)
    step = 3.0 * safe_step(loss, problem) if information == "theorem" else 0.4
    rounds, state, W, theta = random_rounds(5, 200, learner), learner.init(), np.zeros((3, 4)), np.zeros((3, 4))
    for t, x in enumerate(matrix(rounds.contexts)):
        s = rounds.evidence[t] if learner.evidence_size else W @ x
        y, weight = int(rounds.true_labels[t]), rounds.correct[t] / rounds.propensities[t]
        g = (1.0 if learner.needs_true_label else weight) * gradient(loss, s, y, x)
        theta += g
        gamma = max(0.05, min(1.0, anytime_constant(loss, problem, D) / np.sqrt(t + 2)))
        W = projected(-kappa * gamma * theta if information == "anytime" else W - step * g, D)
        state = learner.fold(state, pick(rounds, [t]))
        assert_close(learner.weights(state), W, 1e-9)


def adaptive_run(
    loss: LossName, information: str, radius: float | None
) -> tuple[Gaptron, list[tuple[FloatArray, FloatArray]], GaptronState]:
    bandit: dict[str, Any] = {"exploration": 0.2} if information == "bandit" else {"information": "full"}
    learner: Gaptron = Gaptron(problem=Problem(3, 4, 2.0), loss=loss, eta_scale=1.4, radius=radius, **bandit)
    rounds, state, met = random_rounds(6, 200, learner), learner.init(), []
    for t, x in enumerate(matrix(rounds.contexts)):
        weight = 1.0 if information == "full" else rounds.correct[t] / rounds.propensities[t]
        g = weight * gradient(loss, rounds.evidence[t], int(rounds.true_labels[t]), x)
        met.append((learner.weights(state).copy(), g))
        state = learner.fold(state, pick(rounds, [t]))
    return learner, met, state


@EACH_LOSS
@pytest.mark.parametrize("information", ["bandit", "full"])
@pytest.mark.parametrize("radius", [None, 0.3])
def test_adaptive_weights_match_the_plain_recursion(loss: LossName, information: str, radius: float | None) -> None:
    learner, met, end = adaptive_run(loss, information, radius)
    W, G = np.zeros((3, 4)), np.zeros(4)
    for before, g in met:
        assert_close(before, W, 1e-9)
        G += np.sum(g**2, axis=0)
        W = W - 0.7 * g / np.sqrt(np.maximum(G, 1e-300))
        if radius is not None:
            W = W * np.minimum(1.0, radius / np.maximum(np.linalg.norm(W, axis=0), 1e-300))
    assert_close(learner.weights(end), W, 1e-9)
    assert_close(end.gradient_sums, G, 1e-9)


@EACH_LOSS
def test_adaptive_regret_is_within_its_bound(loss: LossName) -> None:
    """On the linearized losses, regret to the best U with rows in the ball is at most Σ (2 D²/η + η) √G_i."""
    D, eta = 0.3, 0.7
    _, met, end = adaptive_run(loss, "bandit", D)
    total = np.sum([g for _, g in met], axis=0)
    paid = sum(float(np.sum(W * g)) for W, g in met)
    regret = paid + D * np.linalg.norm(total, axis=0).sum()
    bound = np.sum((2 * D**2 / eta + eta) * np.sqrt(end.gradient_sums))
    assert 0.05 * bound < regret <= bound


@pytest.mark.parametrize(
    "choice",
    [
        {"exploration": 0.01, "eta_scale": 1e3},
        {"exploration": 0.01, "learning_rate": 1e6, "radius": 1e-3, "delayed_update": "recompute"},
        {"information": "full", "learning_rate": 3.0},
        {"eta_scale": 1e4},
        {"delayed_update": "recompute", "loss": "smooth_hinge"},
    ],
    ids=str,
)
def test_weights_stay_in_the_ball(choice: dict[str, Any]) -> None:
    """‖W‖ ≤ D after every round, also after 10⁵ rounds and where the norm is recomputed (65,536)."""
    learner = theorem(Problem(4, 3), **choice)
    assert learner.radius is not None
    rounds, state = random_rounds(3, 100_000, learner), learner.init()
    cuts = [*range(1, 40), *range(1000, 65_000, 4000), *range(65_530, 65_542), *range(66_000, 100_001, 2000)]
    for start, stop in zip([0, *cuts], cuts, strict=False):
        state = learner.fold(state, pick(rounds, range(start, stop)))
        assert np.linalg.norm(learner.weights(state)) <= learner.radius * (1 + 1e-9)
        assert_close(state.squared_norm / np.sum(state.direction**2), 1.0, 1e-9)


EACH_K = pytest.mark.parametrize("K", range(2, 9))


def scores_with_ties(seed: int, K: int) -> FloatArray:
    """Draw rows of scores (n, K), small and large, with ties, and with top margins at and around 0, 1/K and 1."""
    rng = np.random.default_rng(seed)
    rows = [scale * rng.normal(size=(60, K)) for scale in (0.1, 1.0, 5.0)]
    tied = rng.normal(size=(60, K))
    tied[:, rng.permutation(K)[:2]] = tied.max(axis=1, keepdims=True)
    for margin in (0.0, 1 / K, 1 / K - 1e-9, 1 / K + 1e-9, 1.0, 1.0 - 1e-9, 1.0 + 1e-9):
        top = -np.abs(rng.normal(size=(20, K)))
        top[:, 0] = 0.0
        top[np.arange(20), rng.integers(1, K, 20)] = -margin
        rows.append(rng.permuted(np.minimum(top, np.where(np.arange(K) == 0, 0.0, -margin)), axis=1))
    return np.concatenate([np.zeros((1, K)), tied, *rows])


def surrogates(loss: LossName, s: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return values (n,) and coefficients (n, K) of the learner's loss for rows of scores."""
    coefficients = np.empty_like(s)
    values = [surrogate(LOSS_CODES[loss], s[i], y[i], coefficients[i]) for i in range(len(s))]
    return np.array(values), coefficients


def at_scores(learner: Gaptron, s: FloatArray) -> tuple[GaptronState, Contexts]:
    """Build a state and one-hot contexts of norm X whose scores are the rows of s (n, K); d must equal n."""
    state, X = learner.init(), learner.problem.norm_bound
    state.direction[:] = s / X
    state.squared_norm[()] = np.sum(state.direction**2)
    return state, Contexts.dense(np.eye(len(s)) * X)


PROBLEMS = [Problem(2, 1), Problem(3, 4, 2.0), Problem(9, 400, 55**0.5)]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_safe_steps_match_the_theorems(problem: Problem) -> None:
    """η is ln2/(2KX²), (K-1)/(K²X²) or 1/(4KX²) with full information, and γ/K times that with bandit feedback."""
    K, X2 = problem.n_labels, problem.norm_bound**2
    full = {"logistic": LN2 / (2 * K * X2), "hinge": (1 - 1 / K) / (K * X2), "smooth_hinge": 1 / (4 * K * X2)}
    kappa = {"logistic": LN2 / (2 * K**2 * X2), "hinge": (K - 1) / (K**3 * X2), "smooth_hinge": 1 / (4 * K**2 * X2)}
    for loss in LOSSES:
        assert_close(safe_step(loss, problem), full[loss], 1e-14)
        assert_close(safe_step(loss, problem, 0.3), 0.3 * kappa[loss], 1e-14)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("D", [0.5, 1.0, 10.0])
def test_explorations_match_the_theorems(problem: Problem, D: float) -> None:
    """The tuned γ and the anytime constant are those of the corrected theorems."""
    K, X = problem.n_labels, problem.norm_bound
    squares = {
        "logistic": K**2 * X**2 * D**2 / LN2,
        "hinge": K**4 * X**2 * D**2 / (2 * (K - 1) ** 2),
        "smooth_hinge": 2 * K**2 * X**2 * D**2,
    }
    constants = {
        "logistic": K * X * D * np.sqrt(K / (2 * LN2 * (K - 1))),
        "hinge": K**2 * X * D / (2 * (K - 1)),
        "smooth_hinge": K * X * D * np.sqrt(K / (K - 1)),
    }
    for loss in LOSSES:
        for T in (1, 10**4, 10**9):
            gamma = tuned_exploration(loss, problem, D, T)
            assert_close(gamma, min(1.0, np.sqrt(squares[loss] / T)), 1e-13)
            paid = D**2 / (2 * safe_step(loss, problem, gamma)) + gamma * T * (K - 1) / K
            assert paid <= tuned_bound(loss, problem, D, T) * (1 + 1e-12) <= 2.1 * paid
        assert_close(anytime_constant(loss, problem, D), constants[loss], 1e-13)


@EACH_LOSS
@pytest.mark.parametrize("floor", [0.0, 0.01])
def test_anytime_exploration_falls_as_one_over_root_t(loss: LossName, floor: float) -> None:
    """At a zero gap, the rate of round t is min(1, max(c/√t, floor))."""
    learner = theorem(Problem(2, 1), loss=loss, radius=50.0, least_exploration=floor)
    c = anytime_constant(loss, learner.problem, 50.0)
    for t in (1, 2, 100, 10**4, 10**6, 10**8, 10**12):
        state = learner.init()
        state.direction[:], state.squared_norm[()], state.rounds[()] = [[1e20, -1e20]], 2e40, t - 1
        distribution = learner.decide(state, Contexts.dense([1.0])).distributions[0]
        assert_close(2 * distribution.min(), min(1.0, max(c / np.sqrt(t), floor)), 1e-12)


@EACH_LOSS
@EACH_K
def test_loss_matches_the_formula(loss: LossName, K: int) -> None:
    s = scores_with_ties(K, K)
    for label in range(K):
        y = np.full(len(s), label)
        values, coefficients = surrogates(loss, s, y)
        zero = (loss == "hinge") & (margins(s, y) >= 1 / K - 1e-12)
        assert_close(values, np.where(zero, 0.0, losses_of(loss, s, y)), 1e-12)
        assert not coefficients[zero].any()


@EACH_LOSS
@EACH_K
def test_coefficients_match_the_derivative(loss: LossName, K: int) -> None:
    rng, h = np.random.default_rng(K), 1e-6
    for s in rng.normal(size=(50, K)):
        y, top = int(rng.integers(K)), np.sort(s)
        if abs(top[-1] - top[-2] - 1 / K) < 1e-4 or np.diff(top).min() < 1e-4:
            continue
        shifted = np.concatenate([s + h * np.eye(K), s - h * np.eye(K)])
        values, _ = surrogates(loss, shifted, np.full(2 * K, y))
        _, coefficients = surrogates(loss, s[None], np.array([y]))
        assert_close(coefficients[0], (values[:K] - values[K:]) / (2 * h), 1e-6)


@EACH_LOSS
@EACH_K
def test_gap_map_matches_the_formula(loss: LossName, K: int) -> None:
    """The gap a is Table 1's map and in [0, 1], with 1 - m* for the hinge (the printed form becomes negative)."""
    s = np.concatenate([scores_with_ties(K, K), 1e3 * scores_with_ties(K + 10, K)])
    actual = np.array(
        [gap_share(LOSS_CODES[loss], row, leader) for row, leader in zip(s, s.argmax(axis=1), strict=True)]
    )
    assert_close(actual, gap_of(loss, s), 1e-12)
    assert actual.min() >= 0.0
    assert actual.max() <= 1.0


@EACH_LOSS
@EACH_K
def test_answer_mixes_by_the_larger_of_gap_and_rate(loss: LossName, K: int) -> None:
    """The answer is (1 - q) e_y* + (q/K) 1 with q = max(a, γ), and the evidence is s = W x."""
    s = scores_with_ties(K, K)
    learner = theorem(Problem(K, len(s)), loss=loss, exploration=0.3)
    distributions, evidence = learner.decide(*at_scores(learner, s))
    q = np.maximum(gap_of(loss, s), 0.3)[:, None]
    assert_close(distributions, (1 - q) * np.eye(K)[s.argmax(axis=1)] + q / K, 1e-12)
    assert_close(evidence, s, 1e-15)


def largest_gap(learner: Gaptron, s: FloatArray, eta: float) -> float:
    """Return the largest P(mistake) - loss + (η/2) E‖ĝ‖² over these scores and all labels, without γ's share."""
    state, contexts = at_scores(learner, s)
    distributions, X = learner.decide(state, contexts).distributions, learner.problem.norm_bound
    K, bandit, gaps = s.shape[1], not learner.needs_true_label, []
    top = s.argmax(axis=1)
    a = np.array([gap_share(LOSS_CODES[learner.loss], row, leader) for row, leader in zip(s, top, strict=True)])
    for label in range(K):
        y = np.full(len(s), label)
        values, c = surrogates(learner.loss, s, y)
        squared = np.sum(c**2, axis=1) * X**2 / (distributions[:, label] if bandit else 1.0)
        gaps.append((1 - a) * (top != y) + a * (K - 1) / K - values + eta / 2 * squared)
    return float(np.max(gaps))


@EACH_LOSS
@EACH_K
@pytest.mark.parametrize("gamma", [None, 1e-3, 0.3, 1.0])
def test_surrogate_gap_is_never_positive(loss: LossName, K: int, gamma: float | None) -> None:
    for X in (1.0, 3.0):
        s = scores_with_ties(K, K)
        problem = Problem(K, len(s), X)
        hyperparameters: dict[str, Any] = {"information": "full"} if gamma is None else {"exploration": gamma}
        learner = theorem(problem, loss=loss, **hyperparameters)
        assert largest_gap(learner, s, safe_step(loss, problem, gamma)) <= 1e-12


@EACH_K
@pytest.mark.parametrize("reach", [0.3, 1.0, 3.0])
def test_the_gap_alone_explores_enough_for_theorem_4(K: int, reach: float) -> None:
    """With γ = 0 the gap is at least a_min for any W in the ball, and the theorem's step keeps the surrogate gap."""
    s, X = np.random.default_rng(K).normal(size=(60, K)), 2.0
    s[0, :2], s[0, 2:] = (1.0, -1.0), 0.0
    s *= reach / np.linalg.norm(s, axis=1, keepdims=True)
    problem = Problem(K, len(s), X)
    learner, least = theorem(problem, exploration=0.0, radius=reach / X), least_gap(problem, reach / X)
    assert gap_of("logistic", s).min() >= least - 1e-12
    assert largest_gap(learner, s, safe_step("logistic", problem, least)) <= 1e-12
    if K == 2:
        assert_close(gap_of("logistic", s[:1])[0], least, 1e-12)  # the bound is exact


@EACH_K
def test_printed_smooth_hinge_step_opens_the_gap(K: int) -> None:
    """The step of the paper's Table 2, 1/(2KX²), gives a gap of 1/K, so the test above can fail."""
    problem = Problem(K, len(scores_with_ties(K, K)))
    learner = theorem(problem, loss="smooth_hinge", information="full")
    assert_close(largest_gap(learner, scores_with_ties(K, K), 1 / (2 * K)), 1 / K, 1e-12)


@pytest.mark.parametrize(("loss", "factor"), [("logistic", 3.0), ("hinge", 1.05), ("smooth_hinge", 1.05)])
def test_larger_step_opens_the_gap(loss: LossName, factor: float) -> None:
    """A larger step gives a positive gap at K = 2: the hinge constants are exact, the logistic one within factor 3."""
    s = scores_with_ties(2, 2)
    learner = theorem(Problem(2, len(s)), loss=loss, exploration=1.0)
    assert largest_gap(learner, s, factor * safe_step(loss, learner.problem, 1.0)) > 1e-3
