"""Rounds whose rewards depend on interactions of a context with the features of its candidates."""

import numpy as np

from benchmarks.papers.action_stream import ActionStream, of_rounds
from learners.base import Contexts, FloatArray

_CONTEXT, _ITEMS, _SHOW, _WEIGHTS, _CLICK = range(40, 45)  # random number streams
_SHOWN = 8
_NUMBERS, _TAGS, _POOL = 10, 20, 200


def prices(rounds: int, seed: int, margin: bool) -> ActionStream:
    """Draw rounds of 8 offers with a price and a quality in (0, 1), for a user with a budget in (0, 1).

    The log-odds of a click are 1 + 3 (quality - 1/2) - 12 (price - budget)². Features are the 10 monomials of price,
    quality and budget of degree at most 2, so that the log-odds are linear in them.

    Args:
        rounds: n.
        seed: the seed; the first rounds do not depend on their number.
        margin: whether a reward is a click times the price, of which the margin is a fixed share, or the click.
    """
    price, quality = _rng(seed, _ITEMS).random((rounds * _SHOWN, 2)).T
    budget = np.repeat(_rng(seed, _CONTEXT).random(rounds), _SHOWN)
    chances = _logistic(1.0 + 3.0 * (quality - 0.5) - 12.0 * (price - budget) ** 2)
    worth = price if margin else np.ones(len(price))
    base = np.column_stack([np.ones(len(price)), price, quality, budget])
    left, right = np.triu_indices(4)
    vectors = Contexts.dense(base[:, left] * base[:, right])
    return of_rounds(vectors, 10, _SHOWN, worth * _clicks(seed, chances), worth * chances)


def products(rounds: int, seed: int) -> ActionStream:
    """Draw rounds of 8 items from a pool of 200, with a context of 10 normal numbers.

    An item has 20 tags, each with probability 0.2. Features are the 11 × 21 = 231 products of the context and a
    constant with the tags and a constant. The log-odds of a click are linear in them with normal weights: deviation 0.5
    for the products of a number and a tag, 0.3 for those with one constant, and -2 for the intercept.
    """
    context = _rng(seed, _CONTEXT).normal(size=(rounds, _NUMBERS))
    tags = (_rng(seed, _ITEMS).random((_POOL, _TAGS)) < 0.2).astype(float)
    rng = _rng(seed, _SHOW)
    shown = np.concatenate([rng.permutation(_POOL)[:_SHOWN] for _ in range(rounds)])
    left, right = _with_constant(np.repeat(context, _SHOWN, axis=0)), _with_constant(tags[shown])
    chances = _logistic(((left @ _weights(seed)) * right).sum(axis=1))
    matrix = (left[:, :, None] * right[:, None, :]).reshape(len(shown), -1)
    kept = matrix != 0.0
    vectors = Contexts.sparse(kept.sum(axis=1), np.nonzero(kept)[1], matrix[kept])
    return of_rounds(vectors, matrix.shape[1], _SHOWN, _clicks(seed, chances), chances)


def _weights(seed: int) -> FloatArray:
    """Return the weights of the products, (11, 21)."""
    weights = 0.5 * _rng(seed, _WEIGHTS).normal(size=(1 + _NUMBERS, 1 + _TAGS))
    weights[0] *= 0.6
    weights[1:, 0] *= 0.6
    weights[0, 0] = -2.0
    return weights


def _with_constant(rows: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(rows)), rows])


def _clicks(seed: int, chances: FloatArray) -> FloatArray:
    return (_rng(seed, _CLICK).random(len(chances)) < chances).astype(np.float64)


def _logistic(odds: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-odds)))


def _rng(seed: int, stream: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream])
