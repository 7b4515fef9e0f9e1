"""A policy's choices for the rounds of a log, from a CSV or Parquet file.

The file has the columns `round` and `label`, and may have `probability`: several rows of a round are then a
distribution.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from learners.base import FloatArray, IntArray
from learners.evaluation.off_policy.logged import LoggedRounds
from service.evaluation.offline.columns import LoggedModel
from service.evaluation.offline.errors import EvaluationError

_TOLERANCE = 1e-6
_TYPES = {"round": pa.int64(), "label": pa.string(), "probability": pa.float64()}


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
        EvaluationError: if it cannot be read, lacks a column, or has an unknown label, or probabilities that do not
            sum to 1 in each round.
    """
    if model.has_actions:
        raise EvaluationError(f"--choices {path}: a model with actions has no labels to choose from")
    table = _table(path)
    numbers = np.array(table.column("round").to_pylist(), np.int64)
    names = table.column("label").to_pylist()
    labels = np.array([model.label_number(str(name), f"{path}: row {row}") for row, name in enumerate(names)], np.int64)
    given = "probability" in table.column_names
    probabilities = np.array(table.column("probability").to_pylist() if given else [1.0] * len(names), np.float64)
    _check(path, numbers, probabilities)
    order = np.argsort(numbers, kind="stable")
    return Choices(str(path), numbers[order], labels[order], probabilities[order])


def _table(path: Path) -> pa.Table:
    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path, convert_options=_AS_TEXT)
    except (pa.ArrowException, OSError) as error:
        raise EvaluationError(f"{path}: cannot be read as CSV or Parquet: {error}") from error
    columns = {}
    for name, wanted in _TYPES.items():
        if name in table.column_names:
            columns[name] = _cast(table.column(name), wanted, f"{path}: the column {name}")
        elif name != "probability":
            raise EvaluationError(f"{path}: the column {name} is missing")
    return pa.table(columns)


_AS_TEXT = pyarrow.csv.ConvertOptions(column_types={"label": pa.string()})


def _cast(column: pa.ChunkedArray, wanted: pa.DataType, where: str) -> pa.ChunkedArray:
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise EvaluationError(f"{where}: row {row} is empty")
    try:
        return column.cast(wanted)
    except pa.ArrowException as error:
        raise EvaluationError(f"{where} must be {wanted}: {error}") from error


def _check(path: Path, numbers: IntArray, probabilities: FloatArray) -> None:
    wrong = ~((probabilities >= 0.0) & (probabilities <= 1.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise EvaluationError(f"{path}: row {row}: probability is {probabilities[row]}; must be from 0 to 1")
    known, places = np.unique(numbers, return_inverse=True)
    totals = np.bincount(places, probabilities, len(known))
    wrong = np.abs(totals - 1.0) > _TOLERANCE
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise EvaluationError(f"{path}: the probabilities of round {known[first]} sum to {totals[first]:g}, not to 1")
