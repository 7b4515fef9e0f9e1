"""Reads labelled data from CSV and Parquet files as columns of values."""

import csv
import gzip
import lzma
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

Column = list[Any]
"""The values of a column: strings in CSV; as the file has them in Parquet."""


class FileError(Exception):
    """A file cannot be read or understood; the message begins with its name and, if possible, the line."""


class Columns(NamedTuple):
    """A table, column by column."""

    names: tuple[str, ...]
    values: list[Column]
    lines: list[int]  # the line of each row in the file; the row's number, from 1, if it has no lines

    def column(self, name: str) -> Column:
        """Return a column by name."""
        return self.values[self.names.index(name)]


_OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def suffix_of(path: Path) -> str:
    """Return the suffix of a file without that of its compression, in lower case."""
    inner = path.with_suffix("") if path.suffix.lower() in _OPENERS else path
    return inner.suffix.lower()


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, which may be compressed by gzip or xz.

    Raises:
        FileError: if it cannot be read to its end, or is not UTF-8.
    """
    try:
        with _opened(path) as file:
            yield from file
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not a text in UTF-8 ({error.reason}); is it of another format?") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _opened(path: Path) -> IO[Any]:
    opener: Any = _OPENERS.get(path.suffix.lower(), open)
    file: IO[Any] = opener(path, "rt", encoding="utf-8-sig", newline="")
    return file


def read_csv(path: Path, has_header: bool) -> Columns:
    """Read a CSV file, or one with tabs if its suffix is `.tsv`. Without a header, columns have the names 1, 2, ….

    Raises:
        FileError: if it cannot be read, has no rows, or if a row has another number of values than the first.
    """
    reader = csv.reader(lines_of(path), delimiter="\t" if suffix_of(path) == ".tsv" else ",", strict=True)
    try:
        rows = ((reader.line_num, row) for row in reader if row)
        line, first = next(rows, (0, []))
        names = tuple(first) if has_header else tuple(map(str, range(1, len(first) + 1)))
        _check_names(path, names)
        found = _rows(path, rows if has_header else chain([(line, first)], rows), len(names))
    except csv.Error as error:
        raise FileError(f"{path}:{reader.line_num}: not CSV: {error}") from error
    if not found:
        raise FileError(f"{path}: no rows")
    return Columns(
        names, [list(column) for column in zip(*(row for _, row in found), strict=True)], [n for n, _ in found]
    )


def _rows(path: Path, rows: Iterator[tuple[int, list[str]]], width: int) -> list[tuple[int, list[str]]]:
    found = []
    for line, row in rows:
        if len(row) != width:
            raise FileError(f"{path}:{line}: {len(row)} values in a row; must be {width}, as in the first line")
        found.append((line, row))
    return found


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    if not names:
        raise FileError(f"{path}: empty")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FileError(f"{path}: two columns have the name {twice!r}; use --no-header if the first line is data")


def read_parquet(path: Path) -> Columns:
    """Read a Parquet file.

    Raises:
        FileError: if it cannot be read, has no rows, or if pyarrow is missing.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise FileError(f"{path}: Parquet needs pyarrow: install wager[tools]") from error
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise FileError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from error
    names = tuple(table.column_names)
    _check_names(path, names)
    if table.num_rows == 0:
        raise FileError(f"{path}: no rows")
    return Columns(names, [column.to_pylist() for column in table.columns], list(range(1, table.num_rows + 1)))
