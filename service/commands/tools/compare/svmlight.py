"""Reads labelled sparse data in the format of svmlight."""

import math
from pathlib import Path
from typing import NamedTuple

from learners.base import Contexts
from service.files.errors import FileError
from service.files.lines import read_lines


class SparseRows(NamedTuple):
    """Labels and sparse features; indices are those of the file."""

    labels: list[str]
    contexts: Contexts
    size: int  # the largest index + 1


def read_svmlight(path: Path) -> SparseRows:
    """Read lines of a label and `index:value` pairs. Text after `#` and `qid:` pairs are ignored.

    Raises:
        FileError: if the file cannot be read, or if a line has another form; names the line.
    """
    labels: list[str] = []
    lengths: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    for number, line in read_lines(path):
        label, *pairs = line.partition("#")[0].split() or [""]
        if not label:
            continue
        if ":" in label or "," in label:
            raise FileError(path, f"line {number}", f"must begin with a single label, not {label[:60]!r}")
        entries = dict(_pair(path, number, pair) for pair in pairs if not pair.startswith("qid:"))
        if len(entries) != len([pair for pair in pairs if not pair.startswith("qid:")]):
            raise FileError(path, f"line {number}", "an index occurs twice")
        labels.append(label)
        lengths.append(len(entries))
        indices += entries.keys()
        values += entries.values()
    if not indices:
        raise FileError(path, "", "has no rows with features")
    return SparseRows(labels, Contexts.sparse(lengths, indices, values), max(indices) + 1)


def _pair(path: Path, number: int, pair: str) -> tuple[int, float]:
    index, colon, value = pair.partition(":")
    try:
        entry = int(index), float(value)
    except ValueError:
        entry = -1, math.nan
    if not colon or not 0 <= entry[0] < 2**31 or not math.isfinite(entry[1]):
        reason = f"got {pair[:60]!r}; must be index:value, with an index from 0 to 2³¹ - 1"
        raise FileError(path, f"line {number}", reason)
    return entry
