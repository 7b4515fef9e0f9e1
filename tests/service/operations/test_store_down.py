"""The laws of an unavailable store: the service reports it, resumes later, and loses nothing acknowledged."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from service.api.responses.problem_types import OF_ERROR
from service.store import keys
from service.store.embedded.server import EmbeddedServer
from tests.servers import Proxy, raw
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.sample_models import GAPTRON, definition
from tests.service.store.troubles import TROUBLES, Trouble, in_trouble
from tests.service.workers import worker

X = [0.6, 0.8, 0.0]
JSON = {"content-type": "application/json"}


class Answer(NamedTuple):
    """The checked parts of an error answer."""

    status: int
    slug: str
    retry_after: str | None


def answer_of(response: httpx2.Response) -> Answer:
    """Return the status, the problem and Retry-After."""
    slug = response.json().get("type", "").removeprefix("urn:wager:problem:")
    return Answer(response.status_code, slug, response.headers.get("retry-after"))


UNAVAILABLE = Answer(503, "store-unavailable", "1")


def all_calls(name: str) -> list[tuple[str, str, dict[str, Any] | None]]:
    """Return a request to each route that needs the store."""
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
    """Create a model with an open prediction."""
    assert (await client.post("/models", json=definition(name, learner=GAPTRON))).status_code == 201
    await client.post("/predict", json={"model": name, "context": X, "prediction_id": "open"})


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_a_store_that_takes_no_writes_is_reported(tmp_path: Path, trouble: Trouble) -> None:
    """If the store takes no writes, readiness and writes fail with the reason, never with 500; reads succeed.

    A store that has no room refuses with 507.
    """
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
    """Wait until readiness is answered with this status."""
    async with asyncio.timeout(30.0):
        while (await client.get("/readyz")).status_code != status:  # noqa: ASYNC110  another process's state
            await asyncio.sleep(0.05)


async def test_concurrent_readiness_checks_share_a_write(tmp_path: Path) -> None:
    """Readiness needs no key, so concurrent checks share one write to the store; they also share a failure."""
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
    """Without its store the service answers 503 with Retry-After, stays alive, and resumes when the store is back."""
    server = EmbeddedServer(tmp_path)
    server.start()
    async with worker(server.url, store_timeout_seconds=2.0) as client:
        await prepare(client, "forest")
        server.stop()
        for method, path, body in all_calls("forest"):
            assert answer_of(await client.request(method, path, json=body)) == UNAVAILABLE, path
        assert "does not answer" in (await client.get("/readyz")).json()["detail"]
        assert (await client.get("/livez")).status_code == 200
        with EmbeddedServer(tmp_path):
            assert (await client.get("/readyz")).status_code == 200
            feedback = {"prediction_id": "forest:open", "correct": True}
            assert (await client.post("/feedback", json=feedback)).json()["status"] == "recorded"
            answer = await client.post("/predict", json={"model": "forest", "context": X})
            assert (answer.status_code, answer.json()["rounds_seen"]) == (200, 1)


async def test_each_item_of_a_batch_reports_the_store(tmp_path: Path) -> None:
    """Without a store, each item of a batch has its own problem."""
    server = EmbeddedServer(tmp_path)
    server.start()
    feedback = {"feedback": [{"prediction_id": "forest:open", "correct": True}] * 2}
    predictions = {"model": "forest", "contexts": [X, X]}
    async with worker(server.url) as client:
        await prepare(client, "forest")
        server.stop()
        for path, body in [("/predict/batch", predictions), ("/feedback/batch", feedback)]:
            (items,) = (await client.post(path, json=body)).json().values()
            problems = [(item["status"], item["type"]) for item in items]
            assert problems == [(503, "urn:wager:problem:store-unavailable")] * 2


async def test_a_silent_store_is_503_after_the_timeout(tmp_path: Path) -> None:
    """Requests to a store that accepts but does not answer time out; when it answers again, the service resumes."""
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


async def test_a_lost_reply_is_503_and_the_feedback_counts_once(tmp_path: Path) -> None:
    """After a lost reply, repeated feedback is a duplicate of the stored round, not a second round."""
    with EmbeddedServer(tmp_path):
        async with Proxy(str(tmp_path / "valkey.sock")) as proxy, worker(proxy.url) as client:
            await prepare(client, "forest")
            feedback = {"prediction_id": "forest:open", "correct": True}
            await client.post("/feedback", json=feedback | {"prediction_id": "forest:never"})  # loads the script
            proxy.lose_replies_to = b"EVALSHA"
            assert answer_of(await client.post("/feedback", json=feedback)) == UNAVAILABLE
            proxy.lose_replies_to = None
            again = await client.post("/feedback", json=feedback)
            assert (again.json()["status"], again.json()["round"]) == ("duplicate", 1)


async def test_a_lost_reply_is_503_and_the_prediction_is_the_stored_one(tmp_path: Path) -> None:
    """After a lost reply, a repeated prediction returns the stored one."""
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


async def test_a_lost_reply_is_503_and_the_import_counts_once(tmp_path: Path) -> None:
    """After a lost reply, repeated rounds of a source are a duplicate of the stored ones."""
    with EmbeddedServer(tmp_path):
        async with Proxy(str(tmp_path / "valkey.sock")) as proxy, worker(proxy.url) as client:
            await prepare(client, "forest")
            labels = (await client.get("/models/forest")).json()["labels"]
            rounds = [{"context": X, "label": label, "propensity": 0.5, "correct": True} for label in labels]
            body = {"source": "first", "offset": 0, "rounds": rounds}
            assert (await client.post("/models/forest/rounds", json=body)).is_success  # loads the script
            before = (await client.get("/models/forest")).json()["rounds_seen"]
            proxy.lose_replies_to = b"the-lost-one"
            body |= {"source": "the-lost-one"}
            assert answer_of(await client.post("/models/forest/rounds", json=body)) == UNAVAILABLE
            proxy.lose_replies_to = None
            again = (await client.post("/models/forest/rounds", json=body)).json()
            assert (again["status"], again["imported"], again["position"]) == ("duplicate", 0, len(rounds))
            assert again["rounds_seen"] == before + len(rounds)


async def test_a_full_store_is_507_for_more_data_only(tmp_path: Path) -> None:
    """Out of memory, predictions, imports and models get 507 with Retry-After until there is memory again.

    Feedback, activation, changes and deletions go on, and the worker is ready for them.
    """
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


async def test_a_corrupt_snapshot_is_500_for_its_model_only(store_url: str, name: str) -> None:
    """A model with an unreadable snapshot and a trimmed log answers `store-corrupt`; other models work."""
    broken, whole = f"{name}-broken", f"{name}-whole"
    async with worker(store_url) as client:
        await prepare(client, broken)
        await prepare(client, whole)
    with raw(store_url) as store:
        incarnation = store.hget(keys.model(broken), "incarnation")
        assert isinstance(incarnation, bytes)
        store.hset(keys.model(broken), "rounds", 5)  # the first rounds of the log are trimmed
        store.hset(keys.snapshot(broken, incarnation.decode()), mapping={"rounds": 5, "000000": b"nonsense"})
    async with worker(store_url) as client:
        refused = await client.post("/predict", json={"model": broken, "context": X})
        assert answer_of(refused) == Answer(500, "store-corrupt", None)
        assert (await client.post("/predict", json={"model": whole, "context": X})).status_code == 200
