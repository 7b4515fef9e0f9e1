"""The reward model of the direct method and of doubly robust: ridge regression for each label, on earlier rounds only.

The log is cut into blocks by the rounds' numbers: the first 256 numbers, then the next 256, 512, 1024 and so on. The
model of a block learns from all blocks before it, so it does not depend on the rounds that it predicts, nor on later
ones, whose propensities may depend on them: doubly robust stays unbiased for the log of a policy that learns. The first
block has no model, and doubly robust is IPS there.

A regression has the features that occur in the log. Further ones would have the coefficient 0, so hashed features cost
as many entries as there are different names and values, not 2^18. Where even these are too many, contexts are left out.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray, IntArray
from learners.evaluation.off_policy.logged import LoggedRounds

FIRST_BLOCK = 256  # rounds of the first block
_MOST_ENTRIES = 250_000  # in the matrices of all labels: K·D², for D coefficients per label
_RIDGE = 1.0
_NO_COLUMNS = np.empty(0, np.int64)


class RewardProblem(NamedTuple):
    """The settings that all parts of a log must share."""

    n_labels: int  # K
    first: int  # the number of the first round of the log

    def blocks(self, numbers: IntArray) -> IntArray:
        """Return the block of each round, (n,), from 0."""
        return np.asarray(np.frexp(np.maximum(numbers - self.first, 0) // FIRST_BLOCK)[1], np.int64)


class Gram(NamedTuple):
    """The sums from which each label's regression is solved; the last of its D coefficients is the constant's."""

    squares: FloatArray  # (K, D, D), the sums of xxᵀ
    products: FloatArray  # (K, D), the sums of rx


class RewardSums(NamedTuple):
    """The sums of each block."""

    columns: IntArray | None  # (D - 1,), the features that occur, ascending; None if there are too many, so that D = 1
    blocks: dict[int, Gram]

    def merge(self, other: "RewardSums") -> "RewardSums":
        """Return the sums over the rounds of both."""
        if not self.blocks or not other.blocks:
            return self if self.blocks else other
        n_labels = len(next(iter(self.blocks.values())).products)
        columns = None
        if self.columns is not None and other.columns is not None:
            columns = _if_few(np.union1d(self.columns, other.columns), n_labels)
        merged = {block: _placed(gram, self.columns, columns) for block, gram in self.blocks.items()}
        for block, gram in other.blocks.items():
            found, own = _placed(gram, other.columns, columns), merged.get(block)
            merged[block] = found if own is None else Gram(own[0] + found[0], own[1] + found[1])
        return RewardSums(columns, merged)


NO_REWARD_SUMS = RewardSums(_NO_COLUMNS, {})


def _if_few(columns: IntArray, n_labels: int) -> IntArray | None:
    """Return the columns if regressions for K labels have room for them and a constant, else None."""
    return columns if len(columns) < math.isqrt(_MOST_ENTRIES // n_labels) else None


def _placed(gram: Gram, own: IntArray | None, columns: IntArray | None) -> Gram:
    """Convert sums for features `own` to sums for `columns`, a superset, or for the constant alone if that is None."""
    if columns is None:
        return Gram(gram.squares[:, -1:, -1:], gram.products[:, -1:])
    assert own is not None
    if len(own) == len(columns):
        return gram
    places = np.append(np.searchsorted(columns, own), len(columns))
    wide = Gram(*_zeros(len(gram.products), columns))
    wide.squares[:, places[:, None], places], wide.products[:, places] = gram
    return wide


def _zeros(n_labels: int, columns: IntArray | None) -> Gram:
    size = _size(columns)
    return Gram(np.zeros((n_labels, size, size)), np.zeros((n_labels, size)))


def _size(columns: IntArray | None) -> int:
    return 1 if columns is None else len(columns) + 1


def reward_sums(rounds: LoggedRounds, problem: RewardProblem) -> RewardSums:
    """Return the sums of the regressions over some rounds."""
    columns = _if_few(
        np.unique(rounds.contexts.indices) if len(rounds.contexts.values) else _NO_COLUMNS, problem.n_labels
    )
    numbers, vectors, result = problem.blocks(rounds.numbers), _vectors(rounds.contexts, columns), dict[int, Gram]()
    for block in np.unique(numbers).tolist():
        gram, among = _zeros(problem.n_labels, columns), numbers == block
        for label in np.unique(rounds.labels[among]).tolist():
            rows = among & (rounds.labels == label)
            own = vectors[rows]
            gram.squares[label], gram.products[label] = own.T @ own, own.T @ rounds.rewards[rows]
        result[block] = gram
    return RewardSums(columns, result)


class RewardModel:
    """Predicts rewards in each block from the blocks before it; `sums` must at least cover these earlier blocks."""

    def __init__(self, sums: RewardSums, problem: RewardProblem) -> None:
        self._problem, self._columns = problem, sums.columns
        self._fitted: list[tuple[int, FloatArray]] = []  # the last block learned from, and coefficients (K, D)
        penalty = _RIDGE * np.eye(_size(sums.columns))
        squares, products = _zeros(problem.n_labels, sums.columns)
        for block in sorted(sums.blocks):
            squares, products = squares + sums.blocks[block].squares, products + sums.blocks[block].products
            fitted = np.linalg.solve(squares + penalty, products[:, :, None])[:, :, 0].astype(np.float64)
            self._fitted.append((block, fitted))

    @property
    def uses_contexts(self) -> bool:
        """Whether the regressions have features."""
        return _size(self._columns) > 1

    @property
    def leaves_contexts_out(self) -> bool:
        """Whether more features occur than the regressions have room for."""
        return self._columns is None

    def predict(self, rounds: LoggedRounds) -> tuple[FloatArray, FloatArray]:
        """Return predicted rewards (n, K) in [0, 1], and (n,) whether each round has a model, 1 or 0.

        Without a model, the predictions are 0.
        """
        blocks, vectors = self._problem.blocks(rounds.numbers), _vectors(rounds.contexts, self._columns)
        predictions, modelled = np.zeros((rounds.n, self._problem.n_labels)), np.zeros(rounds.n)
        for block in np.unique(blocks).tolist():
            fitted = [coefficients for last, coefficients in self._fitted if last < block]
            if fitted:
                among = blocks == block
                predictions[among] = np.clip(vectors[among] @ fitted[-1].T, 0.0, 1.0)
                modelled[among] = 1.0
        return predictions, modelled


def _vectors(contexts: Contexts, columns: IntArray | None) -> FloatArray:
    """Return these features of n contexts, followed by the constant 1, (n, D)."""
    vectors = np.zeros((contexts.n, _size(columns)))
    vectors[:, -1] = 1.0
    if columns is None or not len(columns) or not len(contexts.values):
        return vectors
    indices = np.tile(contexts.indices, contexts.n) if contexts.shared else contexts.indices
    rows = np.repeat(np.arange(contexts.n), np.diff(contexts.starts))
    places = np.minimum(np.searchsorted(columns, indices), len(columns) - 1)
    known = columns[places] == indices
    vectors[rows[known], places[known]] = contexts.values[known]
    return vectors
