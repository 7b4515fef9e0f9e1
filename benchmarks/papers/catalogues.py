"""Catalogues: rounds that show a few of many items, which come and go or whose rates change."""

import numpy as np

from benchmarks.papers.action_stream import ActionStream, of_rounds
from learners.base import Contexts, FloatArray, IntArray

_USERS, _GENRES, _SHOWN, _WINDOW = 20, 15, 10, 40
_TASTE, _GENRE, _QUALITY, _RATE, _SHOW, _USER, _CLICK = range(30, 37)  # random number streams
_TENTH = -1.2816
"""A normal number is below it with probability 0.1."""


def catalogue(
    rounds: int,
    seed: int,
    clicks: bool,
    ids: bool = True,
    lifetime: int | None = 800,
    spread: float = 0.5,
    period: int | None = None,
) -> ActionStream:
    """Draw rounds that show 10 items of a window of 40.

    Features are an intercept, the genre for the user, two numbers of the item as measured, and the item's id. The
    log-odds of a reward are linear in them.

    Args:
        rounds: n.
        seed: the seed; the first rounds do not depend on their number.
        clicks: whether a reward is a click with its chance, or the chance.
        ids: whether items have an id and a rate, which no other feature tells.
        lifetime: rounds from an item's entry into the window to its exit; None: the window does not move.
        spread: the deviation of the items' rates, as log-odds.
        period: rounds after which a tenth of the rates are drawn again; None: rates do not change.
    """
    age = np.zeros(rounds, np.int64) if lifetime is None else np.arange(rounds) * _WINDOW // lifetime
    shown, users = _shown(seed, age), np.repeat(_rng(seed, _USER).integers(0, _USERS, rounds), _SHOWN)
    items = int(age[-1]) + _WINDOW
    genres, quality = _rng(seed, _GENRE).integers(0, _GENRES, items)[shown], _normal(seed, _QUALITY, items)[shown]
    odds = _odds(seed, users, genres, quality)
    if ids:
        epochs = np.zeros(rounds, np.int64) if period is None else np.arange(rounds) // period
        odds += spread * _rates(seed, items, int(epochs[-1]) + 1)[np.repeat(epochs, _SHOWN), shown]
    chances = 1.0 / (1.0 + np.exp(-odds))
    rewards = (_rng(seed, _CLICK).random(len(odds)) < chances).astype(float) if clicks else chances
    first = 3 + _USERS * _GENRES
    vectors = _vectors(quality, [3 + users * _GENRES + genres, *([first + shown] if ids else [])])
    return of_rounds(vectors, first + items * ids, _SHOWN, rewards, chances)


def _shown(seed: int, age: IntArray) -> IntArray:
    """Return the items of each round, (10 n,), from windows that start at the items `age` (n,)."""
    rng = _rng(seed, _SHOW)
    return np.concatenate([start + rng.permutation(_WINDOW)[:_SHOWN] for start in age])


def _odds(seed: int, users: IntArray, genres: IntArray, quality: FloatArray) -> FloatArray:
    """Return the log-odds without the items' rates, (10 n,)."""
    rng = _rng(seed, _TASTE)
    taste, worth = 1.5 * rng.normal(size=(_USERS, _GENRES)), rng.normal(size=2)
    return np.asarray(taste[users, genres] + quality @ worth - 1.0)


def _rates(seed: int, items: int, epochs: int) -> FloatArray:
    """Return normal rates (epochs, items); each differs from that of the epoch before with probability 0.1."""
    rates = np.empty((epochs, items))
    rates[0] = _normal(seed, _RATE, items)[:, 0]
    for epoch in range(1, epochs):
        lot, rate = np.random.default_rng([seed, _RATE, epoch]).normal(size=(items, 2)).T
        rates[epoch] = np.where(lot < _TENTH, rate, rates[epoch - 1])
    return rates


def _vectors(quality: FloatArray, symbols: list[IntArray]) -> Contexts:
    """Return an intercept, the two measured numbers of each item, and its symbols' features, which are 1."""
    n, one = len(quality), np.ones(len(quality))
    numbers = [one, 100.0 + 15.0 * quality[:, 0], 3.0 + quality[:, 1], *(one for _ in symbols)]
    columns = [*(np.full(n, position) for position in range(3)), *symbols]
    values, indices = (np.column_stack(each).reshape(-1) for each in (numbers, columns))
    return Contexts.sparse(np.full(n, len(columns)), indices, values)


def _normal(seed: int, stream: int, items: int) -> FloatArray:
    return _rng(seed, stream).normal(size=(items, 2))


def _rng(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])
