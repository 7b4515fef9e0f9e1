"""Reads tables of rounds: CSV and Parquet."""

from collections.abc import Iterator
from pathlib import Path

from service.files.columns import Chosen, Columns, find_columns, round_of
from service.files.delimited import read_rows
from service.files.errors import FileError
from service.files.parquet import batches_of, check_feature_types, parts_of, schema_of, with_plain_times
from service.files.rows import Row, RowError, Shape

_ROWS_AT_ONCE = 2_000


class CsvReader:
    """Reads a CSV file with a header, or one with tabs if its suffix is `.tsv`.

    Args:
        path: the file, compressed or not.
        chosen: what the user says of the columns.
    """

    skipped = 0

    def __init__(self, path: Path, chosen: Chosen) -> None:
        self._path, self._chosen = path, chosen

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of the file.

        Raises:
            FileError: if a line is damaged, or does not fit the model.
        """
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
    """Reads a Parquet file, or a folder of parts in the order of their names.

    Args:
        path: the file or the folder.
        chosen: what the user says of the columns.
    """

    skipped = 0

    def __init__(self, path: Path, chosen: Chosen) -> None:
        self._path, self._chosen = path, chosen

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of all parts.

        Raises:
            FileError: if a part is damaged, or a row does not fit the model.
        """
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
        for batch in batches_of(path, _ROWS_AT_ONCE, columns.used):
            for row in with_plain_times(path, batch).to_pylist():
                number += 1
                yield Row(path, f"row {number}", round_of(columns, row, shape))
    except RowError as error:
        raise FileError(path, f"row {number}", str(error)) from None


def _check_same(path: Path, columns: Columns, first_path: Path, first: Columns) -> None:
    """Check that a part has the columns of the first one.

    Raises:
        FileError: if it lacks one of them, or has another one.
    """
    for name in first.used:
        if name not in columns.used:
            raise FileError(path, "", f"has no column {name!r}, which {first_path.name} has")
    for name in columns.used:
        if name not in first.used:
            raise FileError(path, "", f"has the column {name!r}, which {first_path.name} does not have")
