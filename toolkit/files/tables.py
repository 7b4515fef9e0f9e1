"""Reads tables: CSV, TSV and Parquet."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.files.columns import check_names, no_column
from toolkit.files.lines import MOST_LINE_BYTES, FileError, raw_lines, read_start
from toolkit.files.parquet import batches_of, schema_of
from toolkit.files.rows import RowError

_ROWS_AT_ONCE = 65_536
_PACKED = {".gz", ".xz", ".bz2"}


def suffix_of(path: Path) -> str:
    """Return the suffix of a file in lower case, without the suffix of its compression."""
    inner = path.with_suffix("") if path.suffix.lower() in _PACKED else path
    return inner.suffix.lower()


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield, for each row that is not empty, the number of its first line, and its values.

    The separator is a comma, or a tab if the suffix is `.tsv`. Quoted values may contain line breaks.
    """
    csv.field_size_limit(MOST_LINE_BYTES)
    delimiter = "\t" if suffix_of(path) == ".tsv" else ","
    lines, width = raw_lines(path), 0
    rest = (text for _, text in lines)
    for number, text in lines:
        if not text.strip(" \r\n"):
            continue
        values = _split_row(path, number, text, rest, delimiter)
        width = width or len(values)
        if len(values) != width:
            raise FileError(path, f"line {number}", f"has {len(values)} values; the first row has {width}")
        yield number, values


def _split_row(path: Path, number: int, text: str, rest: Iterator[str], delimiter: str) -> list[str]:
    if "\0" in text:
        raise FileError(path, f"line {number}", "has a null byte: it is not CSV")
    if '"' not in text:
        return text.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader(chain([text], rest), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise FileError(path, f"line {number}", f"is not CSV: {error}") from None


class Table(NamedTuple):
    """A table, column by column."""

    path: Path
    names: tuple[str, ...]
    values: list[list[Any]]  # of each column: strings for CSV, typed values for Parquet
    places: Sequence[str]  # of each row: such as `line 2` in a text file, or `row 1` in Parquet

    def column(self, name: str) -> list[Any]:
        """Return a column by name."""
        if name not in self.names:
            raise FileError(self.path, "", no_column(name, self.names))
        return self.values[self.names.index(name)]


def is_parquet(path: Path) -> bool:
    """Check whether a file is Parquet by its content, or by its name."""
    return read_start(path).startswith(b"PAR1") or suffix_of(path) in {".parquet", ".pq"}


def read_table(path: Path, has_header: bool = True) -> Table:
    """Read a CSV or TSV file, compressed or not, or a Parquet file."""
    table = _parquet(path) if is_parquet(path) else _text(path, has_header)
    try:
        check_names(table.names)
    except RowError as error:
        raise FileError(path, "", str(error)) from None
    if not table.places:
        raise FileError(path, "", "has no rows")
    return table


def _text(path: Path, has_header: bool) -> Table:
    rows = read_rows(path)
    number, first = next(rows, (0, list[str]()))
    if not number:
        raise FileError(path, "", "is empty")
    names = tuple(first) if has_header else tuple(map(str, range(1, len(first) + 1)))
    found = list(rows if has_header else chain([(number, first)], rows))
    columns = [list(column) for column in zip(*(values for _, values in found), strict=True)]
    return Table(path, names, columns, [f"line {line}" for line, _ in found])


def _parquet(path: Path) -> Table:
    names = tuple(schema_of(path).names)
    columns: list[list[Any]] = [[] for _ in names]
    for batch in batches_of(path, _ROWS_AT_ONCE):
        for values, column in zip(columns, batch.columns, strict=True):
            values.extend(column.to_pylist())
    count = len(columns[0]) if columns else 0
    return Table(path, names, columns, [f"row {row}" for row in range(1, count + 1)])
