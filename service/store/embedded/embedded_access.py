"""Access to the embedded store for commands, whether or not the service is running."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.store.embedded.server import AppendFsync, EmbeddedServer, is_answering


@contextmanager
def embedded_store_url(
    data_dir: Path, appendfsync: AppendFsync, reserve: int, memory: int | None = None
) -> Iterator[str]:
    """Yield the URL of the store in a directory. Start the store for the duration of the context if it is not running.

    The socket's permissions restrict access to the owner of the directory.

    Raises:
        EmbeddedServerError: if the store is not running and cannot be started, or if it was started and may have lost
            what it acknowledged.
    """
    server = EmbeddedServer(data_dir, appendfsync, reserve=reserve, memory=memory, lock_seconds=0.5)
    if is_answering(server.url):
        yield server.url
        return
    with server:
        yield server.url
