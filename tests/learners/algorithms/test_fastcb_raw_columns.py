"""FastCB on columns as they are measured, with an intercept: units, offsets and zeros need no preparation."""

import numpy as np
import pytest

from learners.algorithms.regression.fastcb import FastCb
from learners.base import Contexts, FloatArray, IntArray, Problem
from learners.evaluation.simulation import simulate


def mistakes(columns: FloatArray, labels: IntArray, seed: int) -> FloatArray:
    """Return which answers were wrong, with a column of ones after the others."""
    contexts = np.column_stack([columns, np.ones(len(columns))])
    learner = FastCb(problem=Problem(int(labels.max()) + 1, contexts.shape[1]))
    uniforms = np.random.default_rng([seed, 1]).random(len(labels))
    return simulate(learner, Contexts.dense(contexts), labels, uniforms).mistakes.astype(np.float64)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rule", ["income above age", "both large", "income above twice age"])
def test_age_and_income_are_learned_as_they_are(rule: str, seed: int) -> None:
    """In the third thousand of rounds, at least 95 % of the answers are right."""
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
    """Columns with scales from 1 to 10^6 and means of up to 2,000 scales are learned as well as standardized ones."""
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
    """A feature that is 0 in 5 % of the rounds is centred, and its zeros still say what they say."""
    rng = np.random.default_rng(3)
    columns = rng.uniform(1.0, 3.0, (6000, 3))
    columns[rng.random(6000) < 0.05, 0] = 0.0
    labels = np.where(columns[:, 0] == 0.0, 1, 2 * (columns[:, 1] > columns[:, 2]))
    wrong = mistakes(columns, labels, 3)
    assert wrong[3000:].mean() <= 0.02
    assert wrong[3000:][columns[3000:, 0] == 0.0].mean() <= 0.2


def test_offsets_are_kept_without_an_intercept() -> None:
    """Without a constant feature, nothing is centred: the offset of a column may be all that tells the labels apart."""
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 2000)
    columns = (10.0 + rng.normal(size=(2000, 1))) * np.eye(2)[labels]
    learner = FastCb(problem=Problem(2, 2))
    wrong = simulate(learner, Contexts.dense(columns), labels, rng.random(2000)).mistakes
    assert wrong[1000:].mean() <= 0.01


@pytest.mark.parametrize("outlier", [1e4, 1e9])
@pytest.mark.parametrize("at", [0, 1, 4, 8, 12])
def test_an_outlier_among_the_first_values_is_overcome(at: int, outlier: float) -> None:
    """One absurd value, such as a test record, hides its feature for a few rounds only."""
    rng = np.random.default_rng(at)
    age = rng.integers(18, 80, 1000).astype(np.float64)
    labels = (age > 45).astype(np.int64)
    age[at] = outlier
    assert mistakes(age[:, np.newaxis], labels, at)[600:].mean() <= 0.05
