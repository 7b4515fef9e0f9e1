"""The laws of a store in trouble: the service reports it and resumes, and no loss is silent."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from service.api.responses.problem_types import OF_ERROR
from service.commands.options import EXIT_STORE
from service.store.embedded.server import EmbeddedServer, EmbeddedServerError, is_answering
from tests.servers import Proxy, raw, wait_until
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.sample_models import GAPTRON, LABELS, UNIFORM, definition
from tests.service.store.troubles import TROUBLES, Trouble, in_trouble, no_larger_files
from tests.service.wager import serve
from tests.service.workers import worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the files of another process")
CLIENTS = 16
X = [0.6, 0.8, 0.0]
_ROOM = 20_000
"""Bytes that the store may write when the disk begins to fill: some hundred requests."""


async def play(client: httpx2.AsyncClient, number: int, acknowledged: set[str]) -> None:
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
    async with worker(url) as client:
        text = (await client.get("/models/forest/rounds", params={"limit": 10_000})).text
    return {json.loads(line)["prediction_id"] for line in text.splitlines()}


@contextmanager
def full_disk(url: str, seconds: float) -> Iterator[None]:
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


def test_a_stop_that_loses_data_has_an_exit_code(tmp_path: Path) -> None:
    """SIGTERM with an unwritten log waits for the disk, and says so; a second one ends the wait."""
    with (
        serve(tmp_path, WAGER_GRACEFUL_SHUTDOWN_SECONDS="600") as wager,
        raw(wager.store_url) as client,
        no_larger_files(client),
    ):
        client.set("key", "value")
        wager.signal(signal.SIGTERM)
        wait_until(lambda: "not written" in (tmp_path / "wager.log").read_text())
        wager.signal(signal.SIGTERM)
        assert wager.wait() == EXIT_STORE


JSON = {"content-type": "application/json"}


class Answer(NamedTuple):
    status: int
    slug: str
    retry_after: str | None


def answer_of(response: httpx2.Response) -> Answer:
    slug = response.json().get("type", "").removeprefix("urn:wager:problem:")
    return Answer(response.status_code, slug, response.headers.get("retry-after"))


UNAVAILABLE = Answer(503, "store-unavailable", "1")


def all_calls(name: str) -> list[tuple[str, str, dict[str, Any] | None]]:
    return [
        ("POST", "/models", definition(f"{name}-new")),
        ("GET", "/models", None),
        ("GET", f"/models/{name}", None),
        ("GET", f"/models/{name}/rounds", None),
        ("POST", "/predict", {"model": name, "context": X}),
        ("POST", "/predict", {"model": "never-seen", "context": X}),
        ("POST", "/feedback", {"prediction_id": f"{name}:open", "correct": True}),
        ("DELETE", f"/models/{name}", None),
        ("GET", "/readyz", None),
    ]


async def prepare(client: httpx2.AsyncClient, name: str) -> None:
    assert (await client.post("/models", json=definition(name, learner=GAPTRON))).status_code == 201
    await client.post("/predict", json={"model": name, "context": X, "prediction_id": "open"})


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_a_store_that_takes_no_writes_is_reported(tmp_path: Path, trouble: Trouble) -> None:
    with EmbeddedServer(tmp_path) as server:
        async with worker(server.url, webhook_secrets=SECRET) as client:
            await prepare(client, "forest")
            writes = [call for call in all_calls("forest") if call[0] == "POST" and "never" not in str(call[2])]
            writes.append(("POST", "/predict/batch", {"model": "forest", "contexts": [X, X]}))
            writes.append(("POST", "/webhooks/feedback", {"prediction_id": "forest:open", "correct": True}))
            with in_trouble(server.url, trouble):
                await ready(client, 503)
                refused = await client.get("/readyz")
                assert answer_of(refused) == UNAVAILABLE
                assert re.search(trouble.says, refused.json()["detail"])
                for method, path, body in writes:
                    content = json.dumps(body).encode()
                    response = await client.request(method, path, content=content, headers=JSON | signed(content))
                    problem = response.json()["predictions"][1] if "batch" in path else response.json()
                    kind = OF_ERROR[trouble.refusal]
                    assert (problem["status"], problem["type"].rpartition(":")[2]) == (kind.status, kind.slug), path
                    assert response.headers.get("retry-after") == (None if "batch" in path else "1")
                    assert re.search(trouble.says, problem["detail"])
                for path in ("/models", "/models/forest", "/models/forest/rounds", "/livez", "/metrics"):
                    assert (await client.get(path)).status_code == 200
            await ready(client, 200)
            feedback = {"prediction_id": "forest:open", "correct": True}
            assert (await client.post("/feedback", json=feedback)).json()["status"] == "recorded"
            assert (await client.post("/predict", json={"model": "forest", "context": X})).status_code == 200


async def ready(client: httpx2.AsyncClient, status: int) -> None:
    async with asyncio.timeout(30.0):
        while (await client.get("/readyz")).status_code != status:  # noqa: ASYNC110  another process's state
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("no_background")
async def test_concurrent_readiness_checks_share_a_write(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        async with worker(server.url) as client:
            await client.get("/readyz")
            with raw(server.url) as store:
                for replicas, status in ((0, 200), (1, 503)):
                    store.config_set("min-replicas-to-write", replicas)
                    store.config_resetstat()
                    answers = await asyncio.gather(*(client.get("/readyz") for _ in range(50)))
                    assert {answer.status_code for answer in answers} == {status}
                    calls: Any = store.info("commandstats")
                    assert calls["cmdstat_eval"]["calls"] <= 2


async def test_a_stopped_store_is_503_everywhere_and_service_resumes(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    server.start()
    async with worker(server.url, store_timeout_seconds=2.0) as client:
        await prepare(client, "forest")
        server.stop()
        for method, path, body in all_calls("forest"):
            assert answer_of(await client.request(method, path, json=body)) == UNAVAILABLE, path
        feedback = {"prediction_id": "forest:open", "correct": True}
        batches = {
            "/predict/batch": {"model": "forest", "contexts": [X] * 2},
            "/feedback/batch": {"feedback": [feedback] * 2},
        }
        for path, batch in batches.items():
            (items,) = (await client.post(path, json=batch)).json().values()
            problems = [(item["status"], item["type"]) for item in items]
            assert problems == [(503, "urn:wager:problem:store-unavailable")] * 2
        assert "does not answer" in (await client.get("/readyz")).json()["detail"]
        assert (await client.get("/livez")).status_code == 200
        with EmbeddedServer(tmp_path):
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.post("/feedback", json=feedback)).json()["status"] == "recorded"
            answer = await client.post("/predict", json={"model": "forest", "context": X})
            assert (answer.status_code, answer.json()["rounds_seen"]) == (200, 1)


async def test_a_silent_store_is_503_after_the_timeout(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        async with worker(server.url, store_timeout_seconds=0.2) as client:
            await prepare(client, "forest")
            assert server.pid is not None
            os.kill(server.pid, signal.SIGSTOP)
            try:
                async with asyncio.timeout(10.0):
                    calls = [("POST", "/predict", {"model": "forest", "context": X}), ("GET", "/readyz", None)]
                    for method, path, body in calls:
                        assert answer_of(await client.request(method, path, json=body)) == UNAVAILABLE
            finally:
                os.kill(server.pid, signal.SIGCONT)
            assert (await client.post("/predict", json={"model": "forest", "context": X})).status_code == 200


async def test_a_lost_reply_is_503_and_the_prediction_is_the_stored_one(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        async with Proxy(str(tmp_path / "valkey.sock")) as proxy, worker(proxy.url) as client:
            await prepare(client, "forest")
            body = {"model": "forest", "context": X, "prediction_id": "lost"}
            proxy.lose_replies_to = b"EVALSHA"
            assert answer_of(await client.post("/predict", json=body)) == UNAVAILABLE
            async with worker(server.url, seed=2) as other:
                stored = await other.post("/predict", json=body)
            proxy.lose_replies_to = None
            assert (await client.post("/predict", json=body)).json() == stored.json()
            assert (await client.get("/models/forest")).json()["predictions"] == 2


async def test_a_full_store_is_507_for_more_data_only(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        async with worker(server.url) as client:
            await prepare(client, "forest")
            inactive = {"model": "forest", "context": X, "prediction_id": "later", "activated": False}
            assert (await client.post("/predict", json=inactive)).is_success
            with raw(server.url) as store:
                store.config_set("maxmemory", 1)
            prediction, imported = {"model": "forest", "context": X}, {"label": "pine", "propensity": 0.5}
            labels = (await client.get("/models/forest")).json()["labels"]
            rounds = [{"context": X, "correct": True, **imported, "label": labels[0]}]
            calls = [
                ("/models", definition("n")),
                ("/predict", prediction),
                ("/models/forest/rounds", {"source": "file", "offset": 0, "rounds": rounds}),
                ("/models/forest/clone", {"name": "copy"}),
            ]
            for path, body in calls:
                assert answer_of(await client.post(path, json=body)) == Answer(507, "store-full", "1"), path
            (item,) = (await client.post("/predict/batch", json={"model": "forest", "contexts": [X]})).json()[
                "predictions"
            ]
            assert (item["status"], item["type"]) == (507, "urn:wager:problem:store-full")
            assert (await client.get("/models/forest")).json()["predictions"] == 2
            await ready(client, 200)
            for own in ("open", "later"):
                if own == "later":
                    assert (await client.post("/activate", json={"prediction_id": "forest:later"})).is_success
                feedback = {"prediction_id": f"forest:{own}", "correct": True}
                assert (await client.post("/feedback", json=feedback)).json()["status"] == "recorded"
            changed = await client.patch("/models/forest", json={"retain_rounds": 10}, headers={"If-Match": "*"})
            assert changed.status_code == 200
            with raw(server.url) as store:
                store.config_set("maxmemory", 0)
            for path, body in calls:
                assert (await client.post(path, json=body)).status_code < 300, path
            with raw(server.url) as store:
                store.config_set("maxmemory", 1)
            assert (await client.delete("/models/forest")).status_code == 204


LOST: dict[str, tuple[bytes, str, dict[str, Any], str]] = {
    "feedback": (b"EVALSHA", "/feedback", {"correct": True}, "prediction_id"),
    "import": (b"lost", "/models/forest/rounds", {"offset": 0}, "source"),
}


@pytest.mark.parametrize("what", LOST)
async def test_a_lost_reply_is_503_and_the_request_counts_once(tmp_path: Path, what: str) -> None:
    """After a lost reply, repeated feedback, or rounds of a source, are a duplicate of the stored ones."""
    command, path, fields, key = LOST[what]
    first, lost = ("forest:never", "forest:open") if what == "feedback" else ("first", "lost")
    with EmbeddedServer(tmp_path):
        async with Proxy(str(tmp_path / "valkey.sock")) as proxy, worker(proxy.url) as client:
            await prepare(client, "forest")
            rounds = [{"context": X, "label": label, "propensity": 0.5, "correct": True} for label in LABELS]
            body = fields | ({"rounds": rounds} if what == "import" else {})
            await client.post(path, json=body | {key: first})  # loads the script
            before = (await client.get("/models/forest")).json()["rounds_seen"]
            proxy.lose_replies_to = command
            assert answer_of(await client.post(path, json=body | {key: lost})) == UNAVAILABLE
            proxy.lose_replies_to = None
            again = (await client.post(path, json=body | {key: lost})).json()
            assert again["status"] == "duplicate"
            seen = (await client.get("/models/forest")).json()["rounds_seen"]
            assert seen == before + (len(rounds) if what == "import" else 1)
