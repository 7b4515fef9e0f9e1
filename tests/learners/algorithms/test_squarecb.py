"""SquareCB: the regression against a plain one, the exploration against its lemma, the guarantee on a run."""

import math

import numpy as np
import pytest

from learners.algorithms.regression.squarecb import SquareCb, SquareCbState
from learners.base import NO_LABEL, Contexts, FloatArray, InvalidStateError, Problem
from learners.codec import decode_state, encode_state
from learners.mathematics.exploration import draw, weigh_by_gap
from tests.learners.worlds import one_round

K, D, C = 3, 4, 4.0


def play_once(learner: SquareCb, state: SquareCbState, x: FloatArray, label: int, correct: bool) -> None:
    learner.fold(state, one_round(x, label, 0.3, label if correct else NO_LABEL, np.empty(0)))


class Plain:
    def __init__(self, learning_rate: float) -> None:
        self.learning_rate, self.t, self.N = learning_rate, 0, 0.0
        self.W, self.G, self.S = np.zeros((K, D)), np.zeros((K, D)), np.zeros(D)

    def probabilities(self, x: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (1.0 + np.exp(-self.W @ x)))

    def learn(self, x: FloatArray, k: int, reward: float) -> None:
        for i in np.flatnonzero(np.abs(x) > self.S):
            self.W[:, i] *= self.S[i] / abs(x[i])
            self.S[i] = abs(x[i])
        present = np.flatnonzero(x)
        self.N += float(np.sum((x[present] / self.S[present]) ** 2))
        self.t += 1
        g = (self.probabilities(x)[k] - reward) * x[present]
        self.G[k, present] += g**2
        step = self.learning_rate * math.sqrt(self.t / self.N)
        moved = self.W[k, present] - step * g / (self.S[present] * np.sqrt(self.G[k, present]))
        self.W[k, present] = np.clip(moved, -20.0 / self.S[present], 20.0 / self.S[present])


@pytest.mark.parametrize("learning_rate", [0.5, 100.0])
def test_regression_matches_the_plain_one(learning_rate: float) -> None:
    rng = np.random.default_rng(3)
    learner = SquareCb(problem=Problem(K, D), learning_rate=learning_rate)
    state, plain = learner.init(), Plain(learning_rate)
    for t in range(300):
        x = rng.normal(size=D) * (rng.random(D) < 0.6) * (1.0 + t / 50)
        k, correct = int(rng.integers(K)), bool(rng.random() < 0.4)
        if not x.any():
            continue
        play_once(learner, state, x, k, correct)
        plain.learn(x, k, float(correct))
        np.testing.assert_allclose(state.weights.T, plain.W, rtol=1e-9, atol=1e-12)
    assert (np.abs(plain.W) * plain.S).max() == pytest.approx(20.0) or learning_rate < 1.0


def test_exploration_matches_the_formula() -> None:
    """Labels get 1/(K + γ_t (f_leader - f_k)), mixed with a share of uniform exploration."""
    learner = SquareCb(problem=Problem(K, 1), gap_scale=C, least_exploration=0.1)
    state = learner.init()
    state.weights[:] = [[0.0, 2.0, -1.0]]
    state.rounds[()] = 24
    gamma = C * math.sqrt(K * 25)
    f = 1.0 / (1.0 + np.exp([0.0, -2.0, 1.0]))
    first, last = 1 / (K + gamma * (f[1] - f[0])), 1 / (K + gamma * (f[1] - f[2]))
    wanted = 0.9 * np.array([first, 1.0 - first - last, last]) + 0.1 / K
    assert learner.decide(state, Contexts.dense([[1.0]])).distributions[0] == pytest.approx(wanted, rel=1e-13)


def excess(predicted: FloatArray, true: FloatArray, gap_weight: float, played_weight: float) -> float:
    """Return the left side of Lemma 3 minus its right side 2K/γ."""
    p = np.empty(len(true))
    weigh_by_gap(predicted, played_weight, 0.0, p)
    paid = p @ (true.max() - true) - gap_weight / 4 * (p @ (predicted - true) ** 2)
    return float(paid - 2 * len(true) / gap_weight)


def test_regret_is_bounded_by_the_regression_error() -> None:
    """Foster and Rakhlin's Lemma 3 holds for random, tied and extreme predictions; greedier play violates it."""
    rng = np.random.default_rng(8)
    worst = greedy = -math.inf
    for _ in range(20_000):
        n, gamma = int(rng.integers(2, 9)), float(np.exp(rng.uniform(0, 7)))
        predicted, true = np.round(rng.random((2, n)), int(rng.integers(0, 4)))
        worst = max(worst, excess(predicted, true, gamma, gamma))
        greedy = max(greedy, excess(predicted, true, gamma, 100 * gamma))
    assert worst <= 0.0 < greedy


def divergence(true: FloatArray, predicted: FloatArray) -> FloatArray:
    return np.asarray(true * np.log(true / predicted) + (1 - true) * np.log((1 - true) / (1 - predicted)))


@pytest.mark.parametrize("seed", range(2))
def test_guarantee_holds_on_a_run(seed: int) -> None:
    """Expected mistakes exceed the best label's by at most √(K T) (4/c + c R/8), if rewards are logistic."""
    rng = np.random.default_rng(seed)
    T, learner = 3000, SquareCb(problem=Problem(K, D), gap_scale=C)
    state, U = learner.init(), rng.normal(size=(D, K))
    regret = R = 0.0
    for _ in range(T):
        x = rng.normal(size=(1, D))
        true = 1.0 / (1.0 + np.exp(-(x @ U)[0]))
        p = learner.decide(state, Contexts.dense(x)).distributions
        predicted = 1.0 / (1.0 + np.exp(-(x @ state.weights)[0]))
        regret += float(p[0] @ (true.max() - true))
        R += float(p[0] @ divergence(true, predicted))
        label = int(draw(p, rng.random(1))[0][0])
        play_once(learner, state, x, label, bool(rng.random() < true[label]))
    assert 0.0 < regret <= math.sqrt(K * T) * (4 / C + C * R / 8)
    assert regret < 0.1 * T * float(np.mean(np.ptp(1.0 / (1.0 + np.exp(-rng.normal(size=(999, D)) @ U)), axis=1)))


def test_a_size_of_zero_is_refused() -> None:
    """Values relative to it would not be finite."""
    learner = SquareCb(problem=Problem(K, D))
    state = learner.init()
    state.sizes[1] = 0.0
    with pytest.raises(InvalidStateError, match="sizes"):
        decode_state(learner, encode_state(learner, state))
