"""Multiclass data with its classes as actions."""

import numpy as np

from benchmarks.papers.action_stream import ActionStream, of_rounds
from benchmarks.papers.data.streams import open_stream
from learners.base import Contexts


def classes_as_actions(name: str, file: str | None, rounds: int, seed: int) -> ActionStream:
    """Return the first chunk of a stream; each class is a candidate with an intercept and the context times its id.

    The expected reward is 1 for the label of the round, so the oracle has no loss even where labels are noisy.
    """
    stream = open_stream(name, file)
    chunk = next(iter(stream.chunks(rounds, seed)))
    K, n, starts = stream.problem.n_labels, rounds, chunk.contexts.starts
    indices = np.tile(chunk.contexts.indices, n) if chunk.contexts.shared else chunk.contexts.indices
    # Row i K + k has a constant, an indicator of class k, and the features of context i in columns of their own for k.
    lengths = np.repeat(np.diff(starts), K)
    ends = np.concatenate([[0], np.cumsum(lengths + 2)])
    entries = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    source, places = (
        np.repeat(np.repeat(starts[:-1], K), lengths) + entries,
        np.repeat(ends[:-1], lengths) + 2 + entries,
    )
    classes = np.tile(np.arange(K), n)
    features, values = np.zeros(ends[-1], np.int64), np.ones(ends[-1])
    features[ends[:-1] + 1] = 1 + classes
    features[places] = 1 + K + indices[source] * K + np.repeat(classes, lengths)
    values[places] = chunk.contexts.values[source]
    rewards = np.zeros(n * K)
    rewards[np.arange(n) * K + chunk.labels] = 1.0
    vectors = Contexts(ends, features, values, False)
    return of_rounds(vectors, 1 + K + stream.problem.n_features * K, K, rewards, rewards)
