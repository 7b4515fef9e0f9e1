"""The streams of a service's traffic: drift, many items, rare clicks, embeddings, noise. All are generated."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.papers.data.chances import catalogue, rare_clicks, uninformative
from benchmarks.papers.data.chunks import Chunk, Stream
from benchmarks.papers.data.drifts import N_CLASSES, N_FEATURES, abrupt, rotating
from benchmarks.papers.data.embeddings import one_right, several_right
from benchmarks.papers.data.points import clusters, correlated, few_useful, imbalanced, student, xor
from benchmarks.papers.data.topics import N_WORDS, documents_of_topics
from learners.base import Contexts, Problem

_CHANCES = np.array([0.81, 0.74, 0.65, 0.55, 0.4, 0.25])


def _dense(labels: int, features: int, generate: Callable[..., tuple[Any, ...]], **settings: Any) -> Stream:
    """Wrap a generator of dense rows, and append a constant 1 to the features."""

    def chunk(seed: int, place: int, n: int) -> Chunk:
        rows, *outcome = generate(n, seed, place, **settings)
        return Chunk(Contexts.dense(np.column_stack([rows, np.ones(n)])), *outcome)

    return Stream(Problem(labels, features + 1), None, chunk)


def _documents(K: int, noise: float, own_share: float) -> Stream:
    def chunk(seed: int, place: int, n: int) -> Chunk:
        return Chunk(*documents_of_topics(n, seed, place, np.full(K, 1.0 / K), noise, own_share))

    return Stream(Problem(K, N_WORDS), None, chunk)


_classes = functools.partial(_dense, N_CLASSES, N_FEATURES)

TRAFFIC = {
    "stationary": _classes(rotating, period=np.inf),
    "rotating": _classes(rotating, period=50_000.0),
    "rotating-slow": _classes(rotating, period=200_000.0),
    "abrupt": _classes(abrupt),
    "catalogue": _dense(50, 10, catalogue, K=50),
    "rare-clicks": _dense(10, 10, rare_clicks, K=10),
    "several-right-384": _dense(8, 384, several_right, K=8, d=384),
    "several-right-1536": _dense(10, 1536, several_right, K=10, d=1536),
    "one-right-384": _dense(8, 384, one_right, K=8, d=384, spread=2.0),
    "one-right-1536": _dense(8, 1536, one_right, K=8, d=1536, spread=3.5),
    "noise-384": _dense(6, 384, uninformative, d=384, chances=_CHANCES),
    "noise-1536": _dense(6, 1536, uninformative, d=1536, chances=_CHANCES),
    "noise-500": _dense(6, 510, few_useful, useful=10, d=510, K=6),
    "correlated": _dense(6, 20, correlated),
    "labels-200": _dense(200, 30, clusters, K=200, d=30, spread=0.05, noise=0.0),
    "sparse-text": _documents(20, 0.2, 0.2),
    "heavy-tails": _dense(5, 15, student),
    "xor": _dense(4, 10, xor),
    "imbalanced": _dense(2, 10, imbalanced),
}
