"""FastCB: its state against one written out plainly, exploration, restarts, columns as they are measured."""

import math

import numpy as np
import pytest

from learners.algorithms.regression.change_test import Past, detect_change, note_round
from learners.algorithms.regression.expert_mixture import ABSENT, SHARE, reweigh
from learners.algorithms.regression.fastcb import FastCb
from learners.base import NO_LABEL, BoolArray, Contexts, FloatArray, IntArray, Prices, Problem, Rounds, every_label
from learners.evaluation.simulation import simulate
from tests.learners.arrays import as_sparse, bits, copied, is_finite
from tests.learners.worlds import one_round

K, D = 3, 16


def played(x: FloatArray, label: int, reward: float, eligible: BoolArray | None = None) -> Rounds:
    rounds = one_round(x, label, 0.3, label if reward == 1.0 else NO_LABEL, np.empty(0))
    among = every_label(1) if eligible is None else eligible[None]
    return rounds._replace(rewards=np.array([float(reward)]), eligible=among)


class Plain:
    """The models and their mixture, written plainly; A is inverted anew in each round."""

    def __init__(self, learning_rate: float, n_labels: int = K, *, dense: bool = True) -> None:
        self.previous, self.products = np.zeros(D), 0.0
        self.learning_rate, self.dense, self.t, self.learned, self.N, self.M = learning_rate, dense, 0, 0, 0.0, 0.0
        self.growth = max(1.0, min(n_labels / 10, math.sqrt(n_labels) / 2))
        self.W, self.G, self.V, self.H, self.whitened_W, self.whitened_V = np.zeros((6, n_labels, D))
        self.moments, self.curvature = np.eye(D), np.full((2, n_labels), 2.0)
        self.experts = np.full(4, 0.25)
        self.S, self.n = np.zeros(D), np.zeros(D)
        self.usual: list[list[float]] = [[] for _ in range(D)]
        self.centres, self.deviations, self.intercept = np.zeros(D), np.zeros(D), True

    def relative(self, x: FloatArray) -> FloatArray:
        present = np.full(D, self.t) if self.dense else self.n
        usual = (present >= 0.9 * self.t) & (self.n >= 0.3 * present)
        centred = self.intercept & usual & (self.deviations > 1e-10 * np.abs(self.centres))
        scale = np.where(centred, self.deviations, self.S)
        return np.clip(np.divide(x - centred * self.centres, scale, out=np.zeros(D), where=scale > 0), -5.0, 5.0)

    def present(self, x: FloatArray) -> IntArray:
        return np.arange(D) if self.dense else np.flatnonzero(x)

    def centre(self, x: FloatArray) -> None:
        constant = False
        for i in self.present(x):
            if not self.intercept or (not self.dense and self.n[i] < 0.9 * self.t):
                continue
            values, limit = self.usual[i], 5.0 * self.deviations[i]
            value = float(np.clip(x[i], -5.0 * self.S[i], 5.0 * self.S[i]))
            distance = value - self.centres[i] if values else 0.0
            clip = len(values) >= 10 and limit > 0
            values.append(self.centres[i] + float(np.clip(distance, -limit, limit)) if clip else value)
            self.centres[i], self.deviations[i] = np.mean(values), np.std(values)
            constant |= self.n[i] == self.t and len(set(values)) == 1
            self.deviations[i] *= len(set(values)) > 1
        self.intercept = constant

    def measure(self, x: FloatArray) -> None:
        self.t += 1
        for i in np.flatnonzero(x):
            self.n[i] += 1
            if self.n[i] <= 10 and abs(x[i]) < self.S[i] / 100:
                self.S[i], self.usual[i], self.centres[i], self.deviations[i] = abs(x[i]), [], 0.0, 0.0
                continue
            ratio = min(5.0, abs(x[i]) / self.S[i]) if self.S[i] > 0 else 1.0
            self.S[i] = abs(x[i]) if self.S[i] == 0 else self.S[i] * math.sqrt(1 + (ratio**2 - 1) / self.n[i])
        self.centre(x)

    def all_chances(self, z: FloatArray, among: BoolArray | None = None) -> FloatArray:
        found = []
        for W, V in ((self.W, self.V), (self.whitened_W, self.whitened_V)):
            q = np.exp(V @ z - (V @ z).max())
            q = q if among is None else np.where(among, q, 0.0)
            found += [np.clip(1.0 / (1.0 + np.exp(-W @ z)), 1e-6, 1 - 1e-6), q / q.sum()]
        return np.array(found)

    def chances(self, x: FloatArray) -> FloatArray:
        weights = np.where(self.experts >= 0.01, self.experts, 0.0)
        chances = np.clip(self.all_chances(self.relative(x)), 1e-6, 1 - 1e-6)
        return np.asarray(np.clip(weights @ chances / weights.sum(), 1e-6, 1 - 1e-6))

    def learn(self, x: FloatArray, k: int, reward: float, among: BoolArray | None = None) -> None:
        self.measure(x)
        z = self.relative(x)
        self.N, self.M = self.N + float(z @ z), self.M + float((self.n / self.t * z) @ z)
        self.products, self.previous = self.products + float(z @ self.previous) ** 2, z
        f, q, whitened_f, whitened_q = self.all_chances(z, among)
        step = self.learning_rate * math.sqrt(self.t / self.N) * min(1.0, (32 * self.t / self.M) ** 0.75)
        self.W, self.G = self.stepped(self.W, self.G, step, 6.0, self.slope(f, k, reward), z)
        alone = among is not None and among.sum() == 1
        if not alone:
            self.V, self.H = self.stepped(
                self.V, self.H, self.growth * step, self.growth * 6.0, self.slopes(q, k, reward), z
            )
            log = np.clip([f[k], q[k], whitened_f[k], whitened_q[k]], 1e-6, 1 - 1e-6)
            present = np.array([1.0, 1.0, self.whitens, self.whitens])
            self.experts *= np.exp(reward * np.log(log) + (1 - reward) * np.log(1 - log)) * present
            self.experts = (0.999 * self.experts / self.experts.sum() + 0.001 / present.sum()) * present
        if self.whitens:
            self.learn_whitened(k, reward, z, whitened_f, None if alone else whitened_q)

    @property
    def whitens(self) -> bool:
        return 12 * self.t <= self.products

    def learn_whitened(self, k: int, reward: float, z: FloatArray, f: FloatArray, q: FloatArray | None) -> None:
        self.learned += 1
        self.moments += np.outer(z, z)
        direction: FloatArray = self.learned * np.linalg.solve(self.moments, z).astype(np.float64)
        self.curvature[0, k] += max(0.02, f[k] * (1 - f[k]))
        moves = self.slope(f, k, reward) / self.curvature[0]
        self.whitened_W = self.whitened(self.whitened_W, moves, direction, z)
        if q is not None:
            slopes = self.slopes(q, k, reward)
            self.curvature[1] += slopes**2
            self.whitened_V = self.whitened(self.whitened_V, 2 * slopes / self.curvature[1], direction, z)

    @staticmethod
    def slope(f: FloatArray, k: int, reward: float) -> FloatArray:
        return np.asarray((f[k] - reward) * np.eye(len(f))[k])

    @staticmethod
    def slopes(q: FloatArray, k: int, reward: float) -> FloatArray:
        if_right, if_wrong = q - np.eye(len(q))[k], -q * q[k] / max(1 - q[k], 1e-6)
        if_wrong[k] = q[k]
        return np.asarray(reward * if_right + (1 - reward) * if_wrong)

    @staticmethod
    def stepped(
        weights: FloatArray, information: FloatArray, step: float, most: float, slopes: FloatArray, z: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        change = max(1e-300, step * np.abs(slopes).max() * float(z @ z) / 20)
        gradient = np.outer(slopes, z)
        information = information + gradient**2
        moved = weights - step * min(1.0, most / change) * gradient / (20 + information)
        return np.clip(moved, -20, 20), information

    @staticmethod
    def whitened(weights: FloatArray, moves: FloatArray, direction: FloatArray, z: FloatArray) -> FloatArray:
        change = max(1e-300, np.abs(moves).max() * float(direction @ z))
        return np.asarray(np.clip(weights - min(1.0, 2.0 / change) * np.outer(moves, direction), -20, 20))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("whole", [True, False], ids=["bits", "rewards of subsets"])
@pytest.mark.parametrize(
    ("n_labels", "learning_rate", "dense"), [(K, 32.0, True), (K, 32.0, False), (60, 32.0, True), (K, 1000.0, False)]
)
def test_models_match_the_plain_ones(
    n_labels: int, learning_rate: float, *, dense: bool, whole: bool, intercept: bool
) -> None:
    rng = np.random.default_rng(3)
    learner = FastCb(problem=Problem(n_labels, D), learning_rate=learning_rate)
    state, plain = learner.init(), Plain(learning_rate, n_labels, dense=dense)
    for t in range(300):
        often = rng.random(D) < (np.tile((0.6, 0.6, 0.93, 1.0), 4) if t > 99 else 0.3)  # later, whitened models join
        x = (rng.normal(size=D) + np.tile((0, 0, 3, 9), 4)) * often * (1.0 + t / 50) * (1000.0 if t % 97 == 96 else 1.0)
        x[0] = 2.5 if intercept else x[0]
        k, right = int(rng.integers(n_labels)), bool(rng.random() < 0.4)
        reward = float(right) if whole else float(rng.choice([0.0, 0.2, 0.9, 1.0]))
        among = None if whole else (rng.random(n_labels) < rng.random()) | (np.arange(n_labels) == k)
        rounds = played(x, k, reward, among)
        state = learner.fold(state, rounds if dense else rounds._replace(contexts=as_sparse(rounds.contexts)))
        plain.learn(x, k, reward, among)
        known = state.features[: state.row_counts[0]]
        for mine, theirs in (
            (state.label_weights, plain.W),
            (state.softmax_weights, plain.V),
            (state.whitened_label_weights, plain.whitened_W),
            (state.whitened_softmax_weights, plain.whitened_V),
        ):
            np.testing.assert_allclose(mine[: len(known)].T, theirs[:, known], rtol=1e-5, atol=1e-6)
        models = state.experts[:4] / state.experts[:4].sum()  # the reward rates take no part with features
        np.testing.assert_allclose(models, plain.experts, rtol=1e-5)
    assert 100 < plain.learned < 290


def test_weights_are_clipped() -> None:
    learner = FastCb(problem=Problem(2, 1), learning_rate=1000.0)
    state = learner.init()
    for t in range(3000):
        state = learner.fold(state, played(np.array([1000.0 if t % 26 == 0 else 1.0]), 0, True))
    assert np.abs(state.label_weights).max() == 20.0
    assert np.abs(state.softmax_weights).max() <= 20.0


def test_relative_gaps_match_the_formula() -> None:
    """Labels get l/(K l + γ (h_leader - h_k)), mixed with a share of uniform exploration."""
    rng, plain = np.random.default_rng(5), Plain(32.0)
    learner = FastCb(problem=Problem(K, D), gap_scale=4.0, least_exploration=0.1)
    state, mistakes = learner.init(), 0
    for t in range(120):
        x = rng.normal(size=D)
        h = plain.chances(x)
        loss, gaps = 1.0 - h.max(), h.max() - h
        rarer, loss = min(mistakes, K * (t - mistakes)), min(loss, K * h.max())
        p = loss / (K * loss + max(10 * K, 4.0 * math.sqrt(K * (1 + rarer))) * gaps)
        p[h.argmax()] += 1.0 - p.sum()
        decided = learner.decide(state, Contexts.dense(x)).distributions[0]
        assert decided == pytest.approx(0.9 * p + 0.1 / K, rel=1e-9)
        penalties = 0.3 * (costs := rng.random(K)) - 0.3 * costs.min()
        v, top = h - penalties, (h - penalties).argmax()
        rarer = min(mistakes + penalties[top] * t, K * (t - mistakes))
        loss = min(1.0 - v[top], K * h.max())
        p = loss / (K * loss + max(10 * K, 4.0 * math.sqrt(K * (1 + rarer))) * (v[top] - v))
        p[top] += 1.0 - p.sum()
        priced = learner.decide(state, Contexts.dense(x), None, Prices(np.array([0.3]), costs[np.newaxis]))
        assert t == 0 or priced.distributions[0] == pytest.approx(0.9 * p + 0.1 / K, rel=1e-9)  # rates count at first
        k, right = int(rng.integers(K)), bool(rng.random() < (0.02 if t < 60 else 0.5))
        mistakes += not right
        state = learner.fold(state, played(x, k, right))
        plain.learn(x, k, right)


def test_mixture_costs_little_more_than_the_best_expert_of_each_stretch() -> None:
    """The bound of Herbster and Warmuth 1998, for six stretches; experts come and go between them."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        weights, mixed, best, T, stretches = np.full(3, 1 / 3), 0.0, 0.0, 0, 6
        for stretch in range(stretches):
            losses = np.zeros(3)
            for _ in range(int(rng.integers(1, 200))):
                chances = np.maximum(1e-6, rng.random(3) ** (1 + 3 * (np.arange(3) == stretch % 3)))
                mixed -= math.log(weights @ chances)
                reweigh(weights, -np.log(chances))
                losses, T = losses - np.log(chances), T + 1
            best += losses.min()
        switches = stretches - 1
        regret = (switches + 1) * math.log(3) - switches * math.log(SHARE) - (T - switches - 1) * math.log1p(-SHARE)
        assert mixed <= best + regret + 1e-6
        assert weights.sum() == pytest.approx(1.0)


def test_absent_experts_have_no_weight_and_come_back() -> None:
    weights = np.array([0.5, 0.5])
    reweigh(weights, np.array([ABSENT, 3.0]))
    assert weights.tolist() == [0.0, 1.0]
    for _ in range(20):
        reweigh(weights, np.array([0.1, 3.0]))
    assert weights[0] > 0.9


def test_restart_forgets_everything_but_scales() -> None:
    rng, learner = np.random.default_rng(3), FastCb(problem=Problem(5, D), restart_risk=1e-9)
    state, fresh, t = learner.init(), learner.init(), 0
    while state.counts[1] == 0 and t < 400:
        before, t = copied(state), t + 1
        latest = played(rng.normal(size=D), int(rng.integers(5)), bool(t <= 300 and rng.random() < 0.95))
        state = learner.fold(state, latest)
    assert 310 < t < 340
    for name in ("features", "slots", "row_counts", "scales", "means", "latest", "previous", "whitening", "rounds"):
        getattr(fresh, name)[...] = getattr(before, name)
    fresh.counts[2:] = before.counts[2:]
    fresh = learner.fold(fresh, latest)
    assert bits(state._replace(counts=fresh.counts, rounds=fresh.rounds)) == bits(fresh)
    assert state.counts.tolist() == [int(fresh.counts[0]), 1, *fresh.counts.tolist()[2:]]
    assert state.rounds == t


@pytest.mark.parametrize("extreme", [1e-300, 1e-150, 5e-324, 1e150, 1.7e308])
def test_extreme_values_keep_the_model(extreme: float) -> None:
    learner = FastCb(problem=Problem(2, 2))
    state = learner.init()
    for x in (1.0, extreme, -extreme, 0.0, *[1.0] * 30):
        state = learner.fold(state, played(np.array([x, 1.0]), 0, True))
        for context in (x, 1.0, extreme):
            assert np.isfinite(learner.decide(state, Contexts.dense([[context, 1.0]])).distributions).all()
    assert is_finite(state)
    assert learner.decide(state, Contexts.dense([[1.0, 1.0]])).distributions[0, 0] > 0.8


def mistakes(columns: FloatArray, labels: IntArray, seed: int) -> FloatArray:
    contexts = np.column_stack([columns, np.ones(len(columns))])
    learner = FastCb(problem=Problem(int(labels.max()) + 1, contexts.shape[1]))
    uniforms = np.random.default_rng([seed, 1]).random(len(labels))
    return simulate(learner, Contexts.dense(contexts), labels, uniforms).mistakes.astype(np.float64)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rule", ["income above age", "both large", "income above twice age"])
def test_age_and_income_are_learned_as_they_are(rule: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    age, income = rng.uniform(18, 80, 3000), rng.uniform(10_000, 200_000, 3000)
    rules = {
        "income above age": income / 1000 > age,
        "both large": income / 1000 + age > 150,
        "income above twice age": income / 1000 > 2 * age,
    }
    wrong = mistakes(np.column_stack([age, income]), rules[rule].astype(np.int64), seed)
    assert wrong[2000:].mean() <= 0.05


@pytest.mark.parametrize("offset", [0.0, 2.0, 2000.0])
def test_units_and_offsets_cost_at_most_two_points(offset: float) -> None:
    raw, standardized = [], []
    for seed in range(4):
        rng = np.random.default_rng([seed, 2])
        columns, weights = rng.normal(size=(10_000, 13)), rng.normal(size=(13, 5))
        labels = (columns @ weights).argmax(axis=1)
        standardized.append(mistakes(columns, labels, seed).mean())
        moved = (columns + offset * (np.arange(13) % 2)) * 10.0 ** (np.arange(13) / 2)
        raw.append(mistakes(moved, labels, seed).mean())
    assert np.mean(raw) <= np.mean(standardized) + 0.02


def test_rare_zeros_of_a_usual_feature_are_values() -> None:
    rng = np.random.default_rng(3)
    columns = rng.uniform(1.0, 3.0, (6000, 3))
    columns[rng.random(6000) < 0.05, 0] = 0.0
    labels = np.where(columns[:, 0] == 0.0, 1, 2 * (columns[:, 1] > columns[:, 2]))
    wrong = mistakes(columns, labels, 3)
    assert wrong[3000:].mean() <= 0.02
    assert wrong[3000:][columns[3000:, 0] == 0.0].mean() <= 0.2


def test_offsets_are_kept_without_an_intercept() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 2000)
    columns = (10.0 + rng.normal(size=(2000, 1))) * np.eye(2)[labels]
    learner = FastCb(problem=Problem(2, 2))
    wrong = simulate(learner, Contexts.dense(columns), labels, rng.random(2000)).mistakes
    assert wrong[1000:].mean() <= 0.01


@pytest.mark.parametrize("outlier", [1e4, 1e9])
@pytest.mark.parametrize("at", [0, 1, 4, 8, 12])
def test_an_outlier_among_the_first_values_is_overcome(at: int, outlier: float) -> None:
    rng = np.random.default_rng(at)
    age = rng.integers(18, 80, 1000).astype(np.float64)
    labels = (age > 45).astype(np.int64)
    age[at] = outlier
    assert mistakes(age[:, np.newaxis], labels, at)[600:].mean() <= 0.05


class PlainTest:
    def __init__(self, n_labels: int) -> None:
        self.K, self.t, self.mistakes, self.recent = n_labels, 0, 0.0, 0.0
        self.sum, self.excess = 0.0, 0.0

    def changed(self, loss: float, threshold: float) -> bool:
        uniform = 1 - 1 / self.K
        share, restart = max(0.1, (self.mistakes + 2 * uniform) / (self.t + 2)), False
        if self.t > 0 and share < uniform:
            if self.sum == 0:
                self.excess = -max(10 * self.K, self.mistakes - self.t * self.recent) / 3
            rate = (share + uniform) / 2
            likelihood = loss * math.log(rate / share) + (1 - loss) * math.log((1 - rate) / (1 - share))
            self.sum = max(0.0, self.sum + likelihood)
            self.excess += loss - share
            restart = self.sum > threshold and self.excess > 0
        self.t, self.mistakes = self.t + 1, self.mistakes + loss
        self.recent += (loss - self.recent) * min(1.0, 4 / (self.t + 3))
        return restart


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("n_labels", [2, 10])
def test_change_test_matches_the_plain_one(n_labels: int, parts: int) -> None:
    rng, threshold, restarts = np.random.default_rng(6), 9.0, 0
    for _ in range(20):
        test, past, plain = np.zeros(3), Past(0, 0.0), PlainTest(n_labels)
        rates = np.repeat(rng.uniform(0, 1, 8) ** 2, 150)
        for loss in (rng.random((len(rates), parts)) < rates[:, None]).mean(axis=1).tolist():
            decided = detect_change(test, past, loss, threshold, n_labels)
            past = Past(past.rounds + 1, past.mistakes + loss)
            note_round(test, past.rounds, loss)
            assert decided == plain.changed(loss, threshold)
            assert [max(0.0, test[0]), test[1]] == pytest.approx([plain.sum, plain.recent], abs=1e-9)
            restarts += decided
    assert restarts > 10


@pytest.mark.parametrize("error", [0.05, 0.3, 0.6])
def test_false_alarms_are_as_rare_as_promised(error: float) -> None:
    """If mistakes are at most as probable as the share so far, the sum rarely exceeds -ln α."""
    rng, threshold, alarms, n, alpha = np.random.default_rng(4), -math.log(1e-3), 0, 1000, 1e-3
    for _ in range(n):
        test, past = np.zeros(3), Past(0, 0.0)
        for uniform in rng.random(100):
            share = (past.mistakes + 1.8) / (past.rounds + 2)
            wrong = float(uniform < min(error, share))
            detect_change(test, past, wrong, threshold, 10)
            past = Past(past.rounds + 1, past.mistakes + wrong)
            note_round(test, past.rounds, wrong)
            if test[0] > threshold:
                alarms += 1
                break
    assert alarms <= n * 100 * alpha


def reward_of(contexts: FloatArray, chances: FloatArray, seed: int) -> float:
    n, right = len(contexts), np.random.default_rng([seed, 3]).random((len(contexts), len(chances))) < chances
    learner = FastCb(problem=Problem(len(chances), contexts.shape[1]))
    best = np.full(n, int(chances.argmax()))
    played = simulate(learner, Contexts.dense(contexts), best, np.random.default_rng([seed, 4]).random(n), right=right)
    return 1.0 - float(played.mistakes.mean())


@pytest.mark.parametrize("d", [384, 1536])
def test_noise_costs_at_most_a_hundredth_of_the_reward_without_features(d: int) -> None:
    chances, n, rewards = np.array([0.4, 0.8, 0.65, 0.55]), 6000, []
    for seed in range(4):
        noise = np.random.default_rng([seed, 5]).normal(size=(n, d))
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        rewards.append([reward_of(np.column_stack([one, np.ones(n)]), chances, seed) for one in (noise, noise[:, :0])])
    with_noise, without = np.mean(rewards, axis=0)
    assert with_noise >= 0.99 * without


def test_correlated_columns_are_learned() -> None:
    errors = []
    for seed in range(3):
        rng = np.random.default_rng([seed, 6])
        axes, _ = np.linalg.qr(rng.normal(size=(20, 20)))
        points, weights = rng.normal(size=(10_000, 20)), rng.normal(size=(20, 6))
        labels = (points @ weights).argmax(axis=1)
        errors.append(mistakes(points * np.geomspace(1, 0.03, 20) @ axes, labels, seed)[5000:].mean())
    assert np.mean(errors) <= 0.1


def test_few_correlated_columns_are_learned_as_with_noise_beside_them() -> None:
    errors = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 16])
        axes, _ = np.linalg.qr(rng.normal(size=(10, 10)))
        points, weights, noise = rng.normal(size=(3000, 10)), rng.normal(size=(10, 4)), rng.normal(size=(3000, 3))
        labels, columns = (points @ weights).argmax(axis=1), points * np.geomspace(1, 0.01, 10) @ axes
        both = (columns, np.column_stack([columns, noise]))
        errors.append([mistakes(each, labels, seed)[2000:].mean() for each in both])
    alone, with_noise = np.mean(errors, axis=0)
    assert alone <= with_noise + 0.03


def test_a_half_life_follows_a_rotating_world() -> None:
    errors = []
    for seed in range(2):
        rng, n = np.random.default_rng([seed, 7]), 30_000
        points, (sine, cosine) = rng.normal(size=(n, 15)), rng.normal(size=(2, 15, 5))
        angle = 2 * np.pi * np.arange(n)[:, np.newaxis] / n
        labels = (np.sin(angle) * (points @ sine) + np.cos(angle) * (points @ cosine)).argmax(axis=1)
        contexts = Contexts.dense(np.column_stack([points, np.ones(n)]))
        for half_life in (None, 2000.0):
            learner = FastCb(problem=Problem(5, 16), half_life_rounds=half_life)
            errors.append(simulate(learner, contexts, labels, rng.random(n)).mistakes.mean())
    assert np.mean(errors[1::2]) <= 0.75 * np.mean(errors[::2])


def test_an_infinitely_long_half_life_changes_nothing() -> None:
    rng = np.random.default_rng(8)
    contexts = Contexts.dense(rng.normal(size=(500, D)))
    labels, uniforms = rng.integers(0, K, 500), rng.random(500)
    forever, long = (FastCb(problem=Problem(K, D), half_life_rounds=one) for one in (None, 1e12))
    states = [simulate(learner, contexts, labels, uniforms).state for learner in (forever, long)]
    for mine, theirs in zip(*(state._replace(latest=np.zeros(0)) for state in states), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("chances", "most"), [((0.9, 0.99), 0.05), ((0.9, 0.92, 0.95), 0.35), ((0.5,) * 9 + (0.6,), 0.7)]
)
def test_tests_of_labels_without_features_find_the_best(chances: tuple[float, ...], most: float) -> None:
    """The regret is at most this part of that of uniform draws, on average."""
    worth = np.array(chances)
    regrets = [worth.max() - reward_of(np.ones((20_000, 1)), worth, seed) for seed in range(24)]
    assert np.mean(regrets) <= most * (worth.max() - worth.mean())


def test_rare_further_features_do_not_end_what_was_learned() -> None:
    accuracies = []
    for junk in (False, True):
        rng, n = np.random.default_rng(9), 10_000
        axes, _ = np.linalg.qr(rng.normal(size=(75, 75)))
        points, weights = rng.normal(size=(n, 75)), rng.normal(size=(75, 5))
        labels = (points @ weights).argmax(axis=1)
        further = np.zeros((n, 10))
        if junk:
            further[np.arange(5000, n, 50), rng.integers(0, 10, 100)] = 1.0
        columns = np.column_stack([points * np.geomspace(1, 0.03, 75) @ axes, np.ones(n), further])
        contexts = as_sparse(Contexts.dense(columns))
        learner = FastCb(problem=Problem(5, columns.shape[1]))
        accuracies.append(1.0 - simulate(learner, contexts, labels, rng.random(n)).mistakes[7000:].mean())
    assert accuracies[1] >= accuracies[0] - 0.05


def test_many_labels_are_learned_from_embeddings() -> None:
    errors, n_labels, n, d = [], 77, 12_000, 384
    for seed in (10, 11):
        rng = np.random.default_rng(seed)
        centres, labels = rng.normal(size=(n_labels, d)), rng.integers(0, n_labels, n)
        columns = centres[labels] + rng.normal(size=(n, d))
        columns /= np.linalg.norm(columns, axis=1, keepdims=True)
        labels = np.where(rng.random(n) < 0.1, rng.integers(0, n_labels, n), labels)
        errors.append(mistakes(columns, labels, seed)[9000:].mean())
    assert np.mean(errors) <= 0.4


def test_columns_that_are_mostly_zero_are_learned_dense_as_they_are_sparse() -> None:
    errors, learner, n = [], FastCb(problem=Problem(5, 301)), 6000
    for seed in range(3):
        rng = np.random.default_rng([seed, 11])
        columns = np.column_stack([rng.normal(size=(n, 300)) * (rng.random((n, 300)) < 0.02), np.ones(n)])
        labels, uniforms = (columns @ rng.normal(size=(301, 5))).argmax(axis=1), rng.random(n)
        dense = Contexts.dense(columns)
        errors.append([simulate(learner, x, labels, uniforms).mistakes.mean() for x in (dense, as_sparse(dense))])
    of_dense, of_sparse = np.mean(errors, axis=0)
    assert of_dense == pytest.approx(of_sparse, abs=0.02)


def test_a_row_from_the_future_keeps_the_state_finite() -> None:
    rng, learner = np.random.default_rng(12), FastCb(problem=Problem(K, D), half_life_rounds=10.0)
    state = learner.fold(learner.init(), played(rng.normal(size=D), 0, True))
    state.latest[:] = 2**62
    assert is_finite(learner.fold(state, played(rng.normal(size=D), 1, False)))


@pytest.mark.parametrize("dense", [True, False])
def test_few_segments_with_many_rewards_are_told_apart(*, dense: bool) -> None:
    """Each segment has its best label, which earns .99, and the others .9; nearly all seeds must find all of them."""
    n, found = 5000, []
    for seed in range(24):
        rng = np.random.default_rng([seed, 15])
        segments, learner = rng.integers(0, 2, n), FastCb(problem=Problem(2, 3))
        contexts = Contexts.dense(np.column_stack([np.eye(2)[segments], np.ones(n)]))
        right = rng.random((n, 2)) < np.where(np.eye(2)[segments] > 0, 0.99, 0.9)
        contexts = contexts if dense else as_sparse(contexts)
        answers = simulate(learner, contexts, segments, rng.random(n), right=right).labels[3 * n // 4 :]
        found.append((answers == segments[3 * n // 4 :]).mean())
    assert np.mean(np.array(found) > 0.75) >= 0.9


def test_a_single_number_is_no_constant() -> None:
    rng, n = np.random.default_rng(14), 10_000
    columns = rng.normal(size=(n, 1))
    labels = ((columns[:, 0] > 0) ^ (rng.random(n) < 0.1)).astype(np.int64)
    wrong = simulate(FastCb(problem=Problem(2, 1)), Contexts.dense(columns), labels, rng.random(n)).mistakes
    assert wrong.mean() <= 0.12
