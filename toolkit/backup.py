"""The command `wager backup`: writes the models of a running service to files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import httpx2
import typer

from service import __version__
from service.commands.options import fail
from service.json_values import JsonObject
from toolkit.backup_folder import (
    MANIFEST,
    BackupError,
    Note,
    file_of,
    read_note,
    write_file,
    write_manifest,
    write_note,
)
from toolkit.backup_store import back_up_store
from toolkit.progress import with_progress
from toolkit.remote import DEFAULT_URL, AsJson, Key, RemoteError, Url, call, connect, download, path_of

_PAGE = 1000
_MOST_NAMED = 20  # maximum number of unchanged models that the final message names


def backup(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder to write; it is created if missing.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    rounds: Annotated[bool, typer.Option(help="Also write the rounds that the logs have, as NDJSON.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Write the whole store instead, at one moment.")] = False,
    as_json: AsJson = False,
) -> None:
    """Back up every model that the API key can read: its definition, changes, statistics, state and shadows.

    Needs the scope read. Open predictions, kept snapshots and API keys are not included. The command can be repeated:
    it skips models that have not changed since the last time. A folder without manifest.json is not complete.

    --all copies the whole store of WAGER_STORE_URL or WAGER_DATA_DIR, while the service keeps running. The folder is
    then a data directory: `wager serve --data-dir` can serve a copy of it.
    """
    if all_:
        for option in ("url", "api_key", "rounds"):
            source = context.get_parameter_source(option)
            if source is not None and source.name == "COMMANDLINE":
                raise BackupError(f"--{option.replace('_', '-')}: --all reads the store of the settings instead")
        back_up_store(folder, as_json=as_json)
        return
    notes, same, unreadable = list[Note](), list[str](), list[str]()
    folder.mkdir(parents=True, exist_ok=True)
    with connect(url, api_key) as client:
        models = list(_models(client))
        (folder / MANIFEST).unlink(missing_ok=True)  # only now, so that the old backup survives if the service is away
        for listed in with_progress(models, lambda model: str(model["name"])):
            name = listed["name"]
            try:
                if "problem" in listed:
                    raise RemoteError(name, type_="store-corrupt")
                note, is_same = _write_model(client, folder, name)
                notes.append(note)
                same += [name] if is_same else []
                if rounds:
                    write_file(folder / f"{name}.ndjson", _rounds(client, name))
            except RemoteError as error:
                if error.type in ("newer-version", "store-corrupt"):
                    unreadable.append(name)
                elif error.type != "model-not-found":  # it was deleted since the list was read
                    raise
    write_manifest(folder, notes, __version__)
    _report(folder, notes, same, unreadable, as_json=as_json)


def _report(folder: Path, notes: list[Note], same: list[str], unreadable: list[str], *, as_json: bool) -> None:
    size = sum(note.bytes for note in notes)
    result = {"folder": str(folder), "models": len(notes), "bytes": size, "unchanged": same, "unreadable": unreadable}
    more = f" and {len(same) - _MOST_NAMED:,} more" if len(same) > _MOST_NAMED else ""
    skipped = f"; unchanged, so not written again: {', '.join(same[:_MOST_NAMED])}{more}" if same else ""
    typer.echo(json.dumps(result) if as_json else f"{len(notes)} models, {size:,} bytes in {folder}{skipped}")
    if unreadable:
        fail(f"not in the backup, as they cannot be read: {', '.join(unreadable)}")


def _models(client: httpx2.Client) -> Iterator[JsonObject]:
    cursor: str | None = ""
    while cursor is not None:
        page = call(client, "GET", "/models", params={"cursor": cursor, "limit": _PAGE}).json()
        yield from page["models"]
        cursor = page["next_cursor"]


def _write_model(client: httpx2.Client, folder: Path, name: str) -> tuple[Note, bool]:
    """Write the file of a model, unless it is up to date; return its note, and whether it was up to date."""
    described = call(client, "GET", path_of(name))
    listed = call(client, "GET", f"{path_of(name)}/shadows").json()["shadows"]
    shadows = [[each[field] for field in ("name", "created_at", "rounds_seen", "restarts")] for each in listed]
    seen = described.headers["etag"], described.json()["rounds_seen"], shadows
    existing = read_note(folder, name)
    if existing is not None and (existing.etag, existing.rounds, existing.shadows) == seen and existing.is_of(folder):
        return existing, True
    size, digest = write_file(file_of(folder, name), download(client, f"{path_of(name)}/export"))
    note = Note(name, *seen, size, digest)
    write_note(folder, note)
    return note, False


def _rounds(client: httpx2.Client, name: str) -> Iterator[bytes]:
    after = 0
    while lines := call(client, "GET", f"{path_of(name)}/rounds", params={"after": after, "limit": _PAGE}).content:
        yield lines
        after = json.loads(lines.splitlines()[-1])["round"]
