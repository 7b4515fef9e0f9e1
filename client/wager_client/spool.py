"""A file that stores a feedback queue, so that a restart of the process loses nothing.

Each line is JSON: an entry with its number, or the numbers of entries that are done. Damaged lines are moved to a
second file, and do not delay the other entries. A third file contains the feedback that the service refused.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from wager_client import checks
from wager_client.errors import ProblemError, SpoolInUseError
from wager_client.operations import FeedbackItem
from wager_client.outbox import Entry

if sys.platform != "win32":  # Windows has no such locks
    import fcntl

_LEAST_DONE = 10_000  # minimum number of done entries for a rewrite of the file
MOST_REJECTED = 2**23  # bytes after which the file of refused feedback is rotated

_log = logging.getLogger(__name__)


class Lines:
    """A file to which whole lines are appended.

    A failed write may leave part of a line, as on a full disk; the next write removes it first. Raises `OSError` if the
    file cannot be opened.

    Args:
        path: the file. If its last line is incomplete, as after a power loss, the next write ends this line.
        fsync: whether each write waits for the disk.

    Attributes:
        size: the size of the file in bytes, without what a failed write left.
    """

    def __init__(self, path: Path, *, fsync: bool) -> None:
        before = path.read_bytes() if path.exists() else b""
        self.size, self._end = len(before), b"" if before[-1:] in (b"", b"\n") else b"\n"
        self._torn, self._fsync = False, fsync
        self._file = path.open("ab", buffering=0)

    def append(self, lines: bytes) -> None:
        """Append lines. Raises `OSError` if they cannot be written or, with `fsync`, may not have reached the disk."""
        if self._torn:
            self._file.truncate(self.size)
        self._torn, left = True, self._end + lines
        while left:  # a write may be short; the next one raises the reason
            left = left[self._file.write(left) :]
        self._torn, self.size, self._end = False, self.size + len(self._end + lines), b""
        if self._fsync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Spool:
    """The file of one queue. Only one process at a time may use it.

    A write reaches the operating system immediately, so it survives the end of the process. It survives a power loss
    only with `fsync`, which costs milliseconds per write. If a write fails, as on a full disk, the queue continues in
    memory and logs a warning; after the next successful write, it rewrites the file with all waiting entries. Raises
    `ValueError` if the file has lines but none belongs to a queue (it is not changed), `SpoolInUseError` if another
    queue uses it, `OSError` if it cannot be opened or locked.

    Args:
        path: the file. Files next to it have its name with a suffix: `.lock`; `.damaged`, for unreadable lines; and
            `.rejected`, for refused feedback with its problem and the time. A large `.rejected` is renamed to
            `.rejected.old`, which it replaces.
        fsync: whether each write waits for the disk.
        now: returns seconds since the epoch.

    Attributes:
        damaged: the number of unreadable lines.
    """

    def __init__(self, path: Path, *, now: Callable[[], float], fsync: bool = False) -> None:
        self._path, self._fsync, self._now = path, fsync, now
        self._rejected: Lines | None = None
        self._lock = _locked(self._beside(".lock"))
        try:
            self._live, damaged = _read(path)
            self.damaged, self._done, self._behind = len(damaged), 0, False
            self._set_aside(damaged)
            self._file = self._rewrite()
        except BaseException:
            self._lock.close()
            raise

    def restore(self) -> list[Entry]:
        """Return the entries that are not done, sorted by number."""
        return [Entry(number, FeedbackItem(**body)) for number, body in sorted(self._live.items())]

    def add(self, entry: Entry) -> None:
        """Store an entry."""
        self._live[entry.number] = entry.item.body()
        self._write({"number": entry.number, **self._live[entry.number]})

    def remove(self, numbers: Sequence[int]) -> None:
        """Mark entries as done."""
        for number in numbers:
            self._live.pop(number, None)
        self._done += len(numbers)
        self._write({"done": list(numbers)})
        if self._done >= _LEAST_DONE and self._done >= len(self._live):
            self._try_to_compact()

    def reject(self, refused: Sequence[tuple[Entry, ProblemError]]) -> None:
        """Append entries to the file of refused feedback."""
        at = datetime.fromtimestamp(self._now(), UTC).isoformat()
        lines = [
            _line({"time": at, "problem": _shown(problem), "feedback": entry.item.body()}) for entry, problem in refused
        ]
        path = self._beside(".rejected")
        try:
            if self._rejected is not None and self._rejected.size >= MOST_REJECTED:
                self._rejected.close()
                self._rejected = None
                path.replace(self._beside(".rejected.old"))
            self._rejected = self._rejected or Lines(path, fsync=self._fsync)
            self._rejected.append(b"".join(lines))
        except OSError as error:
            _log.warning("%s: %s; %d refused items are not kept", path, error, len(lines))

    def close(self) -> None:
        """Close the files; delete the queue's file if the queue is empty."""
        self._file.close()
        if self._rejected is not None:
            self._rejected.close()
        if not self._live:
            self._path.unlink(missing_ok=True)
        self._lock.close()

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)

    def _set_aside(self, lines: Sequence[bytes]) -> None:
        """Append damaged lines to their file, before they are removed from the queue's file."""
        if not lines:
            return
        aside = self._beside(".damaged")
        file = Lines(aside, fsync=True)
        try:
            file.append(b"".join(line + b"\n" for line in lines))
        finally:
            file.close()
        _log.warning("%s: %d damaged lines are in %s now; the others are sent", self._path, len(lines), aside)

    def _write(self, value: dict[str, Any]) -> None:
        try:
            self._file.append(_line(value))
        except OSError as error:
            self._behind = True
            _log.warning("%s: %s; a restart of this process may lose feedback", self._path, error)
        else:
            if self._behind:
                self._behind = False
                self._try_to_compact()

    def _try_to_compact(self) -> None:
        try:
            old, self._file = self._file, self._rewrite()
            old.close()
        except OSError as error:
            self._done = 0  # do not try again immediately
            _log.warning("%s: %s; the file grows", self._path, error)

    def _rewrite(self) -> Lines:
        """Replace the file with one that has only the live entries; open it for appending."""
        new = self._beside(".new")
        try:
            with new.open("wb") as file:
                file.writelines(_line({"number": number, **body}) for number, body in sorted(self._live.items()))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError:
            new.unlink(missing_ok=True)  # it would occupy the rest of the disk
            raise
        self._done = 0
        return Lines(self._path, fsync=self._fsync)


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _shown(problem: ProblemError) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in ("status", "slug", "detail", "field")}


def opened(path: Path | str | None, *, fsync: bool) -> Spool | None:
    """Open the file of a queue; return None for None.

    Raises the errors of `Spool`; also `TypeError` if the path is not one, and `ValueError` if it is that of a folder.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise checks.wrong("spool", path, "the path of a file, or None")
    file = Path(path)
    if not file.name or file.is_dir():
        raise ValueError(f"spool: got {str(path)!r}; must be the path of a file")
    return Spool(file, fsync=fsync, now=time.time)


def _locked(path: Path) -> BinaryIO:
    file = path.open("ab")
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise SpoolInUseError(f"{path}: another queue uses this file; give each process its own file") from None
        except OSError:
            file.close()
            raise
    return file


class _Found(NamedTuple):
    live: dict[int, dict[str, Any]]  # entries by number
    damaged: list[bytes]  # lines


def _read(path: Path) -> _Found:
    """Read the live entries and the damaged lines of a file, if it exists. An incomplete last line is ignored.

    Raises `ValueError` if the file has lines but none belongs to a queue.
    """
    found = _Found({}, [])
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for line in lines:
        try:
            _apply(json.loads(line, parse_constant=_refuse), found.live)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            found.damaged.append(line)
    if lines and len(found.damaged) == len(lines):
        first = lines[0][:80]
        raise ValueError(f"{path} is not a feedback queue's file: line 1 is {first!r}, and no other line has an entry")
    return found


def _apply(line: object, live: dict[int, dict[str, Any]]) -> None:
    """Apply a line to the live entries: add its entry, or remove the entries that it lists as done."""
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
