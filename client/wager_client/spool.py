"""A file that remembers a feedback queue, so that a restart of the process loses nothing.

Each line is JSON: an entry with its number, or the numbers of entries that are done. Lines that are neither, as after
damage, are put into a second file, and do not keep the others waiting.
"""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from wager_client import checks
from wager_client.errors import SpoolInUseError
from wager_client.operations import FeedbackItem
from wager_client.outbox import Entry

try:
    import fcntl
except ImportError:  # Windows, which has no such locks
    fcntl = None  # type: ignore[assignment]

_MOST_DONE = 10_000  # lines of entries that are done, before the file is written anew

_log = logging.getLogger(__name__)


class Spool:
    """The file of one queue. Only one process at a time may use it.

    A write reaches the operating system at once, so it survives the death of the process. It survives a power loss only
    with `fsync`, which costs milliseconds for each write. If a write fails, as on a full disk, the queue continues in
    memory, and a warning is logged.

    Args:
        path: of the file. Beside it are one with the suffix `.lock`, and after damage one with `.damaged`, which
            has the lines that could not be read.
        fsync: whether each write waits for the disk.

    Attributes:
        damaged: the number of lines that could not be read.

    Raises:
        ValueError: if no line of the file is of a queue. It stays as it is.
        SpoolInUseError: if another queue uses it.
        OSError: if it cannot be opened.
    """

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self._path, self._fsync = path, fsync
        self._lock = _locked(path.with_name(path.name + ".lock"))
        try:
            self._live, damaged = _read(path)
            self.damaged, self._done = len(damaged), 0
            self._set_aside(damaged)
            self._file = self._rewrite()
        except BaseException:
            self._lock.close()
            raise

    def restore(self) -> list[Entry]:
        """Return the entries that are not done, in the order of their numbers."""
        return [Entry(number, FeedbackItem(**body)) for number, body in sorted(self._live.items())]

    def add(self, entry: Entry) -> None:
        """Remember an entry."""
        self._live[entry.number] = entry.item.body()
        self._write({"number": entry.number, **self._live[entry.number]})

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget entries."""
        for number in numbers:
            self._live.pop(number, None)
        self._done += len(numbers)
        self._write({"done": list(numbers)})
        if self._done >= _MOST_DONE and self._done >= len(self._live):
            self._try_to_compact()

    def close(self) -> None:
        """Close the file; remove it if nothing is left."""
        self._file.close()
        if not self._live:
            self._path.unlink(missing_ok=True)
        self._lock.close()

    def _set_aside(self, lines: Sequence[bytes]) -> None:
        """Append lines to the second file, before they leave the first one."""
        if not lines:
            return
        aside = self._path.with_name(self._path.name + ".damaged")
        with aside.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        _log.warning("%s: %d damaged lines are in %s now; the others are sent", self._path, len(lines), aside)

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
            if self._fsync:
                os.fsync(self._file.fileno())
        except OSError as error:
            _log.warning("%s: %s; a restart of this process may lose feedback", self._path, error)

    def _try_to_compact(self) -> None:
        try:
            old, self._file = self._file, self._rewrite()
            old.close()
        except OSError as error:
            _log.warning("%s: %s; the file grows", self._path, error)

    def _rewrite(self) -> BinaryIO:
        """Replace the file by one that has only the live entries, and return it for appending."""
        new = self._path.with_name(self._path.name + ".new")
        with new.open("wb") as file:
            for number, body in sorted(self._live.items()):
                file.write(json.dumps({"number": number, **body}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        self._done = 0
        return self._path.open("ab", buffering=0)


def opened(path: Path | str | None, *, fsync: bool) -> Spool | None:
    """Return the file of a queue; None for none.

    Raises:
        TypeError: if the path is none.
        ValueError: if it names no file, or one that is not of a queue.
        SpoolInUseError: if another queue uses the file.
        OSError: if the file cannot be opened.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise checks.wrong("spool", path, "the path of a file, or None")
    file = Path(path)
    if not file.name or file.is_dir():
        raise ValueError(f"spool: got {str(path)!r}; must be the path of a file")
    return Spool(file, fsync=fsync)


def _locked(path: Path) -> BinaryIO:
    file = path.open("ab")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise SpoolInUseError(f"{path}: another queue uses this file; each process needs one of its own") from None
    return file


class _Found(NamedTuple):
    """The contents of a file."""

    live: dict[int, dict[str, Any]]  # entries by number
    damaged: list[bytes]  # lines


def _read(path: Path) -> _Found:
    """Return the contents of a file. A last line without its end was never acknowledged.

    Raises:
        ValueError: if it has lines, and none of them is of a queue.
    """
    found = _Found({}, [])
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for line in lines:
        try:
            _apply(json.loads(line, parse_constant=_refuse), found.live)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            found.damaged.append(line)
    if lines and len(found.damaged) == len(lines):
        raise ValueError(f"{path}, line 1: no entry of a feedback queue: {lines[0][:80]!r}; nor is any other line")
    return found


def _apply(line: Any, live: dict[int, dict[str, Any]]) -> None:
    """Add the entry of a line to the live ones, or remove those that it says are done."""
    if not isinstance(line, dict):
        raise TypeError("no object")
    if "done" in line:
        for number in [int(number) for number in line["done"]]:
            live.pop(number, None)
    else:
        number = int(line.pop("number"))
        if not isinstance(FeedbackItem(**line).prediction_id, str):
            raise TypeError("no id")
        json.dumps(line)
        live[number] = line


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
