"""Chooses the reader of a file, and surveys its rounds before a model exists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from toolkit.files.columns import Chosen, find_columns, round_of
from toolkit.files.dsjson import CostRule, DsjsonReader
from toolkit.files.lines import FileError, read_lines
from toolkit.files.rows import Row, RowError, Shape, json_of
from toolkit.files.tables import CsvReader, ParquetReader, is_parquet, suffix_of


class NdjsonReader:
    """Reads rounds in NDJSON."""

    skipped = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of the file."""
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


FORMATS = ("dsjson", "csv", "parquet", "ndjson")

MOST_LABELS = 1_000
"""Maximum labels of a model that is created for a file."""


class Reader(Protocol):
    """A file of rounds.

    Attributes:
        skipped: the number of lines without a round, known at the end.
    """

    skipped: int

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds of the file, checked against the model; without a shape, unchecked."""


def open_reader(
    path: Path, format_: str | None, chosen: Chosen, costs: CostRule = "negate", action_id: str | None = None
) -> Reader:
    """Return the reader of a file."""
    match format_ or _format_of(path):
        case "dsjson":
            return DsjsonReader(path, costs, action_id)
        case "csv":
            return CsvReader(path, chosen)
        case "parquet":
            return ParquetReader(path, chosen)
        case "ndjson":
            return NdjsonReader(path)
        case other:
            raise FileError(path, "", f"the format {other!r} is unknown; must be one of {', '.join(FORMATS)}")


def _format_of(path: Path) -> str:
    """Return the format of a file by its content, and by its name where this says nothing."""
    if path.is_dir() or is_parquet(path):
        return "parquet"
    first = next(read_lines(path), (1, ""))[1]
    if not first.startswith("{"):
        if "," in first or suffix_of(path) in {".csv", ".tsv"}:
            return "csv"
        raise FileError(
            path, "line 1", "is neither dsjson, NDJSON, Parquet nor CSV; name it with --format if it is one"
        )
    return "ndjson" if '"rounds_seen"' in first else "dsjson"


def survey(path: Path, reader: Reader) -> dict[str, Any]:
    """Return the definition of a model, without its name, that fits the rounds of a file."""
    labels, contexts, has_actions, rounds = dict[str, None](), _Contexts(), False, 0
    for row in reader.rows(None):
        given, rounds = row.round, rounds + 1
        contexts.add(given["context"])
        has_actions = has_actions or "actions" in given
        if not has_actions:
            labels.update(dict.fromkeys(given[key] for key in ("label", "true_label") if key in given))
            labels.update(dict.fromkeys(given.get("eligible", ())))
        if len(labels) > MOST_LABELS:
            detail = f"is label {len(labels):,}: name the column of the labels with --label-column, or create the model"
            raise FileError(row.path, row.place, detail)
    if not rounds:
        raise FileError(path, "", "has no rounds")
    if has_actions:
        named = {"kind": "named"}
        return {"features": named, "actions": {"features": named, "log_actions": "all"}}
    return {"labels": sorted(labels), "features": contexts.features}


class _Contexts:
    """Finds out which features contexts have."""

    def __init__(self) -> None:
        self._form: object = None
        self._is_dense, self._size = True, 0

    def add(self, context: Any) -> None:
        """Note one context."""
        form = list(context) if isinstance(context, dict) else len(context)
        values = context.values() if isinstance(context, dict) else context
        self._form = form if self._form is None else self._form
        numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in values)
        self._is_dense = self._is_dense and form == self._form and numbers
        self._size = max(self._size, len(context))

    @property
    def features(self) -> dict[str, Any]:
        """The features of a model for these contexts."""
        if not self._size:
            return {"kind": "none"}
        return {"kind": "dense", "size": self._size} if self._is_dense else {"kind": "named"}
