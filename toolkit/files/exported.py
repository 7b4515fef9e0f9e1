"""Writes the lines of a log as parts, and finds which rounds the parts have."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.files.dsjson import dsjson_line
from toolkit.files.lines import FileError
from toolkit.files.parquet import exported_types, pyarrow

_AGAIN = "delete it, and repeat the command"
_ROUND = {".parquet": "round", ".ndjson": "round", ".dsjson": "_round"}
_TAIL = 8
"""Bytes at the end of a Parquet file: the length of its footer, and a mark."""


class Held(NamedTuple):
    """The rounds of a part."""

    path: Path
    first: int
    last: int


class Hole(NamedTuple):
    """Rounds that no part holds."""

    after: int  # the round before them
    until: int | None  # the last of them; None after the last part


def held_rounds(folder: Path, suffix: str) -> list[Held]:
    """Return the rounds of each part of a folder, in order. Of Parquet, only footers are read."""
    found = [_held(path) for path in sorted(folder.glob(f"part-*{suffix}"))]
    for one, other in pairwise(found):
        if other.first <= one.last:
            detail = f"begins with round {other.first}, but {one.path.name} ends with round {one.last}"
            raise FileError(other.path, "", f"{detail}; delete one of them, and repeat the command")
    return found


def holes_of(held: Sequence[Held], after: int) -> list[Hole]:
    """Return the rounds that no part holds, oldest first; the last hole is open."""
    found, last = list[Hole](), after
    for each in held:
        if each.first > last + 1:
            found.append(Hole(last, each.first - 1))
        last = max(last, each.last)
    return [*found, Hole(last, None)]


def _held(path: Path) -> Held:
    """Return the rounds of a part; its name has the first one."""
    first, last = _ends_of_parquet(path) if path.suffix == ".parquet" else _ends_of_text(path)
    if path.stem != f"part-{first:012}":
        raise FileError(path, "", f"is damaged: it begins with round {first}; {_AGAIN}")
    return Held(path, first, last)


def _ends_of_parquet(path: Path) -> tuple[int, int]:
    """Return the first and the last round of a part, from its footer, and check that no byte is missing."""
    _, pq = pyarrow(path)
    try:
        about = pq.read_metadata(path)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        chunks = [group.column(i) for group in groups for i in range(about.num_columns)]
        ends = [(each.dictionary_page_offset or each.data_page_offset) + each.total_compressed_size for each in chunks]
        known = [each.statistics for each in chunks if each.path_in_schema == "round"]
        first, last = min(each.min for each in known), max(each.max for each in known)
    except Exception as error:
        raise FileError(path, "", f"is damaged: {str(error).splitlines()[0][:200]}; {_AGAIN}") from error
    if path.stat().st_size < max(ends) + about.serialized_size + _TAIL:
        raise FileError(path, "", f"is damaged: bytes are missing; {_AGAIN}")
    return int(first), int(last)


def _ends_of_text(path: Path) -> tuple[int, int]:
    """Return the first and the last round of a part. If it has fewer lines than rounds, check each."""
    number, first, last, line = 0, b"", b"", b""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):  # noqa: B007
                first = first or line
        last = line
        ends = _round(path, 1, first), _round(path, number, last)
        if number != ends[1] - ends[0] + 1:
            with path.open("rb") as file:
                for place, line in enumerate(file, 1):
                    _round(path, place, line)
    except OSError as error:
        raise FileError(path, "", f"cannot be read: {error.strerror}") from error
    return ends


def _round(path: Path, number: int, line: bytes) -> int:
    """Return the round of a whole line."""
    try:
        found: Any = json.loads(line)[_ROUND[path.suffix]] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if type(found) is not int:
        raise FileError(path, f"line {number}", f"is damaged; {_AGAIN}")
    return found


VERSION = 1

SUFFIXES = {"parquet": ".parquet", "dsjson": ".dsjson", "ndjson": ".ndjson"}


class Lines(NamedTuple):
    """Consecutive lines of a log."""

    lines: Sequence[Mapping[str, Any]]
    distributions: Sequence[list[float] | None]
    label_counts: Sequence[int | None] = ()  # how many labels the model had for each prediction; () if unknown


class Export(NamedTuple):
    """A log on the way into files.

    Attributes:
        output: a file with the suffix of the format, or a folder of parts.
        format: a key of `SUFFIXES`.
        model: what `GET /models/{name}` says of the model.
    """

    output: Path
    format: str
    model: Mapping[str, Any]

    @property
    def is_folder(self) -> bool:
        """Whether the output is a folder of parts."""
        return self.output.is_dir() or self.output.suffix != SUFFIXES[self.format]

    def begin(self, after: int = 0) -> list[Hole]:
        """Create the folder; return the rounds that its parts do not hold, oldest first."""
        if self.format == "parquet":
            pyarrow(self.output)
        if not self.is_folder:
            return holes_of([], after)
        try:
            self.output.mkdir(parents=True, exist_ok=True)
            self.check_model()
        except OSError as error:
            raise FileError(self.output, "", f"cannot be written: {error.strerror}") from error
        return holes_of(held_rounds(self.output, SUFFIXES[self.format]), after)

    def renewed(self, model: Mapping[str, Any]) -> "Export":
        """Return the export with a newer description of the model."""
        newer = self._replace(model=model)
        if newer.is_folder:
            newer.check_model()
        return newer

    def check_model(self) -> None:
        """Check that the folder is empty or has parts of the model, and describe the model in it. Raise as `begin`."""
        note, about = self.output / "_model.json", {"version": VERSION, "model": dict(self.model)}
        if note.exists():
            try:
                there = json.loads(note.read_text())["model"]
                before, now = [(each["name"], each["created_at"]) for each in (there, self.model)]
            except (ValueError, KeyError, TypeError) as error:
                raise FileError(note, "", "does not describe the model of the folder") from error
            if before != now:
                raise FileError(self.output, "", f"has parts of another model, {before[0]!r} of {before[1]}")
        _replace(note, lambda path: path.write_text(json.dumps(about, indent=1) + "\n"))

    def write(self, part: Lines) -> Path:
        """Write lines as one part; return its path."""
        first = part.lines[0]["round"] if part.lines else 0
        path = self.output / f"part-{first:012}{SUFFIXES[self.format]}" if self.is_folder else self.output
        try:
            _replace(path, lambda temporary: self._write(temporary, part))
        except OSError as error:
            raise FileError(path, "", f"cannot be written: {error.strerror}") from error
        return path

    def _write(self, path: Path, part: Lines) -> None:
        if self.format == "parquet":
            _write_parquet(path, self.model, part)
            return
        with path.open("w", encoding="utf-8") as file:
            for i, line in enumerate(part.lines):
                found = dict(line) if self.format == "ndjson" else self._dsjson(part, i, path)
                file.write(json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")

    def _dsjson(self, part: Lines, i: int, path: Path) -> dict[str, Any]:
        labels, n = self.model["labels"], part.label_counts[i] if part.label_counts else None
        return dsjson_line(labels if n is None else labels[:n], part.lines[i], part.distributions[i], path)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name, then rename it."""
    temporary = path.with_name(f".{path.name}.unfinished")
    write(temporary)
    temporary.replace(path)


def _write_parquet(path: Path, model: Mapping[str, Any], part: Lines) -> None:
    (pa, pq), types = pyarrow(path), exported_types(path)
    about = {"version": VERSION, "model": dict(model)}
    schema = pa.schema(list(types.items()), metadata={"wager": json.dumps(about)})
    columns = {name: [line.get(name) for line in part.lines] for name in types}
    columns["distribution"] = list(part.distributions)
    columns["label_count"] = list(part.label_counts) or [None] * len(part.lines)
    for name in ("context", "actions"):
        columns[name] = [None if value is None else json.dumps(value, ensure_ascii=False) for value in columns[name]]
    for name in ("predicted_at", "feedback_at"):
        columns[name] = [datetime.fromisoformat(str(value)) for value in columns[name]]
    pq.write_table(pa.table(columns, schema=schema), path)
