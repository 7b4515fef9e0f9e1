"""The folder of a backup: a file for each model, a note about each file, and a manifest, which is written last."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MANIFEST = "manifest.json"
FORMAT, VERSION = "wager-backup", 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHUNK = 2**20


class BackupError(Exception):
    """A folder is not a complete backup; the message is for the user."""


class Note(NamedTuple):
    """What a backup says about a model."""

    name: str
    etag: str  # of the model
    rounds: int
    bytes: int  # of its file
    sha256: str  # of its file

    def is_of(self, folder: Path) -> bool:
        """Check whether the model's file has this size."""
        file = file_of(folder, self.name)
        return file.is_file() and file.stat().st_size == self.bytes


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a model's state."""
    return folder / f"{name}.safetensors"


def rounds_of(folder: Path, name: str) -> Path:
    """Return the file of a model's rounds."""
    return folder / f"{name}.ndjson"


def read_note(folder: Path, name: str) -> Note | None:
    """Return the note of a model; None without a readable one."""
    try:
        return _note(json.loads((folder / f"{name}.json").read_text()))
    except (OSError, ValueError, BackupError):
        return None


def write_note(folder: Path, note: Note) -> None:
    """Write the note of a model, after its file is complete."""
    _write(folder / f"{note.name}.json", note._asdict())


def write_manifest(folder: Path, notes: list[Note], release: str) -> None:
    """Write the manifest, after all models are complete."""
    models = [note._asdict() for note in notes]
    _write(folder / MANIFEST, {"format": FORMAT, "version": VERSION, "wager": release, "models": models})


def read_manifest(folder: Path) -> list[Note]:
    """Return the notes of all models in a backup."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text())
        form, version = found["format"], found["version"]
        models = list(found["models"]) if version == VERSION else []  # others may have another form
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}; without a manifest, the backup is not complete") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BackupError(f"{path} is not the manifest of a backup") from error
    if form != FORMAT:
        raise BackupError(f"{path} is not the manifest of a backup")
    if version != VERSION:
        made = f", written by Wager {found['wager']}" if isinstance(found.get("wager"), str) else ""
        raise BackupError(f"{path} has version {version!r}{made}; this release reads version {VERSION}")
    return [_note(each) for each in models]


def check_file(folder: Path, note: Note) -> None:
    """Check the size and the checksum of a model's file."""
    path = file_of(folder, note.name)
    digest = hashlib.sha256()
    try:
        for part in parts_of(path):
            digest.update(part)
        size = path.stat().st_size
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from error
    if (size, digest.hexdigest()) != (note.bytes, note.sha256):
        raise BackupError(f"{path} is not the file of the backup: its size or its checksum differs")


def parts_of(path: Path) -> Iterator[bytes]:
    """Yield the parts of a file."""
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            yield part


def _note(fields: Any) -> Note:
    match fields:
        case {"name": str(name), "etag": str(), "rounds": int(), "bytes": int(), "sha256": str()} if _NAME.fullmatch(
            name
        ):
            return Note(**{field: fields[field] for field in Note._fields})
    raise BackupError("the manifest names a model in another form than this release writes")


def _write(path: Path, content: Any) -> None:
    """Write a JSON file, complete or not at all."""
    coming = path.with_suffix(".part")
    with coming.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    coming.replace(path)
