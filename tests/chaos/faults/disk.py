"""A disk that is full, by a small file system in memory, or slow, by a library that delays the store's writes."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import redis

from tests.chaos.faults.fault import Fault, MissedError, refused
from tests.servers import wait_until
from tests.store_servers import Server

DISK_BYTES = 2**30
"""Size of the store's file system. Linux takes memory only for what is in it."""

DELAY = 30_000
"""Microseconds by which a slow disk delays a write; it delays a flush ten times as long."""

_SOURCE = Path(__file__).with_name("slow_disk.c")
_NOTICE = 10.0  # seconds within which a store notices that its disk is full
_PAGE = 4096  # bytes

NO_REWRITING = {"auto_aof_rewrite_percentage": "0"}
"""Options of a store whose disk becomes full: a file that it begins then may get a hole (valkey-io/valkey#2627)."""


@cache
def refused_disk() -> str:
    """Return why this machine cannot mount a file system; empty if it can."""
    with tempfile.TemporaryDirectory() as folder:
        why = refused("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)
        return why or refused("umount", folder)


@contextmanager
def small_disk(folder: Path, size: int = DISK_BYTES) -> Iterator[Path]:
    """Mount a separate file system on a folder, if this machine permits it; unmount it at the end."""
    folder.mkdir(exist_ok=True)
    if refused_disk():
        yield folder
        return
    assert not (why := refused("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))), why
    try:
        yield folder
    finally:
        refused("umount", "--lazy", str(folder))


class FullDisk:
    """A store's disk that a balloon file fills.

    Args:
        store: store whose data is on the disk.
        folder: where the disk is mounted.
        seconds: duration of the fault.
    """

    def __init__(self, store: Server, folder: Path, seconds: float) -> None:
        self._store = store
        self._disk = folder
        self._seconds = seconds

    def faults(self) -> dict[str, Fault]:
        """Return the fault by name; none if this machine cannot mount a file system."""
        return {} if refused_disk() else {"full disk": self.fill}

    async def fill(self) -> None:
        """Fill the disk until the store notices it, and empty it; return when the store accepts writes again."""
        balloon = self._disk / "balloon"
        try:
            await asyncio.to_thread(self.inflate, balloon)
            await asyncio.to_thread(wait_until, self.refuses, _NOTICE)
            await asyncio.sleep(self._seconds)
        except TimeoutError as idle:
            raise MissedError from idle
        finally:
            balloon.unlink(missing_ok=True)
            await asyncio.to_thread(wait_until, self.can_write)

    def inflate(self, balloon: Path) -> None:
        """Write a file that leaves nothing of the disk."""
        part = DISK_BYTES
        with balloon.open("wb", buffering=0) as file:
            while part >= _PAGE:  # what is left is known only roughly, and the store takes and frees some of it
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), part)
                except OSError:
                    part //= 2

    def refuses(self) -> bool:
        """Write more than the last page of the file holds; check whether the store knows that its disk is full."""
        with contextlib.suppress(redis.RedisError):
            self._store.send("SET", "balloon", "x" * 10_000, "PX", 1)
        return not self.can_write()

    def can_write(self) -> bool:
        """Check whether the store could write its file when it last did."""
        try:
            return str(self._store.send("INFO", "persistence")["aof_last_write_status"]) == "ok"
        except redis.RedisError:
            return False


class SlowDisk:
    """A library, compiled at the start, that delays a store's writes on demand.

    Args:
        folder: where the library and its control file are.
    """

    def __init__(self, folder: Path) -> None:
        self._library, self._control = folder / "slow_disk.so", folder / "slow_disk"
        self._control.write_bytes(bytes(4))
        self.refused = _compile(self._library)

    @staticmethod
    def try_compiler() -> str:
        """Return why the library cannot be compiled; empty if it can."""
        with tempfile.TemporaryDirectory() as folder:
            return _compile(Path(folder, "slow_disk.so"))

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which a store has to be started."""
        return {} if self.refused else {"LD_PRELOAD": str(self._library), "SLOW_DISK_FILE": str(self._control)}

    def turn(self, microseconds: int) -> None:
        """Set the delay of each write; zero ends it."""
        with self._control.open("r+b") as file:
            file.write(microseconds.to_bytes(4, "little"))

    def faults(self, store: Server, seconds: float) -> dict[str, Fault]:
        """Return the fault by name; none if the library could not be compiled.

        With `appendfsync everysec`, a store acknowledges writes before it passes them on while a flush takes long. It
        has passed on all of them when the fault ends: a kill before that may lose them.
        """

        async def slow_down() -> None:
            self.turn(DELAY)
            await asyncio.sleep(seconds)
            self.turn(0)
            await asyncio.to_thread(wait_until, lambda: has_written(store))

        return {} if self.refused else {"slow disk": slow_down}


def has_written(store: Server) -> bool:
    """Check whether a store has passed all writes on to the system."""
    with contextlib.suppress(redis.RedisError):
        about = store.send("INFO", "persistence")
        return not about["aof_pending_bio_fsync"] and not about["aof_buffer_length"]
    return False


def _compile(library: Path) -> str:
    return refused("cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl")
