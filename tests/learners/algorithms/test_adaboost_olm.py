"""BoostReg and AdaBoost.OLM++ against their paper: traces, costs, regret, the mixture and its bound."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import logsumexp, softmax

from learners.algorithms.improper.adaboost_olm import AdaBoostOlm
from learners.algorithms.improper.boosting_regression import (
    BoostReg,
    boosted,
    boosting_regret_bound,
    costs_of,
    regressors,
)
from learners.algorithms.improper.weak_learners import WEAK_LEARNERS, CostPerceptron
from learners.base import Contexts, FloatArray, IntArray, Problem
from tests.learners.arrays import assert_close, bits
from tests.learners.traces import MICRO
from tests.learners.worlds import LAWS, expected_mistakes, join, make_world, one_round, pick, play

PROBLEM = Problem(3, 2)


# --- BoostReg


def test_boosting_regression_trace() -> None:
    """Regressors, ζ and ŝ of every round match the trace."""
    trace = MICRO["boosting_regression"]
    boost = BoostReg.start(trace["T"])
    for expected in trace["rounds"]:
        s, named = np.array(expected["s"], dtype=np.float64), expected["l"]
        zeta, better = boost.predict(s, named)
        assert_close(regressors(s, named, trace["T"]), expected["xtilde"], 1e-9)
        assert_close(zeta, expected["zeta"], 1e-9)
        assert_close(better, expected["s_hat"], 1e-9)
        boost.learn(s, named, zeta, expected["y"])


@pytest.mark.parametrize("edge", [0.0, 0.3, 0.9])
def test_boost_reg_regret_is_within_its_bound(edge: float) -> None:
    """The loss is at most that of s + α e_l for the best α in [-2, 2], plus the bound."""
    T, K, rng = 500, 4, np.random.default_rng(1)
    boost, s, y = BoostReg.start(T), rng.normal(size=(T, K)), rng.integers(0, K, T)
    named = np.where(rng.random(T) < edge, y, rng.integers(0, K, T))

    def loss(z: FloatArray) -> float:
        return float((logsumexp(z, axis=1) - z[np.arange(T), y]).sum())

    better = np.empty_like(s)
    for t in range(T):
        zeta, better[t] = boost.predict(s[t], named[t])
        boost.learn(s[t], named[t], zeta, y[t])
    best = optimize.minimize_scalar(lambda a: loss(s + a * np.eye(K)[named]), bounds=(-2, 2), method="bounded").fun
    assert loss(better) <= best + boosting_regret_bound(T)
    assert edge == 0.0 or loss(better) < loss(s)


SCORES = st.lists(st.floats(-700, 700), min_size=2, max_size=6).map(np.array)


@LAWS
@given(SCORES, st.data())
def test_boosting_keeps_the_odds_of_the_others(s: FloatArray, data: st.DataObject) -> None:
    """The predicted label gets σ(ζ_1 - ζ_2), the others keep their odds, and nothing overflows."""
    named, zeta = data.draw(st.integers(0, len(s) - 1)), np.array(data.draw(st.tuples(*[st.floats(-50, 50)] * 2)))
    better, others = boosted(s, named, zeta), np.arange(len(s)) != named
    assert_close(logsumexp(better[others]), zeta[1], 1e-9)
    assert better[named] == zeta[0]
    assert_close(softmax(better[others]), softmax(s[others]), 1e-9)
    assert np.abs(regressors(s, named, 1000)[0]) <= np.log(1000)


@LAWS
@given(SCORES)
def test_costs_match_the_formula(s: FloatArray) -> None:
    """C(y, k) = (σ_k - σ_y + 1)/K off the diagonal is non-negative, and row y sums to 1 - σ_y."""
    costs, sigma, K = costs_of(s), softmax(s), len(s)
    expected = (sigma[None] - sigma[:, None] + 1) / K * (1 - np.eye(K))
    assert_close(costs, expected, 1e-12)
    assert costs.min() >= 0.0
    assert_close(costs.sum(axis=1), 1 - sigma, 1e-12)


# --- the sequence of weak learners


class Scripted(CostPerceptron):
    """A weak learner that predicts labels from a script and records the costs it receives."""

    def __init__(self, script: Iterator[int]) -> None:
        super().__init__(sees_few=False)
        self.script = script
        self.seen: list[FloatArray] = []

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:
        """Return the next label of the script."""
        self.seen.append(costs)
        return next(self.script)

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
        """Check that the costs are those of the true label."""
        assert costs[y] == 0.0


def test_adaboost_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs, ζ, answers and weights of every round match the trace, given the weak learners' predictions."""
    trace = MICRO["adaboost_olm_pp"]
    script = Scripted(iter([member["l"] for row in trace["rounds"] for member in row["learners"]]))
    monkeypatch.setitem(WEAK_LEARNERS, "perceptron", script)
    learner: AdaBoostOlm = AdaBoostOlm(problem=PROBLEM, weak_learners=trace["N"], horizon=trace["T"])
    state = learner.init()
    for expected in trace["rounds"]:
        (distribution,), evidence = learner.decide(state, Contexts.dense([0.0, 0.0]))
        members, named = expected["learners"], evidence.reshape(-1, 3)
        answers = np.eye(3)[[member["yhat"] for member in members]]
        assert_close(np.array(script.seen[-2:]), [member["C"] for member in members], 1e-9)
        assert_close(named[:, 0], [member["l"] for member in members], 0.0)
        assert_close(named[:, 1:], [member["zeta"] for member in members], 1e-9)
        assert_close(distribution, expected["expert_prob"] @ answers, 1e-9)
        s = np.zeros(3)
        for member, (label, *zeta) in zip(members, named, strict=True):
            assert_close(regressors(s, int(label), trace["T"]), member["xtilde"], 1e-9)
            s = boosted(s, int(label), np.array(zeta))
            assert_close(s, member["s"], 1e-9)
        y = expected["y"]
        state = learner.fold(state, one_round([0.0, 0.0], y, 1.0, y, evidence))
        assert_close(np.exp(state.log_weights), expected["v_after"], 1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_mistakes_are_close_to_those_of_the_best_member(noise: float) -> None:
    """Expected mistakes are at most (min M_i + ln N)/(1 - 1/e), the bound of exponential weights."""
    problem, N = Problem(4, 5), 6
    learner, world = AdaBoostOlm(problem=problem, weak_learners=N, horizon=400), make_world(3, 400, problem, noise)
    *_, last = play(learner, world)
    fewest = -float(last.after.log_weights.max())
    mistakes = expected_mistakes(learner, world)
    assert mistakes <= (fewest + np.log(N)) / (1 - np.exp(-1))
    assert mistakes < 0.75 * 400 * (0.5 if noise == 0.0 else 0.9)


def test_boosting_helps_a_weak_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten weak learners slightly better than chance combine into a strong one."""
    problem, T, rng = Problem(3, 1), 1500, np.random.default_rng(2)
    truth, N = rng.integers(0, 3, T), 10
    hints = np.where(rng.random((T, N)) < 0.25, truth[:, None], rng.integers(0, 3, (T, N)))
    monkeypatch.setitem(WEAK_LEARNERS, "perceptron", Scripted(iter(hints.ravel().tolist())))
    learner, contexts = AdaBoostOlm(problem=problem, weak_learners=N, horizon=T), Contexts.dense([1.0])
    state, right = learner.init(), np.empty(T)
    for t, y in enumerate(truth):
        distributions, evidence = learner.decide(state, contexts)
        right[t] = distributions[0, y]
        state = learner.fold(state, one_round([1.0], 0, 1.0, int(y), evidence))
    alone = float((hints == truth[:, None]).mean())
    assert alone < 0.52
    assert right[500:].mean() > alone + 0.1


class Row(NamedTuple):
    """The results of a sequence of N members over T rounds; i counts members from 1, and 0 means all scores zero."""

    right: FloatArray  # (T,), the probability of the true label
    losses: FloatArray  # (N + 1,), the logistic loss after member i, over all rounds
    mistakes: FloatArray  # (N + 1,), M_i, the mistakes of member i's answer; M_0 = T
    slack: FloatArray  # (N,), w_i, the sum of 1 - σ_y before member i
    edges: FloatArray  # (N,), γ_i, the first-order decrease of the loss by member i's labels, divided by w_i


def boosted_row(monkeypatch: pytest.MonkeyPatch, hints: IntArray, truth: IntArray, K: int) -> Row:
    """Run weak learners that predict the labels `hints` (T, N)."""
    T, N = hints.shape
    monkeypatch.setitem(WEAK_LEARNERS, "perceptron", Scripted(iter(hints.ravel().tolist())))
    learner, contexts = AdaBoostOlm(problem=Problem(K, 1), weak_learners=N, horizon=T), Contexts.dense([1.0])
    state, row = learner.init(), Row(np.empty(T), *np.zeros((2, N + 1)), *np.zeros((2, N)))
    for t, y in enumerate(truth):
        distributions, evidence = learner.decide(state, contexts)
        row.right[t], s = distributions[0, y], np.zeros(K)
        row.losses[0] += np.log(K)
        for i, (named, *zeta) in enumerate(evidence.reshape(N, 3)):
            sigma, label = softmax(s), int(named)
            row.slack[i] += 1 - sigma[y]
            row.edges[i] += float(label == y) - sigma[label]
            s = boosted(s, label, np.array(zeta))
            row.losses[i + 1] += logsumexp(s) - s[y]
            row.mistakes[i + 1] += float(np.argmax(s) != y)
        state = learner.fold(state, one_round([1.0], 0, 1.0, int(y), evidence))
    row.mistakes[0] = T
    return row._replace(edges=row.edges / row.slack)


def test_row_bounds_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistakes are few with high probability, and large edges lower each member's loss.

    M ≤ 4 min M_i + 2 ln(N/δ) except in a share δ of the draws. Member i lowers the loss by at least
    γ_i² w_i / 2 - R(T), and w_i ≥ M_{i-1} / 2; hence min M_i ≤ 4 (T ln K + N R(T)) / Σ γ_i².
    """
    T, N, K, delta, rng = 1500, 5, 3, 0.05, np.random.default_rng(4)
    truth = rng.integers(0, K, T)
    hints = np.where(rng.random((T, N)) < 0.95, truth[:, None], rng.integers(0, K, (T, N)))
    row, regret = boosted_row(monkeypatch, hints, truth, K), boosting_regret_bound(T)

    bound = 4 * row.mistakes.min() + 2 * np.log(N / delta)
    mistakes = (rng.random((400, T)) >= row.right).sum(axis=1)
    assert (mistakes > bound).mean() <= delta
    assert bound < T * (1 - 1 / K)  # guessing would violate it

    gains = row.edges**2 * row.slack / 2
    assert (row.losses[1:] <= row.losses[:-1] - gains + regret).all()
    assert gains[0] > regret  # a member that changes no score would violate it
    assert (row.slack >= row.mistakes[:-1] / 2).all()
    assert row.mistakes[1:].min() <= 4 * (T * np.log(K) + N * regret) / np.sum(row.edges**2)


def test_cost_perceptron_moves_by_its_cost() -> None:
    """After an error, the weights of the two labels move apart by cost times context; nothing else moves."""
    weak, memory, x = CostPerceptron(sees_few=False), np.zeros((2, 3)), np.array([0.5, -1.0])
    costs = np.array([0.0, 0.3, 0.2])
    assert weak.predict(memory, x, costs_of(np.zeros(3))) == 0
    weak.learn(memory, x, costs, 1, 0)
    assert_close(memory.T, [0.3 * x, -0.3 * x, 0 * x], 1e-15)
    before = bits([memory])
    weak.learn(memory, x, costs, 0, 0)
    assert bits([memory]) == before


def test_evidence_with_an_invalid_label_teaches_nothing() -> None:
    """A round whose evidence has an invalid label is counted and otherwise ignored."""
    learner, world = AdaBoostOlm(problem=PROBLEM, weak_learners=2), make_world(1, 20, PROBLEM)
    rounds = join(list(play(learner, world)))
    for impossible in (-1.0, 3.0, np.nan, np.inf, -1e300):
        evidence = rounds.evidence[:1].copy()
        evidence[0, 3] = impossible
        state = learner.fold_unchecked(learner.init(), pick(rounds, [0])._replace(evidence=evidence))
        assert bits(state[:-1]) == bits(learner.init()[:-1])
        assert int(state.rounds) == 1
