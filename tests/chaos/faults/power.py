"""A machine that loses power: a store ends, and its files keep only what it had flushed."""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.chaos.faults.fault import refused
from tests.store_servers import Server

_SOURCE = Path(__file__).with_name("power_loss.c")


class Power:
    """The power of a store's machine: a library, compiled at the start, notes each flush of the store.

    Files that were never flushed become empty; names of files stay.

    Args:
        folder: where the library and its notes are.

    Attributes:
        refused: why the library cannot be compiled; empty if it can.
    """

    def __init__(self, folder: Path) -> None:
        self._library, self._flushed = folder / "power_loss.so", folder / "flushed"
        self._flushed.mkdir()
        self.refused = refused("cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE), "-ldl")

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which a store has to be started."""
        return {"LD_PRELOAD": str(self._library), "FLUSHED_FOLDER": str(self._flushed)}

    def has_flushed(self, data: Path) -> bool:
        """Check whether a store has flushed all that it has written. `WAITAOF` of Valkey 9.1 may return earlier."""
        return all(self._flushed_size(file) >= file.stat().st_size for file in _files(data))

    def fail(self, store: Server, data: Path) -> None:
        """Kill a store, and cut each file of its append-only log to what had been flushed."""
        store.kill()
        for file in _files(data):
            os.truncate(file, self._flushed_size(file))

    def _flushed_size(self, file: Path) -> int:
        note = self._flushed / str(file.stat().st_ino)
        return int(note.read_text()) if note.exists() else 0


def _files(data: Path) -> list[Path]:
    return sorted((data / "appendonlydir").iterdir())
