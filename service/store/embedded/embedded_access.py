"""A way to the embedded store for a command that runs beside the service, or without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.store.embedded.server import AppendFsync, EmbeddedServer


@contextmanager
def embedded_store_url(data_dir: Path, appendfsync: AppendFsync) -> Iterator[str]:
    """The URL of the store in a folder: the running service's, or one started for as long as this lasts.

    Only the user whom the folder belongs to gets there: the socket's permissions are the guard.

    Raises:
        EmbeddedServerError: if it neither runs nor can be started.
    """
    server = EmbeddedServer(data_dir, appendfsync, lock_seconds=0.5)
    if _answers(server.url):
        yield server.url
        return
    with server:
        yield server.url


def _answers(url: str) -> bool:
    client = redis.Redis.from_url(url, socket_timeout=1.0, retry=Retry(NoBackoff(), 0))
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
