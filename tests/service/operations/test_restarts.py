"""The laws of stopping, replacing and copying: nothing acknowledged is lost, and every stop ends in time."""

import asyncio
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from service.store.embedded.server import EmbeddedServer
from tests.servers import raw, wait_until
from tests.service.metrics import scrape, value
from tests.service.sample_models import GAPTRON, SOBA_DIAGONAL, UNIFORM, definition, replay, some_contexts
from tests.service.threads import in_thread
from tests.service.wager import Wager, clients_of_each, serve
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
        self.wait_for_more()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self) -> None:
        enough = len(self.acknowledged) + 10
        wait_until(lambda: len(self.acknowledged) > enough, 250.0)

    def _run(self, number: int) -> None:
        with httpx2.Client(base_url=self._url, timeout=60.0) as client:
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


def log_of(url: str, model: str = "forest") -> list[dict[str, Any]]:
    """Return the lines of a log of fewer than 10,000 rounds."""
    answer = httpx2.get(f"{url}/models/{model}/rounds", params={"limit": 10_000}, timeout=60.0).raise_for_status()
    return [json.loads(line) for line in answer.text.splitlines()]


def logged(url: str) -> list[str]:
    return [line["prediction_id"] for line in log_of(url)]


def test_sighup_replaces_workers_without_failed_requests(tmp_path: Path) -> None:
    """The workers share counters in files, which are deleted with the service."""
    (tmp_path / "tmp").mkdir()
    with serve(tmp_path, workers=2, TMPDIR=str(tmp_path / "tmp")) as wager:
        httpx2.post(f"{wager.url}/models", json=definition("forest", learner=UNIFORM)).raise_for_status()
        before = set(wager.worker_pids())
        with Load(wager.url) as load:
            wager.signal(signal.SIGHUP)
            wait_until(lambda: len(now := set(wager.worker_pids())) == 2 and now.isdisjoint(before), 280.0)
            load.wait_for_more()
        assert load.failed == []
        assert sorted(logged(wager.url)) == sorted(load.acknowledged)
        wait_until(lambda: bool(list((tmp_path / "tmp").glob("wager-metrics-*/*.db"))))
        wager.signal(signal.SIGHUP)
        log_file = tmp_path / "wager.log"
        wait_until(lambda: log_file.read_text().count("restarting processes") == 2)
        wager.stop()  # ends the rolling restart: no further worker begins to serve
        assert log_file.read_text().count("Application startup complete") == 4
        assert list((tmp_path / "tmp").glob("wager-metrics-*")) == []


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """Every feedback counts once, and the workers fold the log to the same bits."""
    with serve(tmp_path, workers=2) as wager:
        httpx2.post(f"{wager.url}/models", json=definition("forest", learner=SOBA_DIAGONAL)).raise_for_status()
        with Load(wager.url) as load:
            killed = wager.worker_pids()[0]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: killed not in (now := wager.worker_pids()) and len(now) == 2, 280.0)
            load.wait_for_more()
        assert load.failed == []
        found = logged(wager.url)
        assert sorted(found) == sorted(load.acknowledged)
        asyncio.run(check_workers(wager, len(found)))


async def check_workers(wager: Wager, rounds: int) -> None:
    """Check that every worker has the state of the log, and reports the requests and rounds of all."""
    async with clients_of_each(wager, 2) as clients:
        log = (await clients[0].get("/models/forest/rounds", params={"limit": 10_000})).text
        played = replay((await clients[0].get("/models/forest")).json(), log, tolerance=1e-12)
        asked = {"model": "forest", "context": X, "include_distribution": True}
        answers = [(await client.post("/predict", json=asked)).json() for client in clients]
        assert [each["rounds_seen"] for each in answers] == [rounds] * 2
        assert answers[0]["distribution"] == answers[1]["distribution"]
        assert list(answers[0]["distribution"].values()) == pytest.approx(played.distribution(X), rel=1e-9)
        route = {"method": "POST", "route": "/predict", "status": "200"}
        counts = set[float]()
        while len(counts) != 1:  # a publication takes about a second
            samples = [await scrape(client) for client in clients]
            counts = {value(each, "wager_http_request_duration_seconds_count", **route) for each in samples}


def test_stop_and_start_lose_nothing(tmp_path: Path) -> None:
    """After SIGTERM under load, the store ends last; a service on the same data has every model, round and prediction.

    What expired in the meantime is closed.
    """
    with serve(tmp_path, WAGER_DRAIN_SECONDS="0.2") as wager, httpx2.Client(base_url=wager.url, timeout=60.0) as client:
        silent = definition("silent", learner=UNIFORM, on_expiry="incorrect", window_seconds=0.5)
        for body in (definition("forest", learner=UNIFORM), silent):
            client.post("/models", json=body).raise_for_status()
        client.post("/predict/batch", json={"model": "silent", "contexts": [X] * 3}).raise_for_status()
        prediction = {"model": "forest", "context": X, "prediction_id": "open"}
        before = client.post("/predict", json=prediction).json()
        store = wager.store_pid()
        with Load(wager.url) as load:
            assert wager.stop() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(store, 0)
    assert not [text for text in load.failed if "store-unavailable" in text]  # the store stopped last
    with serve(tmp_path) as again:
        assert load.acknowledged <= set(logged(again.url))
        assert httpx2.post(f"{again.url}/predict", json=prediction).json() == before
        feedback = {"prediction_id": "forest:open", "correct": False}
        assert httpx2.post(f"{again.url}/feedback", json=feedback).json()["status"] == "recorded"
        wait_until(lambda: len(log_of(again.url, "silent")) == 3, 250.0)
        assert {(line["outcome"], line["correct"]) for line in log_of(again.url, "silent")} == {("expired", False)}


def test_a_draining_worker_is_not_ready_but_serves(tmp_path: Path) -> None:
    """It serves until the drain time ends or a second signal comes."""
    with serve(tmp_path, WAGER_DRAIN_SECONDS="600") as wager, httpx2.Client(base_url=wager.url, timeout=60.0) as client:
        client.post("/models", json=definition("forest", learner=UNIFORM)).raise_for_status()
        wager.signal(signal.SIGTERM)
        wait_until(lambda: not wager.is_ready())
        assert client.get("/readyz").json()["type"] == "urn:wager:problem:about-to-stop"
        client.get("/livez").raise_for_status()
        httpx2.post(f"{wager.url}/predict", json={"model": "forest", "context": X}).raise_for_status()
        client.close()
        assert wager.stop() == 0


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
        rounds: int = (await client.get("/models/forest")).json()["rounds_seen"]
        text = (await client.get("/models/forest/rounds", params={"limit": 10_000})).text
        assert len(text.splitlines()) == rounds
        return rounds


async def test_a_copy_of_the_folder_of_a_stopped_store_is_a_backup(tmp_path: Path) -> None:
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


def acknowledged(client: httpx2.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Repeat a request until it is acknowledged."""
    answers: list[httpx2.Response] = []

    def sent() -> bool:
        answers.append(client.post(path, json=body))
        assert answers[-1].status_code in {200, 503}, answers[-1].text
        return answers[-1].status_code == 200

    wait_until(sent, 250.0)
    answer: dict[str, Any] = answers[-1].json()
    return answer


@pytest.mark.skipif(sys.platform != "linux", reason="kills a process")
def test_a_killed_store_restarts_and_loses_nothing(tmp_path: Path) -> None:
    """Every round counts once, and the propensities of the log replay to the bit.

    The store is killed while no flush holds back its writes: `test_losses` shows what such a kill loses.
    """
    outcomes: dict[str, bool] = {}
    with (
        EmbeddedServer(tmp_path) as server,
        raw(server.url) as store,
        in_thread(server.url) as served,
        httpx2.Client(base_url=served.url, timeout=60.0) as client,
    ):
        client.post("/models", json=definition("forest", learner=GAPTRON)).raise_for_status()
        for kill in range(4):
            for i, context in enumerate(some_contexts(kill, 30)):
                prediction = {"model": "forest", "context": context, "prediction_id": f"{kill}-{i}"}
                made = acknowledged(client, "/predict", prediction)["prediction_id"]
                outcomes[made] = acknowledged(client, "/feedback", {"prediction_id": made, "correct": i % 3 > 0})[
                    "correct"
                ]
            if kill < 3:
                wait_until(lambda: not store.info("persistence")["aof_buffer_length"])
                os.kill(server.pid or 0, signal.SIGKILL)
        log = client.get("/models/forest/rounds", params={"limit": 10_000}).text
        played = replay(client.get("/models/forest").json(), log)
    lines = [json.loads(line) for line in log.splitlines()]
    assert len(played.states) - 1 == len(lines) == len(outcomes) == 120
    assert {line["prediction_id"]: line["correct"] for line in lines} == outcomes
