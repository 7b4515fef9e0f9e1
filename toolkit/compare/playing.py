"""Plays the runs of a comparison in several processes, shows progress, and stores finished runs in a file."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

from learners.estimators.runs import Examples, Run, play
from learners.evaluation.comparison import Played
from toolkit.evaluation.engines import Engine
from toolkit.files.lines import FileError
from toolkit.progress import Progress

_VERSION = 2


class FinishedRuns:
    """A file with one line of JSON for each finished run, so that a stopped comparison can continue."""

    def __init__(self, path: Path | None, digest: str) -> None:
        self._known = dict[str, Played]()
        self._file: IO[str] | None = None
        if path is None:
            return
        header = json.dumps({"version": _VERSION, "examples": digest})
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            complete = text[: text.rfind("\n") + 1]  # a crash may leave part of a line
            self._read(path, complete.splitlines(), header)
            self._file = path.open("a", encoding="utf-8")
            self._file.truncate(len(complete.encode()))
            if not complete:
                self._write(header)
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(path, "", f"cannot be used: {error}") from error

    def _read(self, path: Path, lines: Sequence[str], header: str) -> None:
        if lines and lines[0] != header:
            detail = "holds runs of other data or of another version; choose another file for --resume"
            raise FileError(path, "", detail)
        for number, line in enumerate(lines[1:], 2):
            try:
                entry = json.loads(line)
                seconds = float(entry["seconds"]), float(entry["preparation_seconds"])
                self._known[entry["key"]] = Played(entry["rounds"], entry["mistakes"], *seconds)
            except (ValueError, KeyError, TypeError) as error:
                raise FileError(path, f"line {number}", "is not a finished run") from error

    def find(self, run: Run) -> Played | None:
        """Return the result of a run; None if it is not finished."""
        return self._known.get(run.key)

    def keep(self, run: Run, result: Played) -> None:
        """Write the result of a run."""
        self._known[run.key] = result
        self._write(json.dumps({"key": run.key, **result._asdict()}))

    def _write(self, line: str) -> None:
        if self._file is not None:
            self._file.write(f"{line}\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def players(finished: FinishedRuns, engine: Engine) -> Callable[[Sequence[Run], Examples], Iterable[Played]]:
    """Return the function with which `contest` plays runs. It plays only runs that are not finished."""

    def play_all(runs: Sequence[Run], examples: Examples) -> list[Played]:
        missing = [run for run in runs if finished.find(run) is None]
        with Progress("playing", len(runs), "runs") as progress:
            progress.advance(len(runs) - len(missing))
            for run, result in zip(missing, engine.map(play, missing, examples, time.perf_counter), strict=True):
                finished.keep(run, result)
                progress.advance(1)
        return [known for run in runs if (known := finished.find(run)) is not None]

    return play_all
