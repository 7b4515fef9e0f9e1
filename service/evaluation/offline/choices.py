"""A policy's choices for the rounds of a log, from a CSV or Parquet file.

The file has the columns `round` and `label`, and may have `probability`: several rows of a round are then a
distribution.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from learners.base import FloatArray, IntArray
from learners.evaluation.off_policy.logged import LoggedRounds
from service.evaluation.offline.columns import LoggedModel
from service.evaluation.offline.errors import EvaluationError
from service.files.errors import FileError
from service.files.rows import RowError, checked_number
from service.files.whole import Table, read_table

_TOLERANCE = 1e-6
_MOST_ROUNDS = 2**53


class Choices(NamedTuple):
    """The probabilities of labels in rounds, by round."""

    path: str
    numbers: IntArray  # (m,) int64, not decreasing
    labels: IntArray  # (m,) int64
    probabilities: FloatArray  # (m,) float64

    def distributions(self, rounds: LoggedRounds, n_labels: int) -> FloatArray:
        """Return the distribution of each round, (n, K).

        Raises:
            EvaluationError: if a round has none, or one of a label that it could not answer.
        """
        starts = np.searchsorted(self.numbers, rounds.numbers, "left")
        ends = np.searchsorted(self.numbers, rounds.numbers, "right")
        if (starts == ends).any():
            number = rounds.numbers[np.flatnonzero(starts == ends)[0]]
            raise EvaluationError(f"{self.path}: round {number} of the log has no choice")
        distributions = np.zeros((rounds.n, n_labels))
        rows = np.repeat(np.arange(rounds.n), ends - starts)
        places = np.concatenate([np.arange(*pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)])
        np.add.at(distributions, (rows, self.labels[places]), self.probabilities[places])
        if rounds.eligible.shape[1] and (distributions[~rounds.eligible] > 0.0).any():
            row = int(np.flatnonzero((distributions * ~rounds.eligible).sum(axis=1))[0])
            raise EvaluationError(f"{self.path}: round {rounds.numbers[row]} has a label that was not eligible")
        return distributions


def read_choices(path: Path, model: LoggedModel) -> Choices:
    """Read a file of choices.

    Raises:
        EvaluationError: if the model has actions, or the file has an unknown label.
        FileError: if it cannot be read, lacks a column, or has probabilities that do not sum to 1 in each round.
    """
    if model.has_actions:
        raise EvaluationError(f"--choices {path}: a model with actions has no labels to choose from")
    table = read_table(path)
    numbers = np.array(_column_of(table, "round", _number_of_round), np.int64)
    names, places = table.column("label"), table.places
    labels = [model.label_number(str(name), f"{path}: {places[row]}: label") for row, name in enumerate(names)]
    probabilities = np.ones(len(numbers))
    if "probability" in table.names:
        probabilities = np.array(_column_of(table, "probability", _probability))
    _check(path, numbers, probabilities)
    order = np.argsort(numbers, kind="stable")
    return Choices(str(path), numbers[order], np.array(labels, np.int64)[order], probabilities[order])


def _column_of(table: Table, name: str, convert: Callable[[Any, str], Any]) -> list[Any]:
    found = []
    for place, value in zip(table.places, table.column(name), strict=True):
        try:
            found.append(convert(value, name))
        except RowError as error:
            raise FileError(table.path, place, str(error)) from None
    return found


def _number_of_round(value: Any, field: str) -> int:
    number = checked_number(value, field)
    if number != int(number) or not 0 <= number < _MOST_ROUNDS:
        raise RowError(f"{field}: got {value!r}; must be the number of a round")
    return int(number)


def _probability(value: Any, field: str) -> float:
    number = checked_number(value, field)
    if not 0.0 <= number <= 1.0:
        raise RowError(f"{field}: got {number}; must be from 0 to 1")
    return number


def _check(path: Path, numbers: IntArray, probabilities: FloatArray) -> None:
    known, places = np.unique(numbers, return_inverse=True)
    totals = np.bincount(places, probabilities, len(known))
    wrong = np.abs(totals - 1.0) > _TOLERANCE
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        reason = f"the probabilities of round {known[first]} sum to {totals[first]:g}, not to 1"
        raise FileError(path, "", reason)
