"""The reward model of the direct method and of doubly robust: ridge regression for each label, on earlier rounds only.

The log is cut into blocks by the rounds' numbers: the first 256 numbers, then the next 256, 512, 1024 and so on. The
model of a block learns from all blocks before it, so it does not depend on the rounds that it predicts, nor on later
ones, whose propensities may depend on them: doubly robust stays unbiased for the log of a policy that learns. The first
block has no model, and doubly robust is IPS there. If the regressions would be too large, they omit the context.
"""

from typing import NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray, IntArray
from learners.evaluation.off_policy.logged import LoggedRounds
from learners.kernels import compiled, row

FIRST_BLOCK = 256  # rounds of the first block
_MOST_ENTRIES = 250_000  # the maximum size of the matrices of all labels, K (d + 1)²
_RIDGE = 1.0


class RewardProblem(NamedTuple):
    """The settings that all parts of a log must share."""

    n_labels: int  # K
    n_features: int  # d, of the prepared contexts; 0 to omit them
    first: int  # the number of the first round of the log

    @property
    def uses_contexts(self) -> bool:
        """Whether regressions on the contexts are small enough."""
        return self.n_features > 0 and self.n_labels * (self.n_features + 1) ** 2 <= _MOST_ENTRIES

    @property
    def size(self) -> int:
        """D, the number of coefficients of a label."""
        return (self.n_features if self.uses_contexts else 0) + 1

    def blocks(self, numbers: IntArray) -> IntArray:
        """Return the block of each round, (n,), from 0."""
        return np.asarray(np.frexp(np.maximum(numbers - self.first, 0) // FIRST_BLOCK)[1], np.int64)


class Gram(NamedTuple):
    """The sums of the regressions of all labels."""

    squares: FloatArray  # (K, D, D), the sums of xxᵀ
    products: FloatArray  # (K, D), the sums of rx


class RewardSums(NamedTuple):
    """The sums of each block."""

    blocks: dict[int, Gram]

    def merge(self, other: "RewardSums") -> "RewardSums":
        """Return the sums over the rounds of both."""
        merged = dict(self.blocks)
        for block, gram in other.blocks.items():
            own = merged.get(block)
            merged[block] = gram if own is None else Gram(own[0] + gram[0], own[1] + gram[1])
        return RewardSums(merged)


def reward_sums(rounds: LoggedRounds, problem: RewardProblem) -> RewardSums:
    """Return the sums of the regressions over some rounds."""
    numbers, size, result = problem.blocks(rounds.numbers), problem.size, dict[int, Gram]()
    for block in np.unique(numbers).tolist():
        gram = Gram(np.zeros((problem.n_labels, size, size)), np.zeros((problem.n_labels, size)))
        among = numbers == block
        vectors, rewards, labels = (
            _vectors(rounds.contexts, problem)[among],
            rounds.rewards[among],
            rounds.labels[among],
        )
        for label in np.unique(labels).tolist():
            own = vectors[labels == label]
            gram.squares[label], gram.products[label] = own.T @ own, own.T @ rewards[labels == label]
        result[block] = gram
    return RewardSums(result)


class RewardModel:
    """The predictions of each block, from the sums over the whole log, or over all earlier blocks."""

    def __init__(self, sums: RewardSums, problem: RewardProblem) -> None:
        self._problem = problem
        self._fitted: list[tuple[int, FloatArray]] = []  # (the last block learned from, (K, D)), in order
        penalty = _RIDGE * np.eye(problem.size)
        shape = (problem.n_labels, problem.size)
        squares, products = np.zeros((*shape, problem.size)), np.zeros(shape)
        for block in sorted(sums.blocks):
            squares, products = squares + sums.blocks[block].squares, products + sums.blocks[block].products
            fitted = np.linalg.solve(squares + penalty, products[:, :, None])[:, :, 0].astype(np.float64)
            self._fitted.append((block, fitted))

    def predict(self, rounds: LoggedRounds) -> tuple[FloatArray, FloatArray]:
        """Return predicted rewards (n, K) in [0, 1], and (n,) 1 for rounds with a model, else 0, with predictions 0."""
        blocks, vectors = self._problem.blocks(rounds.numbers), _vectors(rounds.contexts, self._problem)
        predictions, modelled = np.zeros((rounds.n, self._problem.n_labels)), np.zeros(rounds.n)
        for block in np.unique(blocks).tolist():
            fitted = [coefficients for last, coefficients in self._fitted if last < block]
            if fitted:
                among = blocks == block
                predictions[among] = np.clip(vectors[among] @ fitted[-1].T, 0.0, 1.0)
                modelled[among] = 1.0
        return predictions, modelled


def _vectors(contexts: Contexts, problem: RewardProblem) -> FloatArray:
    vectors = np.ones((contexts.n, problem.size))
    if problem.uses_contexts:
        vectors[:, :-1] = 0.0
        _densify(contexts, vectors)
    return vectors


@compiled
def _densify(contexts: Contexts, vectors: FloatArray) -> None:
    for i in range(len(vectors)):
        indices, values = row(contexts, i)
        for j in range(len(values)):
            vectors[i, indices[j]] = values[j]
