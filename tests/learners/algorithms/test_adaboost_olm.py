"""BoostReg, AdaBoost.OLM++ and its weak learners: traces, costs, regret, the mixture and its bound."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import logsumexp, softmax

from learners.algorithms.improper.adaboost_olm import AdaBoostOlm, random_features
from learners.algorithms.improper.boosting_regression import (
    BoostReg,
    boosted,
    boosting_regret_bound,
    costs_of,
    regressors,
)
from learners.algorithms.improper.folklore import Folklore
from learners.algorithms.improper.weak_learners import WEAK_LEARNERS, CostPerceptron, Name, WeakLearner
from learners.base import Contexts, FloatArray, IntArray, Problem
from tests.learners.arrays import assert_close, bits
from tests.learners.traces import MICRO
from tests.learners.worlds import LAWS, expected_mistakes, join, make_world, one_round, pick, play

PROBLEM = Problem(3, 2)


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


class Scripted(CostPerceptron):
    def __init__(self, script: Iterator[int]) -> None:
        super().__init__(sees_few=False)
        self.script = script
        self.seen: list[FloatArray] = []

    def predict(self, memory: FloatArray, x: FloatArray, costs: FloatArray) -> int:
        self.seen.append(costs)
        return next(self.script)

    def learn(self, memory: FloatArray, x: FloatArray, costs: FloatArray, named: int, y: int) -> None:
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


class Row(NamedTuple):
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


def test_evidence_with_an_invalid_label_teaches_nothing() -> None:
    learner, world = AdaBoostOlm(problem=PROBLEM, weak_learners=2), make_world(1, 20, PROBLEM)
    rounds = join(list(play(learner, world)))
    for impossible in (-1.0, 3.0, np.nan, np.inf, -1e300):
        evidence = rounds.evidence[:1].copy()
        evidence[0, 3] = impossible
        state = learner.fold_unchecked(learner.init(), pick(rounds, [0])._replace(evidence=evidence))
        assert bits(state[:-1]) == bits(learner.init()[:-1])
        assert int(state.rounds) == 1


FEW: list[Name] = ["few-features", "cost-regression", "folklore"]


def untrained(name: Name, n: int, n_labels: int) -> tuple[WeakLearner, FloatArray]:
    weak = WEAK_LEARNERS[name]
    memory = np.zeros(weak.memory_shape(n, n_labels))
    weak.start(memory, n, n_labels)
    return weak, memory


@pytest.mark.parametrize(("rows", "n", "d"), [(40, 3, 7), (5, 7, 7), (20, 30, 10_000)])
def test_random_features_are_distinct_and_reproducible(rows: int, n: int, d: int) -> None:
    table = random_features(3, rows, n, d)
    assert table.shape == (rows, n)
    assert table.min() >= 0
    assert table.max() < d
    assert all(len(set(row)) == n for row in table)
    assert (random_features(3, rows + 5, n, d)[:rows] == table).all()
    assert n == d or (random_features(4, rows, n, d) != table).any()


@pytest.mark.parametrize("name", FEW)
def test_weak_learner_of_few_features_ignores_the_others(name: Name) -> None:
    learner = AdaBoostOlm(problem=Problem(3, 9), weak_learners=2, weak_learner=name, features_per_learner=2)
    seen = np.unique(random_features(0, 2, 2, 9))
    world = make_world(1, 40, learner.problem)

    def states(column: int) -> list[bytes]:
        contexts = world.contexts.copy()
        contexts[:, column] *= 0.5
        return bits([step.after.memories for step in play(learner, world._replace(contexts=contexts))])

    unseen = np.setdiff1d(np.arange(9), seen)
    assert states(int(unseen[0])) == states(int(unseen[-1]))
    assert states(int(seen[0])) != states(int(unseen[0]))


@pytest.mark.parametrize("name", ["cost-regression", "folklore"])
def test_weak_learner_votes_for_the_cheapest_label(name: Name) -> None:
    """With label probabilities p and predecessors' σ, the vote is argmax p - σ, which is not the likeliest label."""
    p, s, rng = np.array([0.6, 0.3, 0.1]), np.log([0.8, 0.05, 0.15]), np.random.default_rng(1)
    costs, x = costs_of(s), np.ones(1)
    weak, memory = untrained(name, 1, 3)
    for y in rng.choice(3, size=400, p=p):
        weak.learn(memory, x, costs[y], weak.predict(memory, x, costs), int(y))
    assert int(np.argmin(p @ costs)) == int(np.argmax(p - softmax(s))) == 1
    assert weak.predict(memory, x, costs) == 1


def test_cost_regression_is_ridge_regression_of_the_advantages() -> None:
    """The weights minimize Σ (1[k = y] - σ_k - w_k'x)² + λ‖w‖² with λ = 1, for any votes."""
    rng, K, n, T = np.random.default_rng(2), 4, 3, 50
    weak, memory = untrained("cost-regression", n, K)
    x, s, y = rng.normal(size=(T, n)), rng.normal(size=(T, K)), rng.integers(0, K, T)
    for t in range(T):
        weak.learn(memory, x[t], costs_of(s[t])[y[t]], int(rng.integers(K)), int(y[t]))
    advantages = np.eye(K)[y] - softmax(s, axis=1)
    inverse = np.linalg.inv(np.eye(n) + x.T @ x)
    assert_close(memory[:, :K], inverse @ x.T @ advantages, 1e-9)
    assert_close(memory[:, K:], inverse, 1e-9)


def test_folklore_weak_learner_is_folklore_of_its_features() -> None:
    """Its memory is the state of FOLKLORE with B = 10 after the same rounds."""
    weak, memory = untrained("folklore", 2, 3)
    full = Folklore(problem=Problem(3, 2, np.sqrt(2.0)), comparator_bound=10.0)
    state, rng = full.init(), np.random.default_rng(3)
    for x, y in zip(rng.uniform(-1, 1, (30, 2)), rng.integers(0, 3, 30), strict=True):
        evidence = full.decide(state, Contexts.dense(x)).evidence
        weak.learn(memory, x, np.zeros(3), 0, int(y))
        state = full.fold(state, one_round(x, int(y), 1.0, int(y), evidence))
    assert_close(memory[0], np.concatenate([state.inverse, state.solution]), 1e-12)


@pytest.mark.parametrize("name", ["cost-regression", "folklore"])
def test_more_weak_learners_of_few_features_are_better(name: Name) -> None:
    problem, T, rng = Problem(3, 12), 800, np.random.default_rng(5)
    truth, contexts = rng.integers(0, 3, T), rng.normal(size=(T, 12))
    contexts += 1.5 * (truth[:, None] == np.arange(12) // 4)  # four features for each label
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    world = make_world(5, T, problem)._replace(contexts=contexts, truth=truth)
    settings: dict[str, Any] = {"weak_learner": name, "features_per_learner": 2, "horizon": T}
    one, eight = (expected_mistakes(AdaBoostOlm(problem=problem, weak_learners=N, **settings), world) for N in (1, 8))
    assert eight < 0.85 * one


@pytest.mark.parametrize("name", FEW)
def test_few_features_do_not_depend_on_the_scale_of_contexts(name: Name) -> None:
    """Contexts and bound times 4 give the same bits: the weak learners divide by X."""
    problems = Problem(3, 5), Problem(3, 5, 4.0)
    world = make_world(2, 30, problems[0])
    one, four = (
        list(play(AdaBoostOlm(problem=problem, weak_learner=name), world._replace(contexts=X * world.contexts)))
        for problem, X in zip(problems, (1.0, 4.0), strict=True)
    )
    assert bits(one[-1].after) == bits(four[-1].after)


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
