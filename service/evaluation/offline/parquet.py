"""Parts of an exported log in Parquet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.evaluation.offline.columns import Columns
from service.evaluation.offline.errors import EvaluationError

_NEEDED = {"round": pa.int64(), "label": pa.string(), "propensity": pa.float64(), "reward": pa.float64()}
_OPTIONAL = {
    "true_label": pa.string(),
    "context": pa.string(),
    "eligible": pa.list_(pa.string()),
    "holdout": pa.bool_(),
    "action_count": pa.int64(),
}
_KEY = b"wager"
_VERSION = 1


class ParquetPart(NamedTuple):
    """One file of a log."""

    path: str

    @property
    def name(self) -> str:
        """The name of the part, for messages."""
        return self.path

    def batches(self, size: int) -> Iterator[Columns]:
        """Yield the rounds in batches of up to this many rows.

        Raises:
            EvaluationError: if the file cannot be read, lacks a column, or has one of another type.
        """
        file = _opened(self.path)
        known = set(file.schema_arrow.names)
        missing = [name for name in _NEEDED if name not in known]
        if missing:
            raise EvaluationError(f"{self.path}: the column {missing[0]} is missing")
        names = [name for name in (*_NEEDED, *_OPTIONAL, "distribution") if name in known]
        row = 0
        try:
            for batch in file.iter_batches(size, columns=names):
                yield _columns(batch, self.path, row)
                row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise EvaluationError(f"{self.path}: after row {row}: cannot be read: {error}") from error


def parts_of(source: Path) -> list[ParquetPart]:
    """Return the parts of a file or a folder, in the order of their names.

    Raises:
        EvaluationError: if there is none.
    """
    if source.is_dir():
        files = sorted(source.glob("*.parquet"))
        if not files:
            raise EvaluationError(f"{source}: the folder has no file that ends with .parquet")
        return [ParquetPart(str(file)) for file in files]
    if not source.exists():
        raise EvaluationError(f"{source}: there is no such file or folder")
    return [ParquetPart(str(source))]


def described_model(part: ParquetPart) -> dict[str, Any]:
    """Return the answer of `GET /models/{name}` that an export has in its metadata.

    Raises:
        EvaluationError: if it has none, or one of a newer version.
    """
    metadata = _opened(part.path).schema_arrow.metadata or {}
    if _KEY not in metadata:
        raise EvaluationError(f"{part.path}: has no metadata `wager`; write the file with `wager export`")
    try:
        content = json.loads(metadata[_KEY])
        version, model = int(content["version"]), dict(content["model"])
    except (ValueError, LookupError, TypeError) as error:
        raise EvaluationError(f"{part.path}: the metadata `wager` cannot be read: {error}") from error
    if version != _VERSION:
        raise EvaluationError(f"{part.path}: has version {version}; this version of Wager reads version {_VERSION}")
    return model


def _opened(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise EvaluationError(f"{path}: is not a Parquet file, or is truncated: {error}") from error


def _columns(batch: pa.RecordBatch, path: str, row: int) -> Columns:
    taken = {name: _cast(batch, name, path, row) for name in batch.schema.names if name != "distribution"}
    n = batch.num_rows
    nothing: list[Any] = [None] * n
    values = {name: column.to_pylist() for name, column in taken.items()}
    counts = values.get("action_count", nothing)
    if "distribution" in batch.schema.names:
        lengths = batch.column("distribution").value_lengths().to_pylist()
        counts = [length if count is None else count for count, length in zip(counts, lengths, strict=True)]
    return Columns(
        _filled(values["round"], -1, np.int64),
        values["label"],
        _filled(values["propensity"], np.nan, np.float64),
        _filled(values["reward"], np.nan, np.float64),
        values.get("true_label", nothing),
        _parsed(values.get("context", nothing), path, row),
        values.get("eligible", nothing),
        counts,
        _filled(values.get("holdout", nothing), False, np.bool_),
    )


def _cast(batch: pa.RecordBatch, name: str, path: str, row: int) -> Any:
    wanted = (_NEEDED | _OPTIONAL)[name]
    try:
        return batch.column(name).cast(wanted)
    except pa.ArrowException as error:
        raise EvaluationError(f"{path}: after row {row}: the column {name} must be {wanted}: {error}") from error


def _filled(values: list[Any], missing: Any, dtype: Any) -> Any:
    return np.array([missing if value is None else value for value in values], dtype)


def _parsed(contexts: list[str | None], path: str, row: int) -> list[Any]:
    found = list[Any]()
    for place, text in enumerate(contexts):
        try:
            found.append(None if text is None else json.loads(text))
        except ValueError as error:
            raise EvaluationError(f"{path}: row {row + place}: context is not JSON: {error}") from error
    return found
