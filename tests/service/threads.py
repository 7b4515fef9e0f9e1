"""A service in a thread of the test process: real sockets and the connections of `wager serve`, without a process."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn

from service.app import create_app
from service.commands.serve import connection_settings
from service.settings import Settings
from tests.servers import wait_until


class Served(NamedTuple):
    url: str
    port: int
    store_url: str


@contextmanager
def in_thread(store_url: str, **settings: Any) -> Iterator[Served]:
    """Serve until the end of the block."""
    own = Settings(store_url=store_url, host="127.0.0.1", **settings)
    connections = connection_settings(own)
    config = uvicorn.Config(
        lambda: create_app(own),
        factory=True,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=5,
        **connections,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive(), 250.0)
            assert server.started
            port = listener.getsockname()[1]
            yield Served(f"http://127.0.0.1:{port}", port, store_url)
        finally:
            server.should_exit = True
            thread.join()
