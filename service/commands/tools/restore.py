"""The command `wager restore`: models from the files that `wager backup` wrote."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.commands.shared.options import fail
from service.commands.shared.remote import DEFAULT_URL, Key, RemoteError, Url, call, connect

if TYPE_CHECKING:
    import httpx2

    from service.commands.tools.backup_folder import Note

_FILE = {"Content-Type": "application/octet-stream"}


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
    from service.commands.tools.backup_folder import BackupError, check_file, read_manifest

    try:
        notes = read_manifest(folder)
        if unknown := sorted(set(model or ()) - {note.name for note in notes}):
            raise BackupError(f"the backup has no model {unknown[0]!r}")
        wanted = [note for note in notes if not model or note.name in model]
        for note in wanted:
            check_file(folder, note)
        with connect(url, api_key) as client:
            done = [note.name for note in wanted if _restored(client, folder, note)]
    except (BackupError, RemoteError) as error:
        fail(str(error))
    there = sorted({note.name for note in wanted} - set(done))
    skipped = f"; {len(there)} existed and stay as they are" if there else ""
    result = {"restored": done, "existing": there}
    typer.echo(json.dumps(result) if as_json else f"{len(done)} models restored{skipped}")


def _restored(client: "httpx2.Client", folder: Path, note: "Note") -> bool:
    """Create a model; return False if it exists."""
    from service.commands.tools.backup_folder import file_of

    typer.echo(note.name, err=True)
    path = f"/models/{note.name}/import"
    try:
        call(client, "POST", path, content=file_of(folder, note.name).read_bytes(), headers=_FILE)
    except RemoteError as error:
        if error.type == "model-exists":
            return False
        raise RemoteError(f"{note.name}: {error}", error.status, error.type) from error
    return True
