"""The laws of a full disk under the embedded store: what may be lost is small, and never silent."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from service.commands.options import EXIT_STORE
from service.store.embedded.server import EmbeddedServer, EmbeddedServerError, is_answering
from tests.servers import raw, wait_until
from tests.service.sample_models import UNIFORM, definition
from tests.service.store.troubles import no_larger_files
from tests.service.wager import serve
from tests.service.workers import worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the files of another process")

CLIENTS = 16
X = [0.6, 0.8, 0.0]
_ROOM = 20_000
"""Bytes that the store may write when the disk begins to fill: some hundred requests."""


async def play(client: httpx2.AsyncClient, number: int, acknowledged: set[str]) -> None:
    """Predict and give feedback until a request is refused, which must be because the store is full."""
    for turn in range(100_000):
        own = f"{number}-{turn}"
        prediction = {"model": "forest", "context": X, "prediction_id": own}
        feedback = {"prediction_id": f"forest:{own}", "correct": True}
        for path, body in (("/predict", prediction), ("/feedback", feedback)):
            response = await client.post(path, json=body)
            if response.status_code != 200:
                assert (response.status_code, response.headers["retry-after"]) == (507, "1")
                return
        acknowledged.add(f"forest:{own}")


async def logged(url: str) -> set[str]:
    """Return the prediction ids in the log, which must have fewer than 10,000 rounds."""
    async with worker(url) as client:
        text = (await client.get("/models/forest/rounds", params={"limit": 10_000})).text
    return {json.loads(line)["prediction_id"] for line in text.splitlines()}


@contextmanager
def full_disk(url: str, seconds: float) -> Iterator[None]:
    """Let the store write a little more, and nothing after that for some seconds from the end of the block on."""
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with raw(url) as client, no_larger_files(client, client.info("persistence")["aof_current_size"] + _ROOM):
            held.set()
            over.wait()
            threading.Event().wait(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        over.set()


@pytest.mark.parametrize("freed", [True, False])
async def test_feedback_that_a_full_disk_loses_fails_the_stop(tmp_path: Path, freed: bool) -> None:
    """Requests are refused with 507 from the first write that failed, so only requests in flight may be lost.

    A stop succeeds only if nothing is lost, and nothing is lost if there is space before it gives up.
    """
    acknowledged: set[str] = set()
    server = EmbeddedServer(tmp_path, write_seconds=30.0 if freed else 0.2)
    server.start()
    async with worker(server.url) as client:
        await client.post("/models", json=definition("forest", learner=UNIFORM))
        with full_disk(server.url, 0.3 if freed else 2.0):
            await asyncio.gather(*(play(client, number, acknowledged) for number in range(CLIENTS)))
    silent = contextlib.nullcontext() if freed else pytest.raises(EmbeddedServerError, match="data may be lost")
    with silent:
        await asyncio.to_thread(server.stop)
    with EmbeddedServer(tmp_path) as again:
        lost = acknowledged - await logged(again.url)
    assert len(lost) <= (0 if freed else CLIENTS)
    assert len(acknowledged) > CLIENTS


def test_a_store_that_dies_with_an_unwritten_log_fails_the_stop(tmp_path: Path) -> None:
    """What it lost is not forgotten once the store runs again, and writes."""
    server = EmbeddedServer(tmp_path)
    server.start()
    with raw(server.url) as client, no_larger_files(client):
        client.set("key", "value")
        pid = client.info("server")["process_id"]
        wait_until(lambda: server._behind != "")
        os.kill(pid, signal.SIGKILL)
    with raw(server.url) as client:
        wait_until(lambda: is_answering(server.url) and client.info("server")["process_id"] != pid)
        client.set("key", "another value")
    with pytest.raises(EmbeddedServerError, match="data may be lost: the embedded store ended"):
        server.stop()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_that_loses_data_has_an_exit_code(tmp_path: Path, workers: int) -> None:
    """SIGTERM with an unwritten log waits for the disk, says so, and ends with an exit code other than 0.

    A second SIGTERM ends the wait.
    """
    patience = "600" if workers == 1 else "1"
    with (
        serve(tmp_path, workers, WAGER_GRACEFUL_SHUTDOWN_SECONDS=patience) as wager,
        raw(wager.store_url) as client,
        no_larger_files(client),
    ):
        client.set("key", "value")
        wager.signal(signal.SIGTERM)
        wait_until(lambda: "not written" in (tmp_path / "wager.log").read_text())
        if workers == 1:
            wager.signal(signal.SIGTERM)
        assert wager.wait() == EXIT_STORE
    if workers > 1:
        assert "acknowledged data may be lost" in (tmp_path / "wager.log").read_text()
