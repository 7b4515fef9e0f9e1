"""Tables in memory, column by column."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from service.files.columns import check_names, no_column
from service.files.delimited import read_rows, suffix_of
from service.files.errors import FileError
from service.files.lines import read_start
from service.files.parquet import batches_of, schema_of
from service.files.rows import RowError

_ROWS_AT_ONCE = 65_536


class Table(NamedTuple):
    """A table, column by column."""

    path: Path
    names: tuple[str, ...]
    values: list[list[Any]]  # of each column: strings in CSV; as the file has them in Parquet
    places: Sequence[str]  # of each row: `line 2` of a text file, `row 1` of Parquet

    def column(self, name: str) -> list[Any]:
        """Return a column by name.

        Raises:
            FileError: if the table does not have it.
        """
        if name not in self.names:
            raise FileError(self.path, "", no_column(name, self.names))
        return self.values[self.names.index(name)]


def is_parquet(path: Path) -> bool:
    """Check whether a file is Parquet by its content, or by its name.

    Raises:
        FileError: if it cannot be read, or is empty.
    """
    return read_start(path).startswith(b"PAR1") or suffix_of(path) in {".parquet", ".pq"}


def read_table(path: Path, has_header: bool = True) -> Table:
    """Read a file of CSV, of CSV with tabs (`.tsv`), compressed or not, or of Parquet.

    Args:
        path: the file.
        has_header: whether the first row of a text file has names; without one, they are 1, 2, ….

    Raises:
        FileError: if it cannot be read, or has no rows, or two columns of the same name.
    """
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
