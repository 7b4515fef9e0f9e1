"""Writes the lines of a log as parts, and finds the rounds that parts lack."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from service.json_values import JsonMapping
from toolkit.files.dsjson import dsjson_line
from toolkit.files.lines import FileError
from toolkit.files.parquet import exported_types, pyarrow

VERSION = 1
SUFFIXES = {"parquet": ".parquet", "dsjson": ".dsjson", "ndjson": ".ndjson"}

_AGAIN = "delete it, and repeat the command"
_FOOTER_BYTES = 8  # at the end of a Parquet file, after the metadata


class Hole(NamedTuple):
    """Consecutive rounds that no part contains."""

    after: int  # the round before them
    until: int | None  # the last of them; None after the last part


def holes_in(folder: Path, suffix: str, after: int) -> list[Hole]:
    """Return the holes after round `after` in the parts of a folder, in order; the last one is open-ended."""
    holes, last, before = list[Hole](), after, ("", 0)
    for path in sorted(folder.glob(f"part-*{suffix}")):
        first, end = _ends_of_parquet(path) if suffix == ".parquet" else _ends_of_text(path)
        if path.stem != f"part-{first:012}":
            raise FileError(path, "", f"is damaged: it begins with round {first}; {_AGAIN}")
        if first <= before[1]:
            detail = f"begins with round {first}, but {before[0]} ends with round {before[1]}"
            raise FileError(path, "", f"{detail}; delete one of them, and repeat the command")
        if first > last + 1:
            holes.append(Hole(last, first - 1))
        last, before = max(last, end), (path.name, end)
    return [*holes, Hole(last, None)]


def _ends_of_parquet(path: Path) -> tuple[int, int]:
    """Check that no byte of a part is missing; return its first and last round, from the footer."""
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
    if path.stat().st_size < max(ends) + about.serialized_size + _FOOTER_BYTES:
        raise FileError(path, "", f"is damaged: bytes are missing; {_AGAIN}")
    return int(first), int(last)


def _ends_of_text(path: Path) -> tuple[int, int]:
    """Return the first and the last round of a part. If they do not fit the number of lines, check each line."""
    try:
        lines = path.read_bytes().splitlines(keepends=True) or [b""]
    except OSError as error:
        raise FileError(path, "", f"cannot be read: {error.strerror}") from error
    ends = _round(path, 1, lines[0]), _round(path, len(lines), lines[-1])
    if len(lines) != ends[1] - ends[0] + 1:
        for number, line in enumerate(lines, 1):
            _round(path, number, line)
    return ends


def _round(path: Path, number: int, line: bytes) -> int:
    """Return the round number of a complete line."""
    try:
        found = json.loads(line)["_round" if path.suffix == ".dsjson" else "round"] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if type(found) is not int:
        raise FileError(path, f"line {number}", f"is damaged; {_AGAIN}")
    return found


class Lines(NamedTuple):
    """Consecutive lines of a log."""

    lines: Sequence[JsonMapping]
    distributions: Sequence[list[float] | None]  # of each line; None if unknown
    label_counts: Sequence[int | None] = ()  # the model's number of labels at each prediction; () if unknown


class Export(NamedTuple):
    """The export of a log to files."""

    output: Path  # a file with the suffix of the format, or a folder of parts
    format: str  # a key of `SUFFIXES`
    model: JsonMapping  # the answer of `GET /models/{name}`

    @property
    def is_folder(self) -> bool:
        """Whether the output is a folder of parts."""
        return self.output.is_dir() or self.output.suffix != SUFFIXES[self.format]

    def begin(self, after: int = 0) -> list[Hole]:
        """Create the folder, if the output is one; return the holes after round `after`, in order."""
        if self.format == "parquet":
            pyarrow(self.output)
        if not self.is_folder:
            return [Hole(after, None)]
        try:
            self.output.mkdir(parents=True, exist_ok=True)
            self.describe()
        except OSError as error:
            raise FileError(self.output, "", f"cannot be written: {error.strerror}") from error
        return holes_in(self.output, SUFFIXES[self.format], after)

    def renewed(self, model: JsonMapping) -> "Export":
        """Return the export with a newer description of the model; update the description in a folder."""
        newer = self._replace(model=model)
        if newer.is_folder:
            newer.describe()
        return newer

    def describe(self) -> None:
        """Write the description of the model to the folder, which must be empty or contain parts of the same model."""
        note, about = self.output / "_model.json", {"version": VERSION, "model": dict(self.model)}
        if note.exists():
            try:
                existing = json.loads(note.read_text())["model"]
                before, now = [(each["name"], each["created_at"]) for each in (existing, self.model)]
            except (ValueError, KeyError, TypeError) as error:
                raise FileError(note, "", "does not describe the model of the folder") from error
            if before != now:
                raise FileError(self.output, "", f"has parts of another model, {before[0]!r} of {before[1]}")
        _replace(note, lambda path: path.write_text(json.dumps(about, indent=1) + "\n"))

    def write(self, part: Lines) -> Path:
        """Write lines as one part, atomically; return its path."""
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
                row = line
                if self.format == "dsjson":
                    labels = self.model["labels"][: part.label_counts[i] if part.label_counts else None]
                    row = dsjson_line(labels, line, part.distributions[i], path)
                file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name, then rename it."""
    temporary = path.with_name(f".{path.name}.unfinished")
    write(temporary)
    temporary.replace(path)


def _write_parquet(path: Path, model: JsonMapping, part: Lines) -> None:
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
