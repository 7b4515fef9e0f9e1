"""`wager backup --all`: the whole store, as a data directory."""

import json
import os
import time
from functools import partial
from pathlib import Path

import typer

from service.commands.options import fail, use_store
from service.store.embedded.server import LOG_FOLDER
from service.store.redis.open_store import OpenStore
from toolkit.backup_folder import BackupError

_BASE = "appendonly.aof.1.base.rdb"
_MANIFEST = "appendonly.aof.manifest"
_PARTIAL = f"{_BASE}.part"


def back_up_store(folder: Path, *, as_json: bool) -> None:
    """Write a consistent copy of the configured store to a folder; record the time of the backup in the store.

    The folder becomes a data directory, whose append-only file consists of an RDB file, without later commands.
    """
    log = folder / LOG_FOLDER
    log.mkdir(parents=True, exist_ok=True, mode=0o700)
    if others := {each.name for each in log.iterdir()} - {_BASE, _MANIFEST, _PARTIAL}:
        raise BackupError(f"{log} has {min(others)}: it is the log of a store, not a backup")
    size = use_store(partial(_copy, log), create=False)
    (log / _MANIFEST).write_text(f"file {_BASE} seq 1 type b\n")
    result = {"folder": str(folder), "bytes": size}
    typer.echo(json.dumps(result) if as_json else f"the whole store, {size:,} bytes, in {folder}")


async def _copy(log: Path, opened: OpenStore) -> int:
    """Write the store's RDB file, completely or not at all; return its size."""
    begun = time.time()
    partial_file = log / _PARTIAL
    with os.fdopen(os.open(partial_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:

        def receive(part: bytes) -> None:
            try:
                file.write(part)
            except OSError as error:  # writing to the local disk failed, not reading from the store
                raise BackupError(f"{partial_file}: {error.strerror}") from error

        try:
            await opened.store.copy(receive)
        except NotImplementedError:
            fail("a cluster has a file for each server: run the command for each primary, with its redis:// URL")
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    partial_file.replace(log / _BASE)
    await opened.store.note_backup(begun)
    return size
