"""Outliers: the learners without a norm overcome them, and report them."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.base import AnyLearner, Contexts, FloatArray, IntArray, Problem
from learners.evaluation.simulation import simulate
from learners.registry import ALL_LEARNERS
from tests.learners.arrays import is_finite

N, K, D = 6000, 4, 8


class Stream(NamedTuple):
    contexts: FloatArray  # (N, D)
    truth: IntArray  # (N,)
    uniforms: FloatArray  # (N,)


@pytest.fixture(params=range(3))
def stream(request: pytest.FixtureRequest) -> Stream:
    rng = np.random.default_rng(request.param)
    weights, contexts = rng.normal(size=(K, D)), rng.normal(size=(N, D))
    return Stream(contexts, (contexts @ weights.T).argmax(axis=1), rng.random(N))


def learner_of(algorithm: str) -> AnyLearner:
    learner: AnyLearner = ALL_LEARNERS[algorithm](problem=Problem(K, D))
    return learner


def late_accuracy(algorithm: str, stream: Stream) -> tuple[float, list[str]]:
    learner = learner_of(algorithm)
    played = simulate(learner, Contexts.dense(stream.contexts), stream.truth, stream.uniforms)
    assert is_finite(played.state)
    return 1.0 - float(played.mistakes[N // 2 :].mean()), learner.warnings(played.state)


def with_outliers(stream: Stream, rows: Any, size: float) -> Stream:
    contexts = stream.contexts.copy()
    contexts[rows] = np.sign(contexts[rows]) * size
    return stream._replace(contexts=contexts)


ROWS = {
    "first": [0], "second": [1], "sixth": [5], "later": [700], "every seventh of 300": slice(1, 300, 7),
    "the first 300": slice(300),
}  # fmt: skip


@pytest.mark.parametrize("size", [1e4, 1e308])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("algorithm", ["squarecb", "fastcb"])
def test_outliers_are_overcome(algorithm: str, rows: str, size: float, stream: Stream) -> None:
    plain, warnings = late_accuracy(algorithm, stream)
    assert plain > 0.9
    assert warnings == []
    found, warnings = late_accuracy(algorithm, with_outliers(stream, ROWS[rows], size))
    assert found > plain - (0.25 if rows == "every seventh of 300" else 0.1)
    one = ["features: values over 100 times the usual size of their feature were clipped; rounds: 1."]
    reported = {"first": [], "second": [], "sixth": [], "later": one}
    if rows in reported:
        assert warnings == reported[rows]
