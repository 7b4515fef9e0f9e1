"""Reads tables of rounds: CSV and Parquet."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.files.columns import Chosen, find_columns, round_of
from service.files.errors import FileError
from service.files.lines import MOST_LINE_BYTES, read_lines
from service.files.parquet import open_parquet
from service.files.rows import Row, RowError, Shape

_ROWS_AT_ONCE = 2_000


class CsvReader:
    """Reads a CSV file with a header. Quoted values contain no line breaks.

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
        csv.field_size_limit(MOST_LINE_BYTES)
        lines, header = read_lines(self._path), list[str]()
        number, first = next(lines)
        try:
            header = self._values(first)
            columns = find_columns(header, self._chosen)
            for number, text in lines:
                values = self._values(text)
                if len(values) != len(header):
                    raise RowError(f"has {len(values)} values; the header has {len(header)}")
                yield Row(f"line {number}", round_of(columns, dict(zip(header, values, strict=True)), shape))
        except RowError as error:
            raise FileError(self._path, f"line {number}", str(error)) from None

    @staticmethod
    def _values(text: str) -> list[str]:
        if "\0" in text:
            raise RowError("has a null byte: it is not CSV")
        if '"' not in text:
            return text.split(",")
        try:
            return next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise RowError(f"is not CSV: {error}") from None


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
        number, batches = 0, open_parquet(path, _ROWS_AT_ONCE)
        try:
            columns = find_columns(next(batches), self._chosen)
            for batch in batches:
                row: dict[str, Any]
                for row in batch:
                    number += 1
                    yield Row(f"row {number}", round_of(columns, row, shape))
        except RowError as error:
            raise FileError(path, f"row {number}" if number else "", str(error)) from None


def parts_of(path: Path, suffix: str = ".parquet") -> list[Path]:
    """Return a file, or the parts in a folder.

    Raises:
        FileError: if the folder has none.
    """
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(f"part-*{suffix}"))
    if not found:
        raise FileError(path, "", f"has no part-*{suffix}")
    return found
