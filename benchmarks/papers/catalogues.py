"""Rounds with candidates: multiclass data with its classes as actions, and catalogues whose items come and go."""

from typing import NamedTuple

import numpy as np

from benchmarks.papers.data.streams import open_stream
from learners.actions.base import Candidates
from learners.base import Contexts, FloatArray

_USERS, _GENRES, _SHOWN, _WINDOW = 20, 15, 10, 40
_CATALOGUE, _RANDOM, _REWARDS = 30, 31, 32  # random number streams


class ActionStream(NamedTuple):
    """Rounds with candidates and the rewards of all of them."""

    n_features: int
    candidates: Candidates
    rewards: FloatArray  # (m,)


def classes_as_actions(name: str, file: str | None, rounds: int, seed: int) -> ActionStream:
    """Return the first chunk of a stream; each class is a candidate with an intercept and the context times its id."""
    stream = open_stream(name, file)
    chunk = next(iter(stream.chunks(rounds, seed)))
    K, n, starts = stream.problem.n_labels, rounds, chunk.contexts.starts
    indices = np.tile(chunk.contexts.indices, n) if chunk.contexts.shared else chunk.contexts.indices
    # Row i K + k: a constant, the class, and the context's features moved to those of the class.
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
    candidates = Candidates(Contexts(ends, features, values, False), np.arange(n + 1) * K, np.empty(0, np.bool_))
    return ActionStream(1 + K + stream.problem.n_features * K, candidates, rewards)


def catalogue(rounds: int, seed: int, clicks: bool, shared_only: bool) -> ActionStream:
    """Draw rounds that show 10 items of a window of 40, which moves by an item every 20 rounds.

    Features are an intercept, the genre for the user, two numbers of the item as measured, and the item's id unless
    `shared_only`. The log-odds of a reward are linear in them. A reward is its chance, or a click with that chance.
    """
    rng = np.random.default_rng([seed, _CATALOGUE])
    items = _WINDOW + rounds // 20 + 1
    genres, quality = rng.integers(0, _GENRES, items), rng.normal(size=(items, 2))
    taste, worth, own = rng.normal(size=(_USERS, _GENRES)) * 1.5, rng.normal(size=2), rng.normal(size=items) * 0.5
    shown = np.concatenate([t // 20 + rng.permutation(_WINDOW)[:_SHOWN] for t in range(rounds)])
    users = np.repeat(rng.integers(0, _USERS, rounds), _SHOWN)
    odds = taste[users, genres[shown]] + quality[shown] @ worth + (0.0 if shared_only else 1.0) * own[shown] - 1.0
    chances = 1.0 / (1.0 + np.exp(-odds))
    rewards = (np.random.default_rng([seed, _REWARDS]).random(len(odds)) < chances).astype(float) if clicks else chances
    first = 3 + _USERS * _GENRES
    columns = [
        np.full(len(shown), 0),
        np.full(len(shown), 1),
        np.full(len(shown), 2),
        3 + users * _GENRES + genres[shown],
    ]
    numbers = [np.ones(len(shown)), 100.0 + 15.0 * quality[shown, 0], 3.0 + quality[shown, 1], np.ones(len(shown))]
    if not shared_only:
        columns.append(first + shown)
        numbers.append(np.ones(len(shown)))
    lengths = np.full(len(shown), len(columns))
    vectors = Contexts.sparse(lengths, np.column_stack(columns).reshape(-1), np.column_stack(numbers).reshape(-1))
    candidates = Candidates(vectors, np.arange(rounds + 1) * _SHOWN, np.empty(0, np.bool_))
    return ActionStream(first + items, candidates, rewards)
