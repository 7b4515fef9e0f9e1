"""The streams of the contest that the papers do not have: one difficulty each, generated."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.papers.data.chances import independent, tested
from benchmarks.papers.data.chunks import Chunk, Stream
from benchmarks.papers.data.points import (
    by_class,
    by_difficulty,
    cauchy,
    clusters,
    drifting,
    heavy_tailed,
    lognormal,
    one_feature,
    scaled,
)
from benchmarks.papers.data.topics import N_WORDS, documents_of_topics, zipf
from learners.base import Contexts, FloatArray, Problem
from learners.mathematics.preparation import within_bound

_TRIAL, _TRIAL_OF_THREE = np.array([0.1, 0.12]), np.array([0.1, 0.12, 0.5])


def _documents(shares: FloatArray, noise: float) -> Stream:
    def chunk(seed: int, place: int, n: int) -> Chunk:
        return Chunk(*documents_of_topics(n, seed, place, shares, noise))

    return Stream(Problem(len(shares), N_WORDS), None, chunk)


def _dense(
    labels: int, features: int, generate: Callable[..., tuple[Any, ...]], unit: bool = False, **settings: Any
) -> Stream:
    """Wrap a generator of dense rows; `unit` scales them to norm 1, as the service does."""

    def chunk(seed: int, place: int, n: int) -> Chunk:
        rows, *outcome = generate(n, seed, place, **settings)
        contexts = Contexts.dense(rows)
        return Chunk(within_bound(contexts, "unit", 1.0) if unit else contexts, *outcome)

    return Stream(Problem(labels, features), None, chunk)


def _clusters(K: int, noise: float) -> Stream:
    return _dense(K, 50, clusters, K=K, d=50, spread=0.1, noise=noise)


_LOGNORMAL = functools.partial(heavy_tailed, transformed=lognormal)
_CAUCHY = functools.partial(heavy_tailed, transformed=cauchy)

BATTERY = {
    "words100": _documents(np.full(100, 0.01), 0.0),
    "words100-noisy": _documents(np.full(100, 0.01), 0.2),
    "words200": _documents(np.full(200, 0.005), 0.0),
    "words200-noisy": _documents(np.full(200, 0.005), 0.2),
    "dense100": _clusters(100, 0.0),
    "dense100-noisy": _clusters(100, 0.2),
    "dense200": _clusters(200, 0.0),
    "dense200-noisy": _clusters(200, 0.2),
    "zipf50": _documents(zipf(50), 0.1),
    "zipf200": _documents(zipf(200), 0.1),
    "several": _dense(10, 11, independent, K=10, base=-1.0),
    "rare": _dense(10, 11, independent, K=10, base=-7.0),
    "ab": _dense(2, 1, tested, chances=_TRIAL),
    "abc": _dense(3, 1, tested, chances=_TRIAL_OF_THREE),
    "one-feature": _dense(2, 1, one_feature),
    "scales": _dense(5, 13, scaled),
    "scales-unit": _dense(5, 13, scaled, unit=True),
    "lognormal": _dense(5, 20, _LOGNORMAL),
    "lognormal-unit": _dense(5, 20, _LOGNORMAL, unit=True),
    "cauchy": _dense(5, 10, _CAUCHY),
    "cauchy-unit": _dense(5, 10, _CAUCHY, unit=True),
    "drift": _dense(8, 20, drifting),
    "by-class": _dense(10, 20, by_class),
    "easy-first": _dense(10, 20, by_difficulty, easiest_first=True),
    "hard-first": _dense(10, 20, by_difficulty, easiest_first=False),
}
