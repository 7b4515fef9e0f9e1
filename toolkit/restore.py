"""The command `wager restore`: models from the files that `wager backup` wrote."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.options import fail
from toolkit.progress import with_progress
from toolkit.remote import DEFAULT_URL, Key, RemoteError, Url, call, connect

if TYPE_CHECKING:
    import httpx2

    from toolkit.backup_folder import Note

_FILE = {"Content-Type": "application/octet-stream"}
_LEAVES = {"model-exists": "existing", "model-not-found": "not allowed"}
"""Problems of one model that leave the others to restore. A key for some names finds no model of another name."""


def restore(
    folder: Annotated[Path, typer.Argument(help="The folder that `wager backup` wrote.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    model: Annotated[list[str] | None, typer.Option(help="Restore only this model; may be given again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Create the models of a backup that the service does not have. Existing models stay as they are.

    Needs the scope admin. All checksums are verified before the first model is created. The command can be repeated.
    """
    from toolkit.backup_folder import BackupError, check_file, read_manifest

    try:
        notes = read_manifest(folder)
        if unknown := sorted(set(model or ()) - {note.name for note in notes}):
            raise BackupError(f"the backup has no model {unknown[0]!r}")
        wanted = [note for note in notes if not model or note.name in model]
        for note in wanted:
            check_file(folder, note)
        with connect(url, api_key) as client:
            ends = [(note.name, _restored(client, folder, note)) for note in with_progress(wanted, _name)]
    except (BackupError, RemoteError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or folder}: {error.strerror}")
    done, there, left = ([name for name, end in ends if end == each] for each in ("restored", *_LEAVES.values()))
    skipped = f"; {len(there)} existed and stay as they are" if there else ""
    result = {"restored": done, "existing": there, "not_allowed": left}
    typer.echo(json.dumps(result) if as_json else f"{len(done)} models restored{skipped}")
    if left:
        fail(f"not restored, as the API key does not allow models of these names: {', '.join(left)}")


def _name(note: "Note") -> str:
    return note.name


def _restored(client: "httpx2.Client", folder: Path, note: "Note") -> str:
    """Create a model; return what became of it."""
    from toolkit.backup_folder import file_of, parts_of

    headers = _FILE | {"Content-Length": str(note.bytes)}
    try:
        content = parts_of(file_of(folder, note.name))
        call(client, "POST", f"/models/{note.name}/import", content=content, headers=headers)
    except RemoteError as error:
        if error.type in _LEAVES:
            return _LEAVES[error.type]
        raise RemoteError(f"{note.name}: {error}", error.status, error.type) from error
    return "restored"
