"""The laws of stopping, replacing and copying: nothing acknowledged is lost, and every stop ends in time."""

import asyncio
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Self

import httpx2
import pytest

from service.store.embedded.server import EmbeddedServer
from tests.servers import raw, wait_until
from tests.service.sample_models import UNIFORM, definition, some_contexts
from tests.service.wager import Wager, serve
from tests.service.workers import worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")

X = [0.6, 0.8, 0.0]
_PAUSE = 0.01  # seconds between two rounds of a client, which leaves the processor to the workers that start


class Load:
    """Clients in threads that give feedback once per prediction until the block ends.

    A request whose connection closes before its answer is sent again once, as HTTP permits for idempotent requests
    (RFC 9110, 9.2.2); the ids make these requests idempotent. Any other failure is recorded.
    """

    def __init__(self, url: str, clients: int = 3) -> None:
        self._url = url
        self.over = threading.Event()
        self.acknowledged: set[str] = set()
        self.failed: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self.acknowledged) > 10)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        with httpx2.Client(base_url=self._url, timeout=30.0) as client:
            for turn, context in enumerate(some_contexts(number, 100_000)):
                if self.over.wait(_PAUSE) or self.failed:
                    return
                own = f"{number}-{turn}"
                self._send(client, "/predict", {"model": "forest", "context": context, "prediction_id": own})
                if self._send(client, "/feedback", {"prediction_id": f"forest:{own}", "correct": True}):
                    self.acknowledged.add(f"forest:{own}")

    def _send(self, client: httpx2.Client, path: str, body: dict[str, object]) -> bool:
        for last in (False, True):
            try:
                response = client.post(path, json=body)
            except httpx2.TransportError as error:
                if last:
                    self.failed.append(repr(error))
                continue
            if response.status_code != 200:
                self.failed.append(response.text)
            return response.status_code == 200
        return False


def logged(url: str) -> list[str]:
    """Return the prediction ids in the log, which must have fewer than 10,000 rounds."""
    text = httpx2.get(f"{url}/models/forest/rounds", params={"limit": 10_000}, timeout=30.0).text
    return [json.loads(line)["prediction_id"] for line in text.splitlines()]


def test_sighup_replaces_workers_without_failed_requests(tmp_path: Path) -> None:
    """SIGHUP replaces the workers one after the other, and no request fails."""
    with serve(tmp_path, workers=2) as wager:
        httpx2.post(f"{wager.url}/models", json=definition("forest", learner=UNIFORM)).raise_for_status()
        before = set(wager.worker_pids())
        with Load(wager.url) as load:
            wager.signal(signal.SIGHUP)
            wait_until(lambda: len(now := set(wager.worker_pids())) == 2 and now.isdisjoint(before), 180.0)
            enough = len(load.acknowledged) + 10
            wait_until(lambda: len(load.acknowledged) > enough)
        assert load.failed == []
        found = logged(wager.url)
        assert len(found) == len(set(found))
        assert set(found) == load.acknowledged


def test_a_stop_under_load_is_quick_and_loses_nothing(tmp_path: Path) -> None:
    """SIGTERM under load stops the service in time with exit code 0, and the store outlives the workers."""
    with serve(tmp_path) as wager:
        httpx2.post(f"{wager.url}/models", json=definition("forest", learner=UNIFORM)).raise_for_status()
        with Load(wager.url) as load:
            assert wager.stop(within=15.0) == 0
    assert not [text for text in load.failed if "store-unavailable" in text]  # the store stopped last
    with serve(tmp_path) as again:
        assert load.acknowledged <= set(logged(again.url))


def test_a_draining_worker_is_not_ready_but_serves(tmp_path: Path) -> None:
    """A draining worker is alive but not ready; it serves until the drain time ends or a second signal comes."""
    with serve(tmp_path, WAGER_DRAIN_SECONDS="600") as wager, httpx2.Client(base_url=wager.url) as client:
        client.post("/models", json=definition("forest", learner=UNIFORM)).raise_for_status()
        wager.signal(signal.SIGTERM)
        wait_until(lambda: not wager.is_ready())
        assert client.get("/readyz").json()["type"] == "urn:wager:problem:about-to-stop"
        client.get("/livez").raise_for_status()
        httpx2.post(f"{wager.url}/predict", json={"model": "forest", "context": X}).raise_for_status()
        client.close()
        assert wager.stop() == 0


def test_a_worker_stops_after_its_drain_time(tmp_path: Path) -> None:
    """When the drain time is over, the worker stops as without one."""
    with serve(tmp_path, WAGER_DRAIN_SECONDS="0.2") as wager:
        assert wager.stop() == 0


# --- backup and restore


async def play(url: str, start: int, n: int) -> None:
    """Play n rounds, with ids that count up from `start`."""
    async with worker(url) as client:
        await client.post("/models", json=definition("forest", learner=UNIFORM))
        for number in range(start, start + n):
            prediction = {"model": "forest", "context": X, "prediction_id": str(number)}
            feedback = {"prediction_id": f"forest:{number}", "correct": True}
            for path, body in (("/predict", prediction), ("/feedback", feedback)):
                (await client.post(path, json=body)).raise_for_status()


async def count(url: str) -> int:
    """Return the number of rounds, after checking that the log has as many."""
    async with worker(url) as client:
        model = (await client.get("/models/forest")).json()
        text = (await client.get("/models/forest/rounds", params={"limit": 10_000})).text
        assert len(text.splitlines()) == model["rounds_seen"]
        rounds: int = model["rounds_seen"]
        return rounds


async def test_a_copy_of_the_folder_of_a_stopped_store_is_a_backup(tmp_path: Path) -> None:
    """A copy of a stopped store's folder restores everything elsewhere."""
    with EmbeddedServer(tmp_path / "data") as server:
        await play(server.url, 0, 20)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with EmbeddedServer(tmp_path / "copy") as copied:
        assert await count(copied.url) == 20


async def test_a_copy_of_the_running_stores_log_is_a_backup(tmp_path: Path) -> None:
    """A copy of `appendonlydir`, made with log rewriting disabled, has everything acknowledged before the copy."""
    with EmbeddedServer(tmp_path / "data") as server:
        await play(server.url, 0, 20)
        playing = asyncio.create_task(play(server.url, 20, 40))
        with raw(server.url) as client:
            client.config_set("auto-aof-rewrite-percentage", 0)
            assert client.info("persistence")["aof_rewrite_in_progress"] == 0
            shutil.copytree(tmp_path / "data" / "appendonlydir", tmp_path / "copy" / "appendonlydir")
            client.config_set("auto-aof-rewrite-percentage", 100)
        await playing
    (tmp_path / "copy").chmod(0o700)
    with EmbeddedServer(tmp_path / "copy") as copied:
        assert 20 <= await count(copied.url) < 60
        await play(copied.url, 100, 5)  # and the copy accepts further rounds


def test_the_embedded_store_ends_with_its_service(live: Wager) -> None:
    """The embedded store runs as long as its service, and ends with it."""
    pid = live.store_pid()
    assert live.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
