"""Files for import, in a worker's memory: they arrive side by side, and each API key imports one at a time.

Nothing is reserved for a file before it has arrived, so a slow client keeps nobody waiting. What is limited is the
bytes of all files that arrive, wait and are imported. At the limit, the key whose files have most bytes loses its
oldest file that is not yet imported, so a key cannot displace the files of another one that holds less.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from service.errors import OverloadedError


class _File:
    """A file, as far as it has arrived."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.data = bytearray()


class ArrivingFiles:
    """The files of one worker.

    Args:
        most_bytes: maximum bytes of all files together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
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
        file = _File(owner)
        self._waiting[file] = None
        try:
            async for part in parts:
                self._add(file, part)
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
            lost = max(self._waiting, key=lambda each: self._bytes[each.owner])
            del self._waiting[lost]
            self._release(lost)
            lost.data.clear()  # its task may be waiting for a part that never comes
        self._check(file)

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
