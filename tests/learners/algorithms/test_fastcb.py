"""FastCB: its state against one written out plainly, its exploration, restarts, features, and what is proved."""

import math
from copy import deepcopy

import numpy as np
import pytest

from learners.algorithms.regression.fastcb import FastCb
from learners.algorithms.regression.logistic_mixture import share_of_softmax
from learners.base import NO_LABEL, BoolArray, Contexts, FloatArray, IntArray, Problem, Rounds, every_label
from learners.evaluation.simulation import simulate
from tests.learners.arrays import bits, copied, is_finite

K, D = 3, 4


def one_round(x: FloatArray, label: int, reward: float, eligible: BoolArray | None = None) -> Rounds:
    """Return one round with a propensity, which the models ignore."""
    truth, among = np.array([NO_LABEL]), every_label(1) if eligible is None else eligible[None]
    outcome = np.array([label]), np.array([0.3]), np.array([reward == 1.0])
    rounds = Rounds.of_bits(Contexts.dense(x), *outcome, truth, np.empty((1, 0)), np.zeros(1))
    return rounds._replace(rewards=np.array([float(reward)]), eligible=among)


class Plain:
    """The mixture of both models, written out without optimization."""

    def __init__(self, learning_rate: float, n_labels: int = K) -> None:
        self.learning_rate, self.t, self.N = learning_rate, 0, 0.0
        self.growth = max(1.0, min(n_labels / 10, math.sqrt(n_labels) / 2))
        self.W, self.G, self.V, self.H = np.zeros((4, n_labels, D))
        self.S, self.n, self.losses = np.zeros(D), np.zeros(D), np.zeros(2)
        self.usual: list[list[float]] = [[] for _ in range(D)]
        self.centres, self.deviations, self.intercept = np.zeros(D), np.zeros(D), True

    def relative(self, x: FloatArray) -> FloatArray:
        """Return x in units of root mean squares, or its distance from the mean in deviations, clipped."""
        centred = self.intercept & (self.n >= 0.9 * self.t) & (self.deviations > 1e-10 * np.abs(self.centres))
        scale = np.where(centred, self.deviations, self.S)
        return np.clip(np.divide(x - centred * self.centres, scale, out=np.zeros(D), where=scale > 0), -5.0, 5.0)

    def centre(self, x: FloatArray) -> None:
        """Update the means and deviations, with clipped values after the first ten."""
        constant = False
        for i in np.flatnonzero(x):
            if not self.intercept or self.n[i] < 0.9 * self.t:
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
        """Update the scales and means."""
        self.t += 1
        for i in np.flatnonzero(x):
            self.n[i] += 1
            if self.n[i] <= 10 and abs(x[i]) < self.S[i] / 100:
                self.S[i], self.usual[i], self.centres[i], self.deviations[i] = abs(x[i]), [], 0.0, 0.0
                continue
            ratio = min(5.0, abs(x[i]) / self.S[i]) if self.S[i] > 0 else 1.0
            self.S[i] = abs(x[i]) if self.S[i] == 0 else self.S[i] * math.sqrt(1 + (ratio**2 - 1) / self.n[i])
        self.centre(x)

    def both(self, x: FloatArray, among: BoolArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return every label's chance by both models."""
        z = self.relative(x)
        f, q = 1.0 / (1.0 + np.exp(-self.W @ z)), np.exp(self.V @ z - (self.V @ z).max())
        q = q if among is None else np.where(among, q, 0.0)
        return np.clip(f, 1e-6, 1 - 1e-6), q / q.sum()

    def chances(self, x: FloatArray) -> FloatArray:
        """Return every label's chance by the mixture."""
        f, q = self.both(x)
        weights = np.exp(self.losses.min() - self.losses)
        weights /= weights.sum()
        return np.asarray(weights[0] * f + weights[1] * np.clip(q, 1e-6, 1 - 1e-6))

    def learn(self, x: FloatArray, k: int, reward: float, among: BoolArray | None = None) -> None:
        """Learn from one round."""
        self.measure(x)
        z, (f, q) = self.relative(x), self.both(x, among)
        alone = among is not None and among.sum() == 1
        self.N += float(z @ z)
        for number, chance in enumerate((f[k], np.clip(q[k], 1e-6, 1 - 1e-6))):
            self.losses[number] -= 0 if alone else reward * math.log(chance) + (1 - reward) * math.log(1 - chance)
        step = self.learning_rate * math.sqrt(self.t / self.N) if self.N > 0 else 0.0
        slopes = np.zeros(len(f))
        slopes[k] = f[k] - reward
        self.W, self.G = self.stepped(self.W, self.G, step, 6.0, slopes, z)
        if alone:
            return
        if_right, if_wrong = q - np.eye(len(q))[k], -q * q[k] / max(1 - q[k], 1e-6)
        if_wrong[k] = q[k]
        slopes = reward * if_right + (1 - reward) * if_wrong
        self.V, self.H = self.stepped(self.V, self.H, self.growth * step, self.growth * 6.0, slopes, z)

    @staticmethod
    def stepped(
        weights: FloatArray, information: FloatArray, step: float, most: float, slopes: FloatArray, z: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return weights and information after one step."""
        change = max(1e-300, step * np.abs(slopes).max() * float(z @ z) / 20)
        gradient = np.outer(slopes, z)
        information = information + gradient**2
        moved = weights - step * min(1.0, most / change) * gradient / (20 + information)
        return np.clip(moved, -20, 20), information


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("whole", [True, False], ids=["bits", "rewards of subsets"])
@pytest.mark.parametrize(("n_labels", "learning_rate"), [(K, 32.0), (60, 32.0), (K, 1000.0)])
def test_models_match_the_plain_ones(n_labels: int, learning_rate: float, *, whole: bool, intercept: bool) -> None:
    """Both models and their log losses match, with features that come, go, grow and have outliers."""
    rng = np.random.default_rng(3)
    learner = FastCb(problem=Problem(n_labels, D), learning_rate=learning_rate)
    state, plain = learner.init(), Plain(learning_rate, n_labels)
    for t in range(300):
        often = rng.random(D) < (0.6, 0.6, 0.93, 1.0)
        x = (rng.normal(size=D) + np.array([0, 0, 3, 9])) * often * (1.0 + t / 50) * (1000.0 if t % 97 == 96 else 1.0)
        x[0] = 2.5 if intercept else x[0]
        k, right = int(rng.integers(n_labels)), bool(rng.random() < 0.4)
        if not x.any():
            continue
        reward = float(right) if whole else float(rng.choice([0.0, 0.2, 0.9, 1.0]))
        among = None if whole else (rng.random(n_labels) < rng.random()) | (np.arange(n_labels) == k)
        state = learner.fold(state, one_round(x, k, reward, among))
        plain.learn(x, k, reward, among)
        known = state.features[: state.row_counts[0]]
        for mine, theirs in zip((state.label_weights, state.softmax_weights), (plain.W, plain.V), strict=True):
            np.testing.assert_allclose(mine[: len(known)].T, theirs[:, known], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(state.sums[:2], plain.losses, rtol=1e-9)


def test_weights_are_clipped() -> None:
    """A feature whose usual values are small beside its outliers has its weights limited to 20."""
    learner = FastCb(problem=Problem(2, 1), learning_rate=1000.0)
    state = learner.init()
    for t in range(3000):
        state = learner.fold(state, one_round(np.array([1000.0 if t % 26 == 0 else 1.0]), 0, True))
    assert np.abs(state.label_weights).max() == 20.0
    assert np.abs(state.softmax_weights).max() <= 20.0


def test_relative_gaps_match_the_formula() -> None:
    """Labels get l/(K l + γ (h_leader - h_k)), mixed with a share of uniform exploration."""
    rng, plain = np.random.default_rng(5), Plain(32.0)
    learner = FastCb(problem=Problem(K, D), gap_scale=4.0, least_exploration=0.1)
    state, mistakes = learner.init(), 0
    for _ in range(120):
        x = rng.normal(size=D)
        h = plain.chances(x)
        loss, gaps = 1.0 - h.max(), h.max() - h
        p = loss / (K * loss + max(10 * K, 4.0 * math.sqrt(K * (1 + mistakes))) * gaps)
        p[h.argmax()] += 1.0 - p.sum()
        decided = learner.decide(state, Contexts.dense(x)).distributions[0]
        assert decided == pytest.approx(0.9 * p + 0.1 / K, rel=1e-9)
        k, right = int(rng.integers(K)), bool(rng.random() < 0.5)
        mistakes += not right
        state = learner.fold(state, one_round(x, k, right))
        plain.learn(x, k, right)


def test_mixture_costs_at_most_ln_2() -> None:
    """The mixture's log loss exceeds the better model's by at most ln 2, even where the better one changes often."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        losses, mixed = np.zeros(2), 0.0
        for stretch in range(6):
            for _ in range(int(rng.integers(1, 60))):
                chances = np.maximum(1e-6, rng.random(2) ** (1 + 3 * (np.arange(2) == stretch % 2)))
                share = share_of_softmax(losses[0], losses[1])
                mixed -= math.log((1.0 - share) * chances[0] + share * chances[1])
                losses -= np.log(chances)
        assert mixed <= losses.min() + math.log(2.0) + 1e-6


@pytest.mark.parametrize(("exclusive", "share"), [(True, 1.0), (False, 0.0)])
def test_mixture_moves_to_the_better_model(exclusive: bool, share: float) -> None:
    """Softmax wins where exactly one label is right; one-vs-rest wins where labels are right independently."""
    rng = np.random.default_rng(11)
    learner, U = FastCb(problem=Problem(K, D)), 2.0 * rng.normal(size=(D, K))
    state = learner.init()
    for _ in range(2000):
        x = rng.normal(size=D)
        chances = 1.0 / (1.0 + np.exp(-(x @ U)))
        k, best = int(rng.integers(K)), int((x @ U).argmax())
        right = best == k if exclusive else bool(rng.random() < chances[k])
        state = learner.fold(state, one_round(x, k, right))
    assert share_of_softmax(*state.sums[:2]) == share


def drifting(T: int, n_labels: int = 5) -> tuple[Contexts, IntArray]:
    """Return 2 T contexts and labels; all labels change after the first T."""
    rng = np.random.default_rng(2)
    x, U = rng.normal(size=(2 * T, D)), rng.normal(size=(D, n_labels))
    labels = (x @ U).argmax(axis=1)
    labels[T:] = (labels[T:] + 1) % n_labels
    return Contexts.dense(x), labels


def test_restart_forgets_everything_but_scales() -> None:
    """After a change, the learner restarts once, and goes on as a new learner with the same features and scales."""
    rng, learner = np.random.default_rng(3), FastCb(problem=Problem(5, D), restart_risk=1e-9)
    state, fresh, t = learner.init(), learner.init(), 0
    while state.counts[1] == 0 and t < 400:
        before, t = copied(state), t + 1
        played = one_round(rng.normal(size=D), int(rng.integers(5)), bool(t <= 300 and rng.random() < 0.95))
        state = learner.fold(state, played)
    assert 310 < t < 340
    for name in ("features", "slots", "row_counts", "scales", "means", "rounds"):
        getattr(fresh, name)[...] = getattr(before, name)
    fresh.counts[2:] = before.counts[2:]
    fresh = learner.fold(fresh, played)
    assert bits(state._replace(counts=fresh.counts, rounds=fresh.rounds)) == bits(fresh)
    assert state.counts.tolist() == [int(fresh.counts[0]), 1, *fresh.counts.tolist()[2:]]
    assert state.rounds == t


def test_restart_recovers_faster_than_none() -> None:
    """With restarts, the mistakes after a change are close to those of a new learner, and fewer than without."""
    T, uniforms = 8000, np.random.default_rng(3).random(16_000)
    contexts, labels = drifting(T)
    with_restarts, without = (
        simulate(FastCb(problem=Problem(5, D), restart_risk=risk), contexts, labels, uniforms).mistakes[T:].sum()
        for risk in (1e-9, 0.0)
    )
    fresh = simulate(FastCb(problem=Problem(5, D)), contexts.rows(T, 2 * T), labels[T:], uniforms[T:]).mistakes.sum()
    assert with_restarts < 1.5 * fresh
    assert with_restarts < 0.75 * without


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_mixture_of_folded_rounds_costs_at_most_ln_2(size: float) -> None:
    """Evaluated when each round is folded, the mixture's log loss exceeds the better model's by at most ln 2.

    Contexts of zeros count too: there, the models predict 1/2 and 1/K.
    """
    rng, learner = np.random.default_rng(8), FastCb(problem=Problem(10, D))
    state, plain, mixed = learner.init(), Plain(32.0, 10), 0.0
    for t in range(400):
        x = size * rng.normal(size=D) * (1000.0 if t % 50 == 49 else 1.0)
        k, right = int(rng.integers(10)), bool(rng.random() < 0.1)
        after = deepcopy(plain)
        after.measure(x)
        chance = after.chances(x)[k]
        mixed -= math.log(chance if right else 1.0 - chance)
        plain.learn(x, k, right)
        state = learner.fold(state, one_round(x, k, right))
        assert state.sums[:2] == pytest.approx(plain.losses, rel=1e-9)
    assert mixed <= state.sums[:2].min() + math.log(2.0) + 1e-6


def test_units_of_features_do_not_matter_to_fastcb() -> None:
    """Rescaled features give the same answers."""
    rng = np.random.default_rng(4)
    learner, units = FastCb(problem=Problem(K, D, norm_bound=1e6)), np.array([1e-3, 1.0, 37.0, 1e4])
    one, other = learner.init(), learner.init()
    for _ in range(200):
        x, k, correct = rng.normal(size=D), int(rng.integers(K)), bool(rng.random() < 0.5)
        one = learner.fold(one, one_round(x, k, correct))
        other = learner.fold(other, one_round(x * units, k, correct))
    x = rng.normal(size=(5, D))
    first = learner.decide(one, Contexts.dense(x)).distributions
    assert learner.decide(other, Contexts.dense(x * units)).distributions == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize("extreme", [1e-300, 1e-150, 5e-324, 1e150, 1.7e308])
def test_extreme_values_keep_the_model(extreme: float) -> None:
    """After values too small to square, or so large that a norm overflows, the next contexts are learned from."""
    learner = FastCb(problem=Problem(2, 2))
    state = learner.init()
    for x in (1.0, extreme, -extreme, 0.0, *[1.0] * 30):
        state = learner.fold(state, one_round(np.array([x, 1.0]), 0, True))
        for context in (x, 1.0, extreme):
            assert np.isfinite(learner.decide(state, Contexts.dense([[context, 1.0]])).distributions).all()
    assert is_finite(state)
    assert learner.decide(state, Contexts.dense([[1.0, 1.0]])).distributions[0, 0] > 0.8
