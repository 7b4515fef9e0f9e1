"""The folder of a backup: a file and a note for each model, and a manifest, which is written last."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from toolkit import ToolError

MANIFEST = "manifest.json"
FORMAT, VERSION = "wager-backup", 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHUNK = 2**20


class BackupError(ToolError):
    """A backup cannot be written or read."""


class Note(NamedTuple):
    """A backup's note on a model: the model's version, and the size and checksum of its file."""

    name: str
    etag: str  # of the model
    rounds: int
    shadows: list[list[str | int | None]]  # for each shadow: name, created_at, rounds_seen, restarts
    bytes: int  # the size of the model's file
    sha256: str  # of the model's file

    def is_of(self, folder: Path) -> bool:
        """Check whether the model's file exists with this size."""
        file = file_of(folder, self.name)
        return file.is_file() and file.stat().st_size == self.bytes


def file_of(folder: Path, name: str) -> Path:
    """Return the path of a model's file."""
    return folder / f"{name}.safetensors"


def read_note(folder: Path, name: str) -> Note | None:
    """Return the note of a model; None if it is missing or unreadable."""
    try:
        return _note(json.loads((folder / f"{name}.json").read_text()))
    except (OSError, ValueError):
        return None


def write_note(folder: Path, note: Note) -> None:
    """Write the note of a model, after its file is complete."""
    write_file(folder / f"{note.name}.json", [json.dumps(note._asdict(), indent=1).encode()])


def write_manifest(folder: Path, notes: list[Note], release: str) -> None:
    """Write the manifest, after all models are complete."""
    models = [note._asdict() for note in notes]
    manifest = {"format": FORMAT, "version": VERSION, "wager": release, "models": models}
    write_file(folder / MANIFEST, [json.dumps(manifest, indent=1).encode()])


def read_manifest(folder: Path) -> list[Note]:
    """Return the notes of all models in a backup. Raises `BackupError` without a valid manifest."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text())
        if found["format"] == FORMAT and found["version"] == VERSION:
            return [_note(each) for each in found["models"]]
        is_backup, version, release = found["format"] == FORMAT, found["version"], found.get("wager")
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}; without a manifest, the backup is not complete") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BackupError(f"{path} is not the manifest of a backup") from error
    if not is_backup:
        raise BackupError(f"{path} is not the manifest of a backup")
    written = f", written by Wager {release}" if isinstance(release, str) else ""
    raise BackupError(f"{path} has version {version!r}{written}; this release reads version {VERSION}")


def check_file(folder: Path, note: Note) -> None:
    """Check the size and the checksum of a model's file. Raises `BackupError`."""
    path, digest = file_of(folder, note.name), hashlib.sha256()
    try:
        for chunk in chunks_of(path):
            digest.update(chunk)
        size = path.stat().st_size
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from error
    if (size, digest.hexdigest()) != (note.bytes, note.sha256):
        raise BackupError(f"{path} is damaged or replaced: its size or checksum is not the one on record")


def chunks_of(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in chunks."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def write_file(path: Path, chunks: Iterable[bytes]) -> tuple[int, str]:
    """Write a file atomically; return its size and its SHA-256."""
    partial, digest = path.with_name(f"{path.name}.part"), hashlib.sha256()
    with partial.open("wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    partial.replace(path)
    return size, digest.hexdigest()


def _note(fields: Any) -> Note:
    match fields:
        case {"name": str(name), "etag": str(), "rounds": int(), "shadows": list(), "bytes": int(), "sha256": str()}:
            if _NAME.fullmatch(name):
                return Note(**{field: fields[field] for field in Note._fields})
    raise ValueError("not a note of this release")
