"""Reads tables of rounds: CSV and Parquet."""

from collections.abc import Iterator
from pathlib import Path

from service.files.columns import Chosen, find_columns, round_of
from service.files.delimited import read_rows
from service.files.errors import FileError
from service.files.parquet import batches_of, parts_of, schema_of
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
                yield Row(f"line {number}", round_of(columns, dict(zip(header, values, strict=True)), shape))
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
        for part in parts_of(self._path):
            yield from self._of_part(part, shape)

    def _of_part(self, path: Path, shape: Shape | None) -> Iterator[Row]:
        number = 0
        try:
            columns = find_columns(schema_of(path).names, self._chosen)
            for batch in batches_of(path, _ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield Row(f"row {number}", round_of(columns, row, shape))
        except RowError as error:
            raise FileError(path, f"row {number}" if number else "", str(error)) from None
