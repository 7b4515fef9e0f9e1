"""Logged rounds, with the columns that evaluation needs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.base import NO_LABEL, BoolArray, Contexts, FloatArray, IntArray, InvalidArrayError, every_label


class LoggedRounds(NamedTuple):
    """n rounds of a log, oldest first: the label served, its probability, its reward, and the context."""

    numbers: IntArray  # (n,) int64, increasing; random numbers of the evaluation depend on them
    labels: IntArray  # (n,) int64, the label that was served, 0 … K-1
    propensities: FloatArray  # (n,) float64, in (0, 1], the probability of the label when it was drawn
    rewards: FloatArray  # (n,) float64, in [0, 1]
    eligible: BoolArray  # (n, K) bool, the labels that the round could answer; (n, 0) if it could answer every one
    counts: IntArray  # (n,) int64, the number of labels that the round could answer, at least 1
    holdout: BoolArray  # (n,) bool, whether a policy other than the learner answered; such rounds serve only evaluation
    true_labels: IntArray  # (n,) int64, NO_LABEL where unknown
    contexts: Contexts  # n prepared contexts; without entries if they are not known

    @property
    def n(self) -> int:
        """The number of rounds."""
        return len(self.numbers)

    @property
    def abstained(self) -> BoolArray:
        """Whether the answer abstained, (n,): its reward is between 0 and 1 although the true label is known."""
        return np.asarray((self.true_labels != NO_LABEL) & (self.rewards > 0.0) & (self.rewards < 1.0))

    def rows(self, start: int, stop: int) -> "LoggedRounds":
        """Return rounds start … stop - 1, as views."""
        columns: list[Any] = [column[start:stop] for column in self[:-1]]
        columns.append(self.contexts.rows(start, stop))
        return LoggedRounds(*columns)


def no_contexts(n: int) -> Contexts:
    """Return n contexts without entries."""
    return Contexts.sparse(np.zeros(n, np.int64), np.empty(0, np.int64), [])


def joined(parts: Sequence[LoggedRounds]) -> LoggedRounds:
    """Concatenate the rounds of parts, without contexts. Either all parts list the eligible labels, or none does."""
    nothing = np.empty(0, np.int64)
    none = (nothing, nothing, np.empty(0), np.empty(0), every_label(0), nothing, nothing.astype(np.bool_), nothing)
    columns: list[Any] = [none, *[part[:-1] for part in parts if part.n]]
    if len(columns) > 1:
        columns.pop(0)
    columns = [np.concatenate(column) for column in zip(*columns, strict=True)]
    columns.append(no_contexts(sum(part.n for part in parts)))
    return LoggedRounds(*columns)


def check_logged(rounds: LoggedRounds, n_labels: int, first_row: int = 0) -> None:
    """Refuse rounds that cannot be evaluated; messages count rows from `first_row`.

    Raises `InvalidArrayError`, with the field and the first wrong row, if lengths differ, numbers are negative or not
    increasing, a label is unknown or not eligible, a propensity or reward is out of range, or a count is below 1.
    """
    n = rounds.n
    for name, column in zip(rounds._fields[:-1], rounds[:-1], strict=True):
        if len(column) != n:
            raise InvalidArrayError(f"{name}: {len(column)} rows, where there are {n} rounds")
    if rounds.contexts.n != n:
        raise InvalidArrayError(f"contexts: {rounds.contexts.n} rows, where there are {n} rounds")
    _refuse("round", rounds.numbers, np.diff(rounds.numbers, prepend=-1) <= 0, "must increase", first_row)
    wrong = (rounds.labels < 0) | (rounds.labels >= n_labels)
    _refuse("label", rounds.labels, wrong, f"must be a label, from 0 to {n_labels - 1}", first_row)
    valid = (rounds.propensities > 0.0) & (rounds.propensities <= 1.0)
    _refuse("propensity", rounds.propensities, ~valid, "must be above 0 and at most 1", first_row)
    valid = (rounds.rewards >= 0.0) & (rounds.rewards <= 1.0)
    _refuse("reward", rounds.rewards, ~valid, "must be from 0 to 1", first_row)
    _refuse("choices", rounds.counts, rounds.counts < 1, "must be at least 1", first_row)
    if rounds.eligible.shape[1]:
        among = rounds.eligible[np.arange(n), rounds.labels]
        _refuse("label", rounds.labels, ~among, "must be eligible", first_row)


def _refuse(name: str, column: Any, wrong: BoolArray, rule: str, first_row: int) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidArrayError(f"row {first_row + row}: {name}: got {column[row]}; {rule}")
