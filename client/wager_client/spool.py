"""A file that remembers a feedback queue, so that a restart of the process loses nothing.

Each line is JSON: an entry with its number, or the numbers of entries that are done.
"""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

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
        path: of the file; a second file with the suffix `.lock` is beside it.
        fsync: whether each write waits for the disk.

    Raises:
        ValueError: if the file has a line that is no entry.
        OSError: if the file cannot be opened, or another process uses it.
    """

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self._path, self._fsync = path, fsync
        self._lock = _locked(path.with_name(path.name + ".lock"))
        try:
            self._live = _read(path)
            self._done = 0
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


def _locked(path: Path) -> BinaryIO:
    file = path.open("ab")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise BlockingIOError(f"{path}: another queue uses this file") from None
    return file


def _read(path: Path) -> dict[int, dict[str, Any]]:
    """Return the live entries of a file by number. A last line without its end was never acknowledged."""
    live: dict[int, dict[str, Any]] = {}
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for n, line in enumerate(lines, 1):
        try:
            body = json.loads(line)
            if "done" in body:
                for number in body["done"]:
                    live.pop(number, None)
            else:
                number = int(body.pop("number"))
                FeedbackItem(**body)
                live[number] = body
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}, line {n}: no entry of a feedback queue: {line[:80]!r}") from error
    return live
