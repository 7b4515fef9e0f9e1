"""A fork shares no connection with its parent: each answer arrives at the process that asked."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.doubles import PREDICTION, done
from wager_client import AsyncWager, FeedbackQueue, Wager

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        named = {"prediction_id": f"m:{asked['prediction_id']}", "label": str(self.client_address[1])}
        body = json.dumps(PREDICTION | named).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def in_child(path: Path, work: Callable[[], list[Any]]) -> list[Any]:
    child = os.fork()
    if child == 0:
        try:
            path.write_text(json.dumps(work()))
        except BaseException as error:  # noqa: BLE001 - the fork must not go on with the tests
            path.write_text(json.dumps([repr(error)]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found: list[Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("kind", [Wager, AsyncWager])
def test_a_fork_opens_connections_of_its_own(kind: Any, url: str, tmp_path: Path) -> None:
    wager = kind(url)
    other = wager.with_options(timeout=5.0)

    async def ask(close: bool) -> list[Any]:
        found = [(await done(each.predict("m"))).label for each in (wager, other, wager)]
        if close:
            await done(wager.close())
        return found

    with asyncio.Runner() as runner:
        before = runner.run(ask(close=False))
        found = in_child(tmp_path / "found", lambda: asyncio.run(ask(close=True)))
        assert before == [before[0]] * 3
        assert found == [found[0]] * 3
        assert found[0] != before[0]
        assert runner.run(ask(close=True)) == before


def test_a_fork_refuses_the_http_client_of_its_parent(url: str, tmp_path: Path) -> None:
    with httpx2.Client(verify=False) as http:
        wager, asynchronous = Wager(url, http_client=http), AsyncWager(url, http_client=httpx2.AsyncClient())
        before = wager.predict("m").label
        for work in (
            lambda: [wager.predict("m", default="b").label],
            lambda: [FeedbackQueue(wager).put("m:1", correct=True)],
            lambda: [asyncio.run(asynchronous.predict("m", default="b")).label],
        ):
            (found,) = in_child(tmp_path / "found", work)
            assert "RuntimeError('http_client was created before a fork" in found
        assert wager.predict("m").label == before
