"""Reads the log of a model as `GET /models/{name}/rounds` answers it: one round per line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.files.columns import Chosen, find_columns, round_of
from service.files.errors import FileError
from service.files.lines import read_lines
from service.files.rows import Row, RowError, Shape, json_of


class NdjsonReader:
    """Reads rounds in NDJSON.

    Args:
        path: the file, compressed or not.
    """

    skipped = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of the file.

        Raises:
            FileError: if a line is damaged, or does not fit the model.
        """
        for number, text in read_lines(self._path):
            try:
                yield Row(self._path, f"line {number}", _round(text, shape))
            except RowError as error:
                raise FileError(self._path, f"line {number}", str(error)) from None


def _round(text: str, shape: Shape | None) -> dict[str, Any]:
    try:
        line = json_of(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"is not JSON: {error}") from None
    if not isinstance(line, dict) or "context" not in line:
        raise RowError("is not a round of a log: it has no context")
    if line.get("labels") is not None:
        raise RowError("is a round with several labels, which cannot be imported")
    return round_of(find_columns(list(line), Chosen()), line, shape)
