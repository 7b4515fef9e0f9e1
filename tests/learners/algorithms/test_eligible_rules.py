"""The rules of some learners among eligible labels, against formulas."""

import math

import numpy as np
import pytest

from learners.algorithms.fenchel_young.fenchel_young_ordinal import FenchelYoungOrdinal
from learners.algorithms.improper.adahedge import AdaHedge
from learners.algorithms.improper.bandit_reduction import explored
from learners.algorithms.improper.folklore_bandit import FolkloreBandit
from learners.algorithms.regression.fastcb import FastCb
from learners.algorithms.regression.squarecb import SquareCb
from learners.base import BoolArray, Contexts, FloatArray, Problem, Rounds
from learners.mathematics.exploration import draw
from tests.learners.arrays import assert_close

K = 5
AMONG = np.array([[False, True, True, False, True]])


def inverse_gaps(values: FloatArray, gap_weight: float) -> FloatArray:
    p = 1.0 / (len(values) + gap_weight * (values.max() - values))
    p[values.argmax()] = 0.0
    p[values.argmax()] = 1.0 - p.sum()
    return np.asarray(p)


def taught(learner: FastCb | SquareCb, rounds: int) -> tuple[object, Contexts]:
    rng, x = np.random.default_rng(2), Contexts.dense(np.ones(1))
    state = learner.init()
    for _ in range(rounds):
        k = rng.integers(0, K, 1)
        correct = rng.random(1) < 0.15 * (k + 1)
        bits = Rounds.of_bits(x, k, np.full(1, 0.2), correct, np.full(1, -1), np.empty((1, 0)), np.zeros(1))
        state = learner.fold(state, bits)  # type: ignore[arg-type]
    return state, x


def test_squarecb_weighs_the_gaps_of_eligible_labels() -> None:
    """Labels get 1/(K' + γ gap), with the γ of all K labels."""
    learner = SquareCb(problem=Problem(K, 1), gap_scale=2.0)
    state, x = taught(learner, 60)
    f = 1.0 / (1.0 + np.exp(-state.weights[0][AMONG[0]]))  # type: ignore[attr-defined]
    expected = inverse_gaps(f, 2.0 * math.sqrt(K * 61))
    assert_close(learner.decide(state, x, AMONG).distributions[0, AMONG[0]], expected, 1e-12)  # type: ignore[arg-type]


def test_fastcb_weighs_the_relative_gaps_of_eligible_labels() -> None:
    """Labels get l/(K' l + γ gap), with the γ of all K labels, over a mixture for the eligible labels."""
    learner = FastCb(problem=Problem(K, 1), gap_scale=4.0)
    state, x = taught(learner, 60)
    h, total = np.zeros(int(AMONG[0].sum())), 0.0
    models = (
        (state.label_weights, state.softmax_weights),  # type: ignore[attr-defined]
        (state.whitened_label_weights, state.whitened_softmax_weights),  # type: ignore[attr-defined]
    )
    for (W, V), weights in zip(models, state.experts[:4].reshape(2, 2), strict=True):  # type: ignore[attr-defined]
        q = np.exp(V[0][AMONG[0]])
        for weight, chances in zip(weights, (1.0 / (1.0 + np.exp(-W[0][AMONG[0]])), q / q.sum()), strict=True):
            h, total = (h + weight * chances, total + weight) if weight >= 0.01 else (h, total)
    rates = (state.rates[0] + 0.5) / (state.rates[1] + 1.0)  # type: ignore[attr-defined]
    h, total = h + state.experts[4] * rates[AMONG[0]], total + state.experts[4]  # type: ignore[attr-defined]
    h, losses = h / total, float(state.sums[0])  # type: ignore[attr-defined]
    gap_weight = max(10.0 * K, 4.0 * math.sqrt(K * (1.0 + min(losses, K * (60 - losses)))))
    expected = inverse_gaps(h, gap_weight / min(1.0 - h.max(), len(h) * h.max()))
    assert_close(learner.decide(state, x, AMONG).distributions[0, AMONG[0]], expected, 1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("experts", "eligible", "expected"),
    [
        ((0.5, 0.1), (True, True, False), (0.0, 1.0, 0.0)),
        ((-0.5, -0.1), (True, False, True), (0.3, 0.0, 0.7)),
        ((0.5, 0.1), (True, False, True), (0.0, 0.0, 1.0)),
        ((1.0, 1.0), (True, False, True), (0.5, 0.0, 0.5)),
    ],
)
def test_adahedge_conditions_its_distribution(
    experts: tuple[float, ...], eligible: tuple[bool, ...], expected: tuple[float, ...]
) -> None:
    learner = AdaHedge(problem=Problem(3, 2))
    decided = learner.decide(learner.init(), Contexts.dense(np.array(experts)), np.array([eligible]))
    assert_close(decided.distributions[0], np.array(expected), 1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_restricted_mean_is_the_best_of_the_hull(seed: int) -> None:
    """Among eligible levels, ŷ maximizes ⟨θ, y⟩ - λ/2 ‖y‖² over mixtures of their vectors."""
    rng, learner = np.random.default_rng(seed), FenchelYoungOrdinal(problem=Problem(6, 1), regularization=2.5)
    state = learner.init()
    state.direction[:] = rng.normal(scale=2.0, size=(1, 5))
    among: BoolArray = rng.random((1, 6)) < 0.5
    among[0, rng.integers(0, 6)] = True
    theta, x = state.direction[0], Contexts.dense(np.ones(1))
    levels = np.flatnonzero(among)
    vertices = (np.arange(5) < levels[:, None]).astype(np.float64)
    distributions, mean = learner.decide(state, x, among)
    shares = np.append(1.0, mean[0, levels[:-1]]) - mean[0, levels.clip(max=4)] * (levels < 5)
    assert shares.min() >= -1e-12
    assert_close(shares @ vertices, mean[0], 1e-12)
    mixtures = np.concatenate([rng.dirichlet(np.full(len(levels), a), 300) for a in (0.1, 1.0)]) @ vertices
    near = mean[0] + 0.01 * (mixtures - mean[0])
    values = [y @ theta - 1.25 * (y * y).sum(axis=-1) for y in (mean[0], mixtures, near)]
    assert values[0] >= max(values[1].max(), values[2].max()) - 1e-12
    nearest = vertices[np.linalg.norm(vertices - mean[0], axis=1).argmin()]
    share = min(1.0, 2.0 * float(np.linalg.norm(nearest - mean[0])))
    assert_close(distributions[0, levels] @ vertices, share * mean[0] + (1 - share) * nearest, 1e-9)
    assert not distributions[~among].any()


def test_coin_among_eligible_labels() -> None:
    """Whatever the distribution, exploring labels are uniform among the eligible ones, with probability γ/K' each."""
    learner, n, gamma = FolkloreBandit(problem=Problem(K, 1), exploration=0.3), 40_000, 0.3
    p, evidence = learner.decide(learner.init(), Contexts.dense(np.ones(1)), AMONG)
    labels, propensities, residual_uniforms = draw(np.repeat(p, n, axis=0), (np.arange(n) + 0.5) / n)
    rounds = Rounds.of_bits(
        Contexts.dense(np.ones((n, 1))), labels, propensities, labels == 1, labels, evidence.repeat(n, 0),
        residual_uniforms,
    )._replace(eligible=AMONG.repeat(n, 0))  # fmt: skip
    shares = np.bincount(labels[explored(rounds, K)], minlength=K) / n
    assert_close(shares, np.where(AMONG[0], gamma / 3, 0.0), 3 / n)
