"""A way to the embedded store for a command that runs beside the service, or without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.store.embedded.server import AppendFsync, EmbeddedServer, is_answering


@contextmanager
def embedded_store_url(data_dir: Path, appendfsync: AppendFsync) -> Iterator[str]:
    """The URL of the store in a folder: the running service's, or one started for as long as this lasts.

    Only the user whom the folder belongs to gets there: the socket's permissions are the guard.

    Raises:
        EmbeddedServerError: if it neither runs nor can be started.
    """
    server = EmbeddedServer(data_dir, appendfsync, lock_seconds=0.5)
    if is_answering(server.url):
        yield server.url
        return
    with server:
        yield server.url
