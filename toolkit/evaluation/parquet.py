"""Parts of an exported log in Parquet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from learners.base import FloatArray
from service.error_messages.patterns import LEAST_PROPENSITY
from toolkit.evaluation.columns import Columns
from toolkit.files import parquet
from toolkit.files.columns import given_context, no_column
from toolkit.files.lines import FileError
from toolkit.files.rows import RowError, checked_context, checked_propensity

_NEEDED = ("round", "label", "propensity", "reward")
_OPTIONAL = ("true_label", "context", "eligible", "holdout", "action_count", "label_count", "distribution")
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
        """Yield the rounds in batches of up to this many rows."""
        path = Path(self.path)
        known = parquet.schema_of(path).names
        missing = next((name for name in _NEEDED if name not in known), None)
        if missing is not None:
            raise FileError(path, "", no_column(missing, known))
        names = [name for name in (*_NEEDED, *_OPTIONAL) if name in known]
        row = 1
        for batch in parquet.batches_of(path, size, names):
            yield _columns(parquet.values_of(path, batch, row), path, row)
            row += batch.num_rows


def parts_of(source: Path) -> list[ParquetPart]:
    """Return the parts of a file or a folder, in the order of their names."""
    return [ParquetPart(str(path)) for path in parquet.parts_of(source)]


def described_model(part: ParquetPart) -> dict[str, Any]:
    """Return the answer of `GET /models/{name}` that an export has in its metadata."""
    path = Path(part.path)
    metadata = parquet.schema_of(path).metadata or {}
    if _KEY not in metadata:
        raise FileError(path, "", "has no metadata `wager`; write the file with `wager export`")
    try:
        content = json.loads(metadata[_KEY])
        version, model = int(content["version"]), dict(content["model"])
    except (ValueError, LookupError, TypeError) as error:
        raise FileError(path, "", f"the metadata `wager` cannot be read: {error}") from error
    if version != _VERSION:
        raise FileError(path, "", f"has version {version}; this version of Wager reads version {_VERSION}")
    return model


def _columns(values: dict[str, list[Any]], path: Path, row: int) -> Columns:
    n = len(values["round"])
    nothing: list[Any] = [None] * n
    counts = [values.get(name, nothing) for name in ("action_count", "label_count")]
    counts.append([None if given is None else len(given) for given in values.get("distribution", nothing)])
    return Columns(
        _filled(values["round"], -1, np.int64),
        values["label"],
        _propensities(values["propensity"], path, row),
        _filled(values["reward"], np.nan, np.float64),
        values.get("true_label", nothing),
        _parsed(values.get("context", nothing), path, row),
        values.get("eligible", nothing),
        [next((count for count in each if count is not None), None) for each in zip(*counts, strict=True)],
        _filled(values.get("holdout", nothing), False, np.bool_),
    )


def _filled(values: list[Any], missing: Any, dtype: Any) -> Any:
    return np.array([missing if value is None else value for value in values], dtype)


def _propensities(values: list[float | None], path: Path, row: int) -> FloatArray:
    found: FloatArray = _filled(values, np.nan, np.float64)
    wrong = np.flatnonzero(~((found >= LEAST_PROPENSITY) & (found <= 1.0)))
    try:
        if wrong.size:
            checked_propensity(found[wrong[0]], "propensity")
    except RowError as error:
        raise FileError(path, f"row {row + wrong[0]}", str(error)) from None
    return found


def _parsed(contexts: list[str | None], path: Path, row: int) -> list[Any]:
    found = list[Any]()
    for place, text in enumerate(contexts):
        try:
            found.append(None if text is None else checked_context(None, given_context(text)))
        except RowError as error:
            raise FileError(path, f"row {row + place}", str(error)) from None
    return found
