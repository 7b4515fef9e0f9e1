"""Reads Parquet with pyarrow, which only `make tools` installs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.files.errors import FileError
from service.files.lines import read_start

MISSING = "Parquet needs pyarrow; install it with `make tools`, or with pip install 'wager[tools]'"


def pyarrow(path: Path) -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        FileError: if they are not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise FileError(path, "", MISSING) from None
    return pa, pq


def open_parquet(path: Path, rows_at_once: int) -> Iterator[Any]:
    """Yield the names of the columns, then lists of rows, each a dict.

    Raises:
        FileError: if the file is not Parquet, or damaged.
    """
    pa, pq = pyarrow(path)
    read_start(path)
    try:
        with pq.ParquetFile(path) as file:
            yield file.schema_arrow.names
            for batch in file.iter_batches(rows_at_once):
                yield batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(path, "", f"is not Parquet, or damaged: {str(error).splitlines()[0][:200]}") from error
