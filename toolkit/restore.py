"""The command `wager restore`: creates models from the files of `wager backup`."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import httpx2
import typer

from service.commands.options import fail
from toolkit.backup_folder import BackupError, Note, check_file, chunks_of, file_of, read_manifest
from toolkit.progress import with_progress
from toolkit.remote import DEFAULT_URL, AsJson, Key, RemoteError, Url, call, connect, path_of

_FILE = {"Content-Type": "application/octet-stream"}
_SKIPPED = {"model-exists": "existing", "model-not-found": "not allowed"}
"""The outcomes of problems that skip only one model. A key gets `model-not-found` for a name that it does not allow."""


def restore(
    folder: Annotated[Path, typer.Argument(help="The folder that `wager backup` wrote.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    model: Annotated[list[str] | None, typer.Option(help="Restore only this model; may be given again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create the models of a backup that the service does not have. Existing models stay as they are.

    Needs the scope admin. All checksums are verified before the first model is created. A model that the service
    refuses does not stop the others. The command can be repeated.
    """
    notes = read_manifest(folder)
    if unknown := sorted(set(model or ()) - {note.name for note in notes}):
        raise BackupError(f"the backup has no model {unknown[0]!r}")
    wanted = [note for note in notes if not model or note.name in model]
    for note in wanted:
        check_file(folder, note)
    with connect(url, api_key) as client:
        ends = [(note.name, _restore(client, folder, note)) for note in with_progress(wanted, lambda note: note.name)]
    outcomes = ("restored", *_SKIPPED.values())
    done, existing, left = ([name for name, end in ends if end == each] for each in outcomes)
    skipped = f"; {len(existing)} existed and stay as they are" if existing else ""
    refused = {name: end for name, end in ends if end not in outcomes}
    result = {"restored": done, "existing": existing, "not_allowed": left, "refused": refused}
    typer.echo(json.dumps(result) if as_json else f"{len(done)} models restored{skipped}")
    causes = [f"the API key does not allow models of these names: {', '.join(left)}"] if left else []
    causes += [f"the service refuses {name}: {reason}" for name, reason in refused.items()]
    if causes:
        fail(f"not restored: {'; '.join(causes)}")


def _restore(client: httpx2.Client, folder: Path, note: Note) -> str:
    """Create a model. Return the outcome, or the reason why the service refuses the file; raise other errors."""
    content, headers = chunks_of(file_of(folder, note.name)), _FILE | {"Content-Length": str(note.bytes)}
    try:
        call(client, "POST", f"{path_of(note.name)}/import", content=content, headers=headers)
    except RemoteError as error:
        if error.type in _SKIPPED:
            return _SKIPPED[error.type]
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            return str(error)
        raise RemoteError(f"{note.name}: {error}", error.status, error.type) from error
    return "restored"
