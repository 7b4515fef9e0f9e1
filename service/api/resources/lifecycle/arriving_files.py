"""Files for import, in a worker's memory: they arrive side by side, and each API key imports one at a time.

Nothing is reserved for a file before it has arrived, so a slow client keeps nobody waiting. What is limited is the
bytes of all files that arrive, wait and are imported. At the limit, a file is lost that arrives slowly, and the fastest
one goes on: while files arrive, some are completed. A key that holds less than half of its share loses nothing, and
each other key keeps its fastest file before another key has two.
"""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from weakref import WeakValueDictionary

from service.errors import OverloadedError


class _File:
    """A file, as far as it has arrived."""

    def __init__(self, owner: str | None, begun_at: float) -> None:
        self.owner = owner
        self.begun_at = begun_at
        self.data = bytearray()
        self.is_whole = False

    def pace(self, now: float) -> float:
        """Return the bytes per second so far. The added second lets an old file prevail over one that just began."""
        return math.inf if self.is_whole else len(self.data) / (now - self.begun_at + 1.0)


class ArrivingFiles:
    """The files of one worker.

    Args:
        most_bytes: maximum bytes of all files together.
        now: returns seconds of a monotonic clock.
    """

    def __init__(self, most_bytes: int, now: Callable[[], float]) -> None:
        self._most_bytes = most_bytes
        self._now = now
        self._bytes: Counter[str | None] = Counter()  # of each owner
        self._waiting: dict[_File, None] = {}  # not yet imported, oldest first
        self._turns: WeakValueDictionary[str | None, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def whole(self, owner: str | None, parts: AsyncIterator[bytes]) -> AsyncIterator[memoryview]:
        """Yield a file when it has arrived and no other file of its owner is imported.

        Args:
            owner: the id of the API key; None for all clients without one.
            parts: the parts of the file.

        Raises:
            OverloadedError: if the file has to give way to others.
        """
        file = _File(owner, self._now())
        self._waiting[file] = None
        try:
            async for part in parts:
                self._add(file, part)
            file.is_whole = True
            async with self._turns.setdefault(owner, asyncio.Lock()):
                self._check(file)
                del self._waiting[file]
                yield memoryview(file.data)
        finally:
            self._waiting.pop(file, None)
            self._release(file)

    def _add(self, file: _File, part: bytes) -> None:
        self._check(file)
        file.data += part
        self._bytes[file.owner] += len(part)
        while self._bytes.total() > self._most_bytes:
            lost = self._slowest()
            del self._waiting[lost]
            self._release(lost)
            lost.data.clear()  # its task may be waiting for a part that never comes
        self._check(file)

    def _slowest(self) -> _File:
        """Return the slowest file of the owners with at least half of their share: of several files of one, if any."""
        now, least = self._now(), self._most_bytes / (2 * len(self._bytes))
        heavy = [file for file in self._waiting if self._bytes[file.owner] >= least] or list(self._waiting)
        by_pace = sorted(heavy, key=lambda file: file.pace(now))
        fastest = {file.owner: file for file in by_pace}
        others = [file for file in by_pace if file is not fastest[file.owner]]
        return (others or by_pace)[0]

    def _check(self, file: _File) -> None:
        if file not in self._waiting:
            raise OverloadedError(
                f"this worker has reached its limit of {self._most_bytes:,} bytes of files to import, and this file "
                "had to give way to others"
            )

    def _release(self, file: _File) -> None:
        self._bytes[file.owner] -= len(file.data)
        if not self._bytes[file.owner]:
            del self._bytes[file.owner]
