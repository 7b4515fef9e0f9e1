"""Reads Parquet with pyarrow, an optional dependency."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.json_values import JsonObject
from toolkit.files.lines import FileError, read_start
from toolkit.files.rows import ALLOWED

MISSING = "Parquet needs pyarrow; install it with `make tools`, or with pip install 'wager[tools]'"


def pyarrow(path: Path) -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`. Raises `FileError` if they are not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise FileError(path, "", MISSING) from None
    return pa, pq


def parts_of(path: Path, suffix: str = ".parquet") -> list[Path]:
    """Return the path itself, or the files of a folder with this suffix, sorted by name."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob(f"*{suffix}"))
    if not found:
        raise FileError(path, "", f"has no file *{suffix}")
    return found


def schema_of(path: Path) -> Any:
    """Return the schema of a file: its columns, their types, and its metadata."""
    with _reading(path) as pq, pq.ParquetFile(path) as file:
        return file.schema_arrow


def batches_of(path: Path, size: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield record batches of up to `size` rows."""
    with _reading(path) as pq, pq.ParquetFile(path) as file:
        yield from file.iter_batches(size, columns=columns)


def check_feature_types(path: Path, names: Collection[str]) -> None:
    """Check that columns have types that features allow."""
    pa, _ = pyarrow(path)
    for column in schema_of(path):
        if column.name in names and not _is_feature(pa.types, column.type):
            raise FileError(path, "", f"the column {column.name!r} has the type {column.type}; features are {ALLOWED}")


def _is_feature(types: Any, found: Any) -> bool:
    """Check whether a column contains what `ALLOWED` lists."""
    if types.is_dictionary(found):
        found = found.value_type
    elif types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found):
        found = found.value_type.value_type if types.is_dictionary(found.value_type) else found.value_type
        return types.is_integer(found) or types.is_floating(found) or _is_text(types, found)
    plain = types.is_integer(found) or types.is_floating(found) or types.is_boolean(found) or types.is_null(found)
    return plain or _is_text(types, found)


def _is_text(types: Any, found: Any) -> bool:
    return bool(types.is_string(found) or types.is_large_string(found) or types.is_string_view(found))


def exported_types(path: Path) -> JsonObject:
    """Return the types of the columns of an exported log."""
    pa, _ = pyarrow(path)
    text, moment = pa.string(), pa.timestamp("us", "UTC")
    return {
        "round": pa.int64(), "prediction_id": text, "label": text, "propensity": pa.float64(), "reward": pa.float64(),
        "correct": pa.bool_(), "abstained": pa.bool_(), "true_label": text, "context": text, "actions": text,
        "action_count": pa.int64(),
        "eligible": pa.list_(text), "distribution": pa.list_(pa.float64()), "holdout": pa.bool_(),
        "cost": pa.float64(), "cost_weight": pa.float64(), "costs": pa.map_(text, pa.float64()), "outcome": text,
        "rounds_seen": pa.int64(), "changes_seen": pa.int64(), "changes": pa.int64(), "label_count": pa.int64(),
        "predicted_at": moment, "feedback_at": moment,
    }  # fmt: skip


def with_plain_times(path: Path, batch: Any) -> Any:
    """Convert nanosecond times in a record batch to microseconds, the resolution of Python's `datetime`."""
    pa, _ = pyarrow(path)
    for i, column in enumerate(batch.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            times = batch.column(i).cast(pa.timestamp("us", column.type.tz), safe=False)
            batch = batch.set_column(i, column.name, times)
    return batch


def values_of(path: Path, batch: Any, first_row: int) -> dict[str, list[Any]]:
    """Return the values in a batch of an exported log, by column."""
    (pa, _), types = pyarrow(path), exported_types(path)
    found = dict[str, list[Any]]()
    for name in batch.schema.names:
        try:
            found[name] = batch.column(name).cast(types[name]).to_pylist(maps_as_pydicts="lossy")
        except pa.ArrowException as error:
            place = f"rows from {first_row}"
            raise FileError(path, place, f"the column {name!r} must be {types[name]}: {_short(error)}") from error
    return found


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """Yield `pyarrow.parquet`, and convert its errors."""
    pa, pq = pyarrow(path)
    read_start(path)
    try:
        yield pq
    except (pa.ArrowException, OSError) as error:
        raise FileError(path, "", f"is not Parquet, or damaged: {_short(error)}") from error


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:200]
