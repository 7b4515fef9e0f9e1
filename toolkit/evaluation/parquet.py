"""Parts of an exported log in Parquet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from service.error_messages.patterns import LEAST_PROPENSITY
from service.json_values import JsonObject
from toolkit.evaluation.columns import NAMES, Columns, columns_of
from toolkit.files import parquet
from toolkit.files.columns import given_context, no_column
from toolkit.files.exported import VERSION
from toolkit.files.lines import FileError
from toolkit.files.rows import RowError, checked_context, checked_propensity

_NEEDED = ("round", "label", "propensity", "reward")
_KEY = b"wager"


class ParquetPart(NamedTuple):
    """One Parquet file of an exported log."""

    path: str

    @property
    def name(self) -> str:
        """The name of the part, for messages."""
        return self.path

    def batches(self, size: int) -> Iterator[Columns]:
        """Yield the rounds in batches of up to `size` rows."""
        path = Path(self.path)
        known = parquet.schema_of(path).names
        missing = next((name for name in _NEEDED if name not in known), None)
        if missing is not None:
            raise FileError(path, "", no_column(missing, known))
        row = 1
        for batch in parquet.batches_of(path, size, [name for name in NAMES if name in known]):
            values = parquet.values_of(path, batch, row)
            if "context" in values:
                values["context"] = [_context(text, path, row + i) for i, text in enumerate(values["context"])]
            columns = columns_of(values)
            _check_propensities(columns, path, row)
            yield columns
            row += batch.num_rows


def parts_of(source: Path) -> list[ParquetPart]:
    """Return the parts in a folder, sorted by name, or a file as its only part."""
    return [ParquetPart(str(path)) for path in parquet.parts_of(source)]


def described_model(part: ParquetPart) -> JsonObject:
    """Return the answer of `GET /models/{name}` that an export stores in its metadata."""
    path = Path(part.path)
    metadata = parquet.schema_of(path).metadata or {}
    if _KEY not in metadata:
        raise FileError(path, "", "has no metadata `wager`; write the file with `wager export`")
    try:
        content = json.loads(metadata[_KEY])
        version, model = int(content["version"]), dict(content["model"])
    except (ValueError, LookupError, TypeError) as error:
        raise FileError(path, "", f"the metadata `wager` cannot be read: {error}") from error
    if version != VERSION:
        raise FileError(path, "", f"has version {version}; this version of Wager reads version {VERSION}")
    return model


def _check_propensities(columns: Columns, path: Path, row: int) -> None:
    wrong = np.flatnonzero(~((columns.propensities >= LEAST_PROPENSITY) & (columns.propensities <= 1.0)))
    try:
        if wrong.size:
            checked_propensity(columns.propensities[wrong[0]], "propensity")
    except RowError as error:
        raise FileError(path, f"row {row + wrong[0]}", str(error)) from None


def _context(text: str | None, path: Path, row: int) -> Any:
    try:
        return None if text is None else checked_context(None, given_context(text))
    except RowError as error:
        raise FileError(path, f"row {row}", str(error)) from None
