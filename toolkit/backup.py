"""The command `wager backup`: the models of a running service, as files."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service import __version__
from service.commands.options import fail
from toolkit.progress import with_progress
from toolkit.remote import DEFAULT_URL, Key, RemoteError, Url, call, connect, download

if TYPE_CHECKING:
    import httpx2

    from toolkit.backup_folder import Note

_PAGE = 1000

_MOST_NAMED = 20
"""Unchanged models that the sentence at the end names."""


def backup(
    folder: Annotated[Path, typer.Argument(help="The folder to write; it is created if missing.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    rounds: Annotated[bool, typer.Option(help="Also write the rounds that the logs have, as NDJSON.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write every model that the key allows to a folder: definition, changes, statistics and state.

    Needs the scope read. Open predictions, kept snapshots and API keys are not included. The command can be repeated:
    it skips models that have not changed since. A folder without manifest.json is not complete.
    """
    from toolkit.backup_folder import write_manifest

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with connect(url, api_key) as client:
            notes, same, left = _write_all(client, folder, with_rounds=rounds)
        write_manifest(folder, notes, __version__)
    except RemoteError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or folder}: {error.strerror}")
    size = sum(note.bytes for note in notes)
    result = {"folder": str(folder), "models": len(notes), "bytes": size, "unchanged": same, "unreadable": left}
    more = f" and {len(same) - _MOST_NAMED:,} more" if len(same) > _MOST_NAMED else ""
    skipped = f"; unchanged, so not written again: {', '.join(same[:_MOST_NAMED])}{more}" if same else ""
    typer.echo(json.dumps(result) if as_json else f"{len(notes)} models, {size:,} bytes in {folder}{skipped}")
    if left:
        fail(f"not in the backup, as they cannot be read: {', '.join(left)}")


def _write_all(
    client: "httpx2.Client", folder: Path, *, with_rounds: bool
) -> tuple[list["Note"], list[str], list[str]]:
    """Write all models; return their notes, the names of those that the folder had, and those of unreadable ones."""
    from toolkit.backup_folder import MANIFEST

    notes, same, left, models = list["Note"](), list[str](), list[str](), list(_models(client))
    (folder / MANIFEST).unlink(missing_ok=True)  # after the service has answered: it describes the files until then
    for listed in with_progress(models, lambda model: str(model["name"])):
        name = listed["name"]
        if "problem" in listed:
            left.append(name)
            continue
        try:
            note, is_there = _write_model(client, folder, name)
            notes.append(note)
            same += [name] if is_there else []
            if with_rounds:
                _write_rounds(client, folder, name)
        except RemoteError as error:
            if error.type == "model-not-found":  # deleted since
                continue
            if error.type not in ("newer-version", "store-corrupt"):
                raise
            left.append(name)
    return notes, same, left


def _models(client: "httpx2.Client") -> Iterator[dict[str, Any]]:
    cursor: str | None = ""
    while cursor is not None:
        page = call(client, "GET", "/models", params={"cursor": cursor, "limit": _PAGE}).json()
        yield from page["models"]
        cursor = page["next_cursor"]


def _write_model(client: "httpx2.Client", folder: Path, name: str) -> tuple["Note", bool]:
    """Write the file of a model, unless the folder has it; return its note, and whether it has."""
    from toolkit.backup_folder import Note, file_of, read_note, write_note

    described = call(client, "GET", f"/models/{name}")
    etag, rounds = described.headers["etag"], described.json()["rounds_seen"]
    there = read_note(folder, name)
    if there is not None and (there.etag, there.rounds) == (etag, rounds) and there.is_of(folder):
        return there, True
    path = file_of(folder, name)
    coming = path.with_suffix(".part")
    with coming.open("wb") as file:
        digest = download(client, f"/models/{name}/export", file)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    coming.replace(path)
    note = Note(name, etag, rounds, size, digest)
    write_note(folder, note)
    return note, False


def _write_rounds(client: "httpx2.Client", folder: Path, name: str) -> None:
    """Write the rounds of a model's log."""
    from toolkit.backup_folder import rounds_of

    path, after = rounds_of(folder, name), 0
    coming = path.with_suffix(".ndjson.part")
    with coming.open("wb") as file:
        while lines := call(client, "GET", f"/models/{name}/rounds", params={"after": after, "limit": _PAGE}).content:
            file.write(lines)
            after = json.loads(lines.splitlines()[-1])["round"]
    coming.replace(path)
