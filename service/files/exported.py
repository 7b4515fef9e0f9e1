"""Writes the lines of a log as parts: Parquet, dsjson or NDJSON. A part appears under its name when it is complete."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from service.files.dsjson_lines import dsjson_line
from service.files.errors import FileError
from service.files.held import Hole, held_rounds, holes_of
from service.files.parquet import exported_types, pyarrow

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
        """Create the folder; return the rounds that its parts do not hold, oldest first.

        Args:
            after: the last round that is not wanted.

        Raises:
            FileError: if the folder has parts of another model, or a damaged one, or cannot be written.
        """
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
        """Return the export with a newer description of the model.

        Raises:
            FileError: if it describes another model, or cannot be written.
        """
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
        """Write lines as one part; return its path.

        Raises:
            FileError: if that is not possible. No file has half of them.
        """
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
