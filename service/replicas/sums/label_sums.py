"""Sums over the rounds of each label, for its reward and for the value of always answering it."""

from typing import Any, NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray

MOST_LABELS = 256
"""Labels that are counted individually, by their number. The rounds of all others are counted together."""


class LabelSums(NamedTuple):
    """Sums by label: the first `MOST_LABELS` labels by number, then all others together.

    The weight of a round is 1/p. The first two sums cover every round, the others those with a known weight.
    """

    rounds: tuple[int, ...] = ()
    rewards: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()  # reward²
    weighed: tuple[int, ...] = ()  # rounds with a weight
    weights: tuple[float, ...] = ()
    reward_weights: tuple[float, ...] = ()  # reward·weight
    squared_weights: tuple[float, ...] = ()
    reward_squared_weights: tuple[float, ...] = ()  # reward·weight²
    squared_reward_weights: tuple[float, ...] = ()  # (reward·weight)²

    def __bool__(self) -> bool:
        """Whether any round was counted."""
        return bool(self.rounds)


NO_LABEL_SUMS = LabelSums()


def with_rounds(sums: LabelSums, labels: IntArray, reward: FloatArray, p: FloatArray, known: BoolArray) -> LabelSums:
    """Return the sums extended by n rounds. Sums add one round at a time, so batches do not matter.

    Args:
        sums: the sums before.
        labels: (n,), the number of the label of each round.
        reward: (n,).
        p: (n,), the propensities.
        known: (n,), whether 1/p² is a number.
    """
    if not len(labels):
        return sums
    slots = np.minimum(labels.astype(np.int64), MOST_LABELS)
    weight = 1.0 / p[known]
    weighted = reward[known] * weight
    every = (1.0, reward, reward * reward)
    weighed = (1.0, weight, weighted, weight * weight, weighted * weight, weighted * weighted)
    terms = [(slots, term) for term in every] + [(slots[known], term) for term in weighed]
    size = max(len(sums.rounds), int(slots.max()) + 1)
    columns = [_extended(column, size, *term) for column, term in zip(sums, terms, strict=True)]
    sums = LabelSums(*map(tuple, columns))  # type: ignore[arg-type]
    return sums._replace(rounds=_as_counts(columns[0]), weighed=_as_counts(columns[3]))


def read_label_sums(fields: Any) -> LabelSums:
    """Return decoded sums.

    Raises:
        ValueError: if they are not as `LabelSums` describes.
    """
    sums = LabelSums(*fields)
    if len({len(column) for column in sums}) != 1 or len(sums.rounds) > MOST_LABELS + 1:
        raise ValueError("invalid sums by label")
    return sums


def _extended(column: tuple[float, ...], size: int, slots: IntArray, terms: FloatArray | float) -> list[float]:
    total = np.zeros(size)
    total[: len(column)] = column
    np.add.at(total, slots, terms)  # in the order of the rounds
    values: list[float] = total.tolist()
    return values


def _as_counts(column: list[float]) -> tuple[int, ...]:
    return tuple(map(int, column))
