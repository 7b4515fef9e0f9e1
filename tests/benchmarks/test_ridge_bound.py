"""The ridge baseline against the same algorithm with solved systems, and runs without features."""

import numpy as np
import pytest

from benchmarks.papers.contest import plan
from benchmarks.papers.data.chunks import Chunk, without_features
from benchmarks.papers.data.streams import open_stream
from benchmarks.papers.ridge_bound import RidgeBound
from benchmarks.papers.runs import Run
from benchmarks.papers.versions import name_of
from learners.base import Contexts, FloatArray, IntArray, Problem


def solved(matrix: FloatArray, rewards: FloatArray, alpha: float, forgetting: float) -> IntArray:
    """Return the labels of disjoint LinUCB, (n,), whose systems are solved anew in each round."""
    (n, K), d = rewards.shape, matrix.shape[1] + 1
    A, b = np.tile(np.eye(d), (K, 1, 1)), np.zeros((K, d))
    labels = np.zeros(n, np.int64)
    for t in range(n):
        seen = matrix[: t + 1]
        if t == 100:
            A[:], b[:] = np.eye(d), 0.0
            for early in range(t):
                x = scaled(matrix[early], matrix[:t])
                A[labels[early]] += np.outer(x, x)
                b[labels[early]] += rewards[early, labels[early]] * x
        x = scaled(matrix[t], seen)
        inverses = np.linalg.inv(A)
        bounds = [b[k] @ inverses[k] @ x + alpha * np.sqrt(x @ inverses[k] @ x) for k in range(K)]
        labels[t] = np.argmax(bounds)
        if forgetting < 1.0:
            kept = np.trace(inverses, axis1=1, axis2=2) <= forgetting * d
            A[kept] *= forgetting
            b[kept] *= forgetting
        A[labels[t]] += np.outer(x, x)
        b[labels[t]] += rewards[t, labels[t]] * x
    return labels


def scaled(context: FloatArray, seen: FloatArray) -> FloatArray:
    """Return a constant and a context, as scaled by what was seen."""
    if len(seen) < 100:
        return np.append(1.0, context / np.abs(seen).max(axis=0))
    return np.append(1.0, (context - seen.mean(axis=0)) / seen.std(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("forgetting", [1.0, 0.98])
def test_recursion_equals_solved_systems(forgetting: float) -> None:
    rng = np.random.default_rng(3)
    matrix, rewards = rng.normal(5.0, 3.0, (260, 3)), rng.random((260, 4))
    rewards[np.arange(260), (matrix[:, 0] > 5.0) + 2 * (matrix[:, 1] > 5.0)] += 1.0
    rewards /= 2.0
    chunk = Chunk(Contexts.dense(matrix), rewards.argmax(axis=1), None, rewards)
    losses = RidgeBound(Problem(4, 3), 0.3, forgetting).play(chunk, np.zeros(260))
    labels = solved(matrix, rewards, 0.3, forgetting)
    np.testing.assert_array_equal(losses, 1.0 - rewards[np.arange(260), labels])


@pytest.mark.slow
def test_sparse_and_dense_contexts_are_played_alike() -> None:
    """A column of zeros and a constant one, in two chunks: features that never vary do no harm."""
    matrix = np.column_stack([np.random.default_rng(4).normal(size=(300, 2)), np.zeros(300), np.full(300, 0.1)])
    labels = (matrix[:, 0] > 0.0).astype(np.int64)
    kept = matrix != 0.0
    sparse = Contexts.sparse(kept.sum(axis=1), np.nonzero(kept)[1], matrix[kept])
    played = []
    for contexts in (Contexts.dense(matrix), sparse):
        player = RidgeBound(Problem(2, 4))
        parts = [Chunk(contexts.rows(a, b), labels[a:b]) for a, b in ((0, 150), (150, 300))]
        played.append(np.concatenate([player.play(part, np.zeros(150)) for part in parts]))
    np.testing.assert_array_equal(played[0], played[1])
    assert played[0][200:].mean() < 0.1


def test_too_many_features_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 100 features, not 101"):
        RidgeBound(Problem(2, 101))


def test_peers_play_where_they_can() -> None:
    peers = {name: plan(name, None, 100, 1, "fastcb", "squarecb").peers.keys() for name in ("several", "words200")}
    assert peers == {"several": {"VW100", "LinUCB", "no features"}, "words200": {"no features"}}


def test_a_run_without_features_has_the_same_rounds_and_another_name() -> None:
    stream = open_stream("several", None)
    one, other = (each.chunk(0, 0, 50) for each in (stream, without_features(stream)))
    np.testing.assert_array_equal(one.losses(10), other.losses(10))
    assert (other.contexts.values == 1.0).all()
    assert other.contexts.n == 50
    run = Run("several", None, "uniform", {}, 50, 0)
    assert name_of(run) != name_of(run._replace(features=False))
