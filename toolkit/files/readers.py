"""Reads files of rounds, and derives model definitions from them."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from service.json_values import JsonObject
from toolkit.files.columns import Chosen, Columns, find_columns, round_of
from toolkit.files.dsjson import Dsjson
from toolkit.files.lines import FileError, read_lines
from toolkit.files.parquet import batches_of, check_feature_types, parts_of, schema_of, with_plain_times
from toolkit.files.rows import Row, RowError, Shape, json_of
from toolkit.files.tables import is_parquet, read_rows, suffix_of

FORMATS = ("dsjson", "csv", "parquet", "ndjson")
MOST_LABELS = 1_000  # maximum labels of a model that is created for a file
_ROWS_PER_READ = 2_000

Record = tuple[Path, str, Any]
"""A line or a row: its file, its place, such as `line 3`, and its content."""


@dataclass
class Reader:
    """A file of rounds.

    Attributes:
        records: reads the lines or rows.
        convert: converts the content of a record to a round, and checks it against the shape if one is given. Returns
            None if the record is left out, which does not depend on the shape. Raises `RowError`.
        skipped: the number of records that were left out. It is final after `rows` has yielded the last.
    """

    records: Callable[[], Iterator[Record]]
    convert: Callable[[Any, Shape | None], JsonObject | None]
    skipped: int = 0

    def rows(self, shape: Shape | None) -> Iterator[Row]:
        """Yield the rounds, checked against the model if a shape is given. Raises `FileError`."""
        self.skipped = 0
        for path, place, content in self.records():
            try:
                found = self.convert(content, shape)
            except RowError as error:
                raise FileError(path, place, str(error)) from None
            if found is None:
                self.skipped += 1
            else:
                yield Row(path, place, found)


def open_reader(
    path: Path, format_: str | None, chosen: Chosen, costs: str = "negate", action_id: str | None = None
) -> Reader:
    """Return the reader of a file, or of a folder of Parquet parts.

    Args:
        path: the file or the folder.
        format_: one of `FORMATS`; None to detect it.
        chosen: the columns of a table.
        costs: the conversion of dsjson's costs to rewards: `negate` (-cost) or `complement` (1 - cost).
        action_id: the feature that is the id of dsjson's actions.
    """
    match format_ or _format_of(path):
        case "dsjson":
            return Reader(lambda: _lines(path), Dsjson(costs, action_id).round_of)
        case "csv":
            return Reader(lambda: _csv_rows(path, chosen), _row_round)
        case "parquet":
            return Reader(lambda: _parquet_rows(path, chosen), _row_round)
        case "ndjson":
            columns = Chosen(abstentions=chosen.abstentions, costs=chosen.costs, as_logged=chosen.as_logged)
            return Reader(lambda: _lines(path), partial(_line_round, columns))
        case other:
            raise FileError(path, "", f"the format {other!r} is unknown; must be one of {', '.join(FORMATS)}")


def _lines(path: Path) -> Iterator[Record]:
    return ((path, f"line {number}", text) for number, text in read_lines(path))


def _csv_rows(path: Path, chosen: Chosen) -> Iterator[Record]:
    rows = read_rows(path)
    number, header = next(rows, (1, list[str]()))
    columns = _columns(path, f"line {number}", header, chosen)
    for number, values in rows:
        yield path, f"line {number}", (columns, dict(zip(header, values, strict=True)))


def _parquet_rows(path: Path, chosen: Chosen) -> Iterator[Record]:
    """Yield the rows of all parts, which must have the same columns. Unused columns are not read."""
    first: tuple[Path, list[str]] | None = None
    for part in parts_of(path):
        columns = _columns(part, "", schema_of(part).names, chosen)
        check_feature_types(part, columns.features)
        first = first or (part, columns.used)
        for name in dict.fromkeys([*first[1], *columns.used]):
            if name not in columns.used:
                raise FileError(part, "", f"has no column {name!r}, which {first[0].name} has")
            if name not in first[1]:
                raise FileError(part, "", f"has the column {name!r}, which {first[0].name} does not have")
        numbers = itertools.count(1)
        for batch in batches_of(part, _ROWS_PER_READ, columns.used):
            for row in with_plain_times(part, batch).to_pylist(maps_as_pydicts="lossy"):
                yield part, f"row {next(numbers)}", (columns, row)


def _columns(path: Path, place: str, header: list[str], chosen: Chosen) -> Columns:
    try:
        return find_columns(header, chosen)
    except RowError as error:
        raise FileError(path, place, str(error)) from None


def _row_round(row: tuple[Columns, JsonObject], shape: Shape | None) -> JsonObject | None:
    return round_of(*row, shape)


def _line_round(chosen: Chosen, text: str, shape: Shape | None) -> JsonObject | None:
    line = json_of(text)
    if not isinstance(line, dict) or "context" not in line:
        raise RowError("is not a round of a log: it has no context")
    if line.get("labels") is not None:
        raise RowError("is a round with several labels, which cannot be imported")
    return round_of(find_columns(list(line), chosen), line, shape)


def _format_of(path: Path) -> str:
    """Detect the format of a file by its content, or by its suffix if the content is ambiguous."""
    if path.is_dir() or is_parquet(path):
        return "parquet"
    first = next(read_lines(path), (1, ""))[1]
    if not first.startswith("{"):
        if "," in first or suffix_of(path) in {".csv", ".tsv"}:
            return "csv"
        raise FileError(
            path, "line 1", "is neither dsjson, NDJSON, Parquet nor CSV; name it with --format if it is one"
        )
    return "ndjson" if '"rounds_seen"' in first else "dsjson"  # a field of each line of a log


def model_name_of(path: Path) -> str:
    """Return a name for the model of a file."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.name.partition(".")[0]).lstrip("._-")[:64] or "model"


def survey(path: Path, reader: Reader) -> JsonObject:
    """Return a model definition, without a name, that fits the rounds of a file."""
    labels, features, has_actions = dict[str, None](), _Features(), False
    for row in reader.rows(None):
        features.add(row.round["context"])
        has_actions = has_actions or "actions" in row.round
        if not has_actions:
            labels.update(dict.fromkeys(row.round[key] for key in ("label", "true_label") if key in row.round))
            labels.update(dict.fromkeys([*row.round.get("eligible", ()), *row.round.get("costs", ())]))
        if len(labels) > MOST_LABELS:
            detail = f"is label {len(labels):,}: name the column of the labels with --label-column, or create the model"
            raise FileError(row.path, row.place, detail)
    if features.first is None:
        raise FileError(path, "", "has no rounds")
    if has_actions:
        named = {"kind": "named"}
        return {"features": named, "actions": {"features": named, "log_actions": "all"}}
    return {"labels": sorted(labels), "features": features.definition}


class _Features:
    """Infers the kind and size of features from contexts."""

    def __init__(self) -> None:
        self.first: object = None  # the names of the first context, or its length
        self._is_dense, self._size = True, 0

    def add(self, context: Any) -> None:
        names = list(context) if isinstance(context, dict) else len(context)
        values = context.values() if isinstance(context, dict) else context
        self.first = names if self.first is None else self.first
        numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in values)
        self._is_dense = self._is_dense and names == self.first and numbers
        self._size = max(self._size, len(context))

    @property
    def definition(self) -> JsonObject:
        if not self._size:
            return {"kind": "none"}
        return {"kind": "dense", "size": self._size} if self._is_dense else {"kind": "named"}
