"""Reads tables of rounds: CSV and Parquet."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.files.columns import Chosen, Columns, check_names, find_columns, no_column, round_of
from toolkit.files.lines import MOST_LINE_BYTES, FileError, raw_lines, read_start
from toolkit.files.parquet import batches_of, check_feature_types, parts_of, schema_of, with_plain_times
from toolkit.files.rows import Row, RowError, Shape

_PACKED = {".gz", ".xz", ".bz2"}


def suffix_of(path: Path) -> str:
    """Return the suffix of a file without that of its compression, in lower case."""
    inner = path.with_suffix("") if path.suffix.lower() in _PACKED else path
    return inner.suffix.lower()


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the values of each row that is not empty, with the number of its first line.

    Commas separate them, or tabs if the suffix is `.tsv`. Quoted values may contain line breaks.
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


_ROWS_AT_ONCE = 65_536


class Table(NamedTuple):
    """A table, column by column."""

    path: Path
    names: tuple[str, ...]
    values: list[list[Any]]  # of each column: strings in CSV; as the file has them in Parquet
    places: Sequence[str]  # of each row: `line 2` of a text file, `row 1` of Parquet

    def column(self, name: str) -> list[Any]:
        """Return a column by name."""
        if name not in self.names:
            raise FileError(self.path, "", no_column(name, self.names))
        return self.values[self.names.index(name)]


def is_parquet(path: Path) -> bool:
    """Check whether a file is Parquet by its content, or by its name."""
    return read_start(path).startswith(b"PAR1") or suffix_of(path) in {".parquet", ".pq"}


def read_table(path: Path, has_header: bool = True) -> Table:
    """Read a file of CSV, of CSV with tabs (`.tsv`), compressed or not, or of Parquet."""
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


_ROWS_PER_READ = 2_000


class CsvReader:
    """Reads a CSV file with a header, or one with tabs if its suffix is `.tsv`."""

    skipped = 0

    def __init__(self, path: Path, chosen: Chosen) -> None:
        self._path, self._chosen = path, chosen

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of the file."""
        rows = read_rows(self._path)
        number, header = next(rows, (1, list[str]()))
        try:
            columns = find_columns(header, self._chosen)
            for number, values in rows:
                yield Row(
                    self._path, f"line {number}", round_of(columns, dict(zip(header, values, strict=True)), shape)
                )
        except RowError as error:
            raise FileError(self._path, f"line {number}", str(error)) from None


class ParquetReader:
    """Reads a Parquet file, or a folder of parts in the order of their names."""

    skipped = 0

    def __init__(self, path: Path, chosen: Chosen) -> None:
        self._path, self._chosen = path, chosen

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of all parts."""
        first: tuple[Path, Columns] | None = None
        for part in parts_of(self._path):
            columns = self._columns(part)
            first = first or (part, columns)
            _check_same(part, columns, *first)
            yield from _rows_of(part, columns, shape)

    def _columns(self, path: Path) -> Columns:
        """Return the meaning of the columns of a part."""
        try:
            columns = find_columns(schema_of(path).names, self._chosen)
        except RowError as error:
            raise FileError(path, "", str(error)) from None
        check_feature_types(path, columns.features)
        return columns


def _rows_of(path: Path, columns: Columns, shape: Shape | None) -> Iterator[Row]:
    """Yield the rounds of a part. Columns that are no part of a round are not read."""
    number = 0
    try:
        for batch in batches_of(path, _ROWS_PER_READ, columns.used):
            for row in with_plain_times(path, batch).to_pylist():
                number += 1
                yield Row(path, f"row {number}", round_of(columns, row, shape))
    except RowError as error:
        raise FileError(path, f"row {number}", str(error)) from None


def _check_same(path: Path, columns: Columns, first_path: Path, first: Columns) -> None:
    """Check that a part has the columns of the first one."""
    for name in first.used:
        if name not in columns.used:
            raise FileError(path, "", f"has no column {name!r}, which {first_path.name} has")
    for name in columns.used:
        if name not in first.used:
            raise FileError(path, "", f"has the column {name!r}, which {first_path.name} does not have")
