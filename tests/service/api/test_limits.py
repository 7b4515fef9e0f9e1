"""The laws of limits: requests per key and in flight, slow bodies, files that arrive, open predictions, memory."""

import asyncio
import contextlib
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis
from fastapi import FastAPI
from starlette.exceptions import HTTPException

from service.access.key_admin import IssuedKey, KeyAdmin
from service.api.middleware.body_limit import Pace
from service.api.middleware.observer import SECURITY_HEADERS
from service.api.routes.copies import ArrivingFiles
from service.errors import OverloadedError
from service.store import keys
from service.store.access_tables import ApiKeyTable
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import held, never_ending
from tests.service.keyed import bearer, key_admin_at
from tests.service.metrics import scrape, value
from tests.service.pipelines import in_pipeline, scope_of
from tests.service.sample_models import UNIFORM, definition
from tests.service.workers import START, Clock, worker


@pytest.fixture
def admin(store: RedisStore) -> KeyAdmin:
    return key_admin_at(ApiKeyTable(store.command))


@pytest.fixture
def guarded(store_url: str, runner: asyncio.Runner) -> Iterator[httpx2.AsyncClient]:
    context = worker(store_url, auth="required")
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


def client_of(app: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app, raise_app_exceptions=False), base_url="http://localhost"
    )


async def test_requests_over_the_limit_of_a_key_are_refused(guarded: httpx2.AsyncClient, admin: KeyAdmin) -> None:
    limited, other = (
        await admin.create("x", ["read"], budgets={"requests": "3/hour"}),
        await admin.create("y", ["read"], budgets={"requests": "3/hour"}),
    )
    for left in (2, 1, 0):
        response = await guarded.get("/learners", headers=bearer(limited))
        assert response.status_code == 200
        assert response.headers["ratelimit-policy"] == '"key";q=3;w=3600'
        assert response.headers["ratelimit"].partition(";t=")[0] == f'"key";r={left}'
    for _ in range(2):
        refused = await guarded.get("/learners", headers=bearer(limited))
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:wager:problem:rate-limited")
        assert refused.headers["ratelimit"].startswith('"key";r=0;t=')
        assert 3500 < int(refused.headers["retry-after"]) <= 3600
    assert (await guarded.get("/learners", headers=bearer(other))).status_code == 200
    free = await guarded.get("/learners", headers=bearer(await admin.create("x", ["read"])))
    assert not [name for name in free.headers if name.startswith("ratelimit")]
    assert (await guarded.get("/livez", headers=bearer(limited))).status_code == 200


async def test_workers_share_the_count_of_a_key(store_url: str, admin: KeyAdmin) -> None:
    key = await admin.create("x", ["read"], budgets={"requests": "2/day"})
    async with worker(store_url, auth="required") as one, worker(store_url, auth="required") as other:
        assert (await one.post("/models", json={}, headers=bearer(key))).status_code == 403
        assert (await other.get("/learners", headers=bearer(key))).status_code == 200
        assert (await one.get("/learners", headers=bearer(key))).status_code == 429


async def test_a_key_works_again_in_the_next_window(
    guarded: httpx2.AsyncClient, admin: KeyAdmin, store_url: str
) -> None:
    key = await admin.create("x", ["read"], budgets={"requests": "1/minute"})
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 200
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 429
    with redis.Redis.from_url(store_url) as raw:
        (counter,) = raw.keys(f"{keys.RATE_LIMITS}:*{key.id}*")
        assert 0 < raw.ttl(counter) <= 60
        raw.delete(counter)
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 200


async def test_no_key_is_accepted_without_a_store() -> None:
    async with worker("unix:///nowhere/valkey.sock", auth="required") as client:
        response = await client.get("/learners", headers=bearer(IssuedKey("", f"wk_{'0' * 12}_{'0' * 64}")))
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert (await client.get("/livez")).status_code == 200


async def test_a_full_worker_refuses_requests() -> None:
    app, gate, inside = FastAPI(), asyncio.Event(), asyncio.Semaphore(0)

    @app.get("/wait")
    async def wait() -> None:
        inside.release()
        await gate.wait()

    @app.get("/livez")
    async def livez() -> None:
        pass

    async with client_of(in_pipeline(app, in_flight=2)) as client:
        waiting = [asyncio.create_task(client.get("/wait")) for _ in range(2)]
        for _ in waiting:
            await inside.acquire()
        refused = await client.get("/wait")
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:wager:problem:too-busy")
        assert refused.headers["retry-after"] == "1"
        assert (await client.get("/livez")).status_code == 200
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        gate.set()
        assert (await waiting[1]).status_code == 200
        assert [(await client.get("/wait")).status_code for _ in range(3)] == [200] * 3


async def test_requests_without_a_key_have_separate_places() -> None:
    gate, inside = asyncio.Event(), asyncio.Semaphore(0)

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        if scope["query_string"]:
            inside.release()
            await gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    for most, own in ((1, 1), (9, 1), (30, 3)):
        gate.clear()
        async with client_of(in_pipeline(app, in_flight=most)) as client:
            for path, places in (("/webhooks/feedback", own), ("/predict", most)):
                waiting = [asyncio.create_task(client.post(f"{path}?wait")) for _ in range(places)]
                for _ in waiting:
                    await inside.acquire()
                assert (await client.post(path)).status_code == 503
                assert (await client.post(f"/v1{path}")).status_code == 503
                other = "/predict" if path != "/predict" else "/docs"
                assert (await client.post(other)).status_code == 200
                gate.set()
                assert {(await each).status_code for each in waiting} == {200}
                gate.clear()


@pytest.mark.parametrize(("method", "path", "patience"), [
    ("POST", "/models/m/import", "0.005 s"), ("POST", "/v1/models/m/import", "0.005 s"),
    ("POST", "/models/m/clone", "0.1 s"), ("PUT", "/models/m/import", "0.1 s"),
])  # fmt: skip
async def test_files_must_arrive_twenty_times_as_fast(method: str, path: str, patience: str) -> None:
    messages, answers = [{"type": "http.request", "body": bytes(100), "more_body": True}], []

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        while True:
            await receive()

    async def send(message: Any) -> None:
        answers.append(message)

    scope = scope_of(method, path, [(b"content-length", b"1000")])
    with pytest.raises(HTTPException, match=f"incomplete after {patience}: 100 bytes"):
        await in_pipeline(app, Pace(1000.0, 0.0, 1000.0))(scope, receive, send)


async def dripping(pieces: int, gate: asyncio.Event) -> AsyncIterator[bytes]:
    for _ in range(pieces):
        yield b" "
    await gate.wait()
    yield b"{}"


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in-chunks"])
@pytest.mark.parametrize("path", ["/predict", "/feedback/batch", "/models"])
async def test_a_slow_body_is_refused(store_url: str, declared: bool, path: str) -> None:
    async with worker(store_url, body_timeout_seconds=0.05) as client:
        headers = {"content-type": "application/json"} | ({"content-length": "10"} if declared else {})
        async with asyncio.timeout(10.0):
            response = await client.post(path, content=dripping(3, asyncio.Event()), headers=headers)
        assert (response.status_code, response.json()["type"]) == (408, "urn:wager:problem:slow-body")
        assert response.headers["connection"] == "close"


async def received_types(headers: list[tuple[bytes, bytes]], *messages: Any) -> list[str]:
    left, types = list(messages), []

    async def receive() -> Any:
        if len(left) == 1:
            for _ in range(5):  # loop iterations in which a timeout would fire
                await asyncio.sleep(0)
        return left.pop(0)

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        types.extend([(await receive())["type"], (await receive())["type"]])

    async def send(_message: Any) -> None:
        pass

    await in_pipeline(app, Pace(0.0, 0.0, 0.0))(scope_of("POST", "/predict", headers), receive, send)
    return types


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"0")]], ids=["no length", "length 0"])
async def test_a_disconnect_interrupts_no_request_without_a_body(headers: list[tuple[bytes, bytes]]) -> None:
    """The application receives the disconnect itself, and only a body has a deadline."""
    assert await received_types(headers, *[{"type": "http.disconnect"}] * 2) == ["http.disconnect"] * 2
    body = {"type": "http.request", "body": b"{}", "more_body": False}
    found = await received_types([(b"content-length", b"2")], body, {"type": "http.disconnect"})
    assert found == ["http.request", "http.disconnect"]


async def test_the_distributions_of_a_batch_are_limited(store_url: str, name: str) -> None:
    async with worker(store_url, max_distribution_numbers=12) as client:
        await client.post("/models", json=definition(name))
        x = [0.6, 0.8, 0.0]
        for items, include, status in [(3, True, 200), (4, True, 422), (4, False, 200)]:
            body = {"model": name, "contexts": [x] * items, "include_distribution": include}
            response = await client.post("/predict/batch", json=body)
            assert response.status_code == status, response.text
        one = {"model": name, "context": x, "include_distribution": True}
        assert (await client.post("/predict", json=one)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/livez", 200), ("GET", "/nothing", 404), ("PUT", "/predict", 405), ("POST", "/predict", 422),
     ("GET", "/docs", 200), ("GET", "/docs/docs.js", 200), ("GET", "/openapi.json", 200), ("GET", "/models/x", 404)],
)  # fmt: skip
async def test_every_answer_has_the_security_headers(
    client: httpx2.AsyncClient, guarded: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await client.request(method, path)
    assert response.status_code == status
    for name, wanted in SECURITY_HEADERS.items():
        (found,) = response.headers.get_list(name)
        if not path.startswith("/docs"):
            assert found == wanted
    assert "server" not in response.headers
    refused = await guarded.get("/models")
    assert refused.status_code == 401
    assert refused.headers.items() >= {name.lower(): wanted for name, wanted in SECURITY_HEADERS.items()}.items()


MOST = 10


async def test_slow_bodies_lose_their_places(store_url: str, name: str) -> None:
    """If slow bodies hold all places, a complete request still gets one; the oldest slow body is answered with 408."""
    async with worker(store_url, max_requests_in_flight=MOST) as client:
        assert (await client.post("/models", json=definition(name))).status_code == 201
        async with held(client, "/predict", MOST) as (begun, slow):
            for _ in slow:
                await begun.acquire()
            for _ in range(3):
                answer = await client.post("/predict", json={"model": name, "context": [1.0, 0.0, 0.0]})
                assert answer.status_code == 200
            lost = [task for task in slow if task.done()]
            assert lost == slow[: len(lost)]
            assert 1 <= len(lost) <= 3
            problems = {(task.result().status_code, task.result().json()["type"]) for task in lost}
            assert problems == {(408, "urn:wager:problem:slow-body")}


@pytest.mark.parametrize("path", ["/models", "/metrics"])
async def test_requests_without_a_body_keep_their_places(store_url: str, path: str) -> None:
    async with worker(store_url, max_requests_in_flight=1) as client:
        answers: list[httpx2.Response] = await asyncio.gather(*(client.get(path) for _ in range(5)))
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert 200 in {answer.status_code for answer in answers}


@pytest.mark.parametrize(("method", "path"), [("DELETE", ""), ("POST", "/reset"), ("POST", "/snapshots"), ("GET", "")])
async def test_what_loses_its_place_had_no_effect(store_url: str, name: str, method: str, path: str) -> None:
    async with worker(store_url, max_requests_in_flight=1) as client:
        created = await client.post("/models", json=definition(name))
        begun = asyncio.Semaphore(0)
        headers = {"if-match": created.headers["etag"], "content-type": "application/json"}
        slow = client.request(method, f"/models/{name}{path}", content=never_ending(begun), headers=headers)
        task = asyncio.create_task(slow)
        await begun.acquire()
        for _ in range(20):  # needs no place
            assert (await client.get("/readyz")).status_code == 200
        assert not task.done()
        seen = await client.get(f"/models/{name}")
        assert (await task).status_code == 408
        assert seen.status_code == 200
        assert seen.headers["etag"] == created.headers["etag"]


X = [0.6, 0.8, 0.0]
FULL = (429, "urn:wager:problem:open-predictions-full")


async def predict(client: httpx2.AsyncClient, model: str, **fields: object) -> httpx2.Response:
    return await client.post("/predict", json={"model": model, "context": X} | fields)


async def test_a_model_with_too_many_open_bytes_is_429_until_feedback(store_url: str, name: str) -> None:
    limited: dict[str, Any] = {"max_open_bytes": 1000, "metrics_models": name}
    clock = time.time  # no earlier than the store's own: bytes no longer count when keys have expired
    async with worker(store_url, clock, **limited) as client, worker(store_url, clock, **limited) as other:
        for each in (name, f"{name}-2"):
            await client.post("/models", json=definition(each, learner=UNIFORM))
        first = (await predict(client, name, prediction_id="first")).json()
        stored = [first["prediction_id"]]
        answers = [await predict(other, name) for _ in range(1000 // 160)]
        stored += [each.json()["prediction_id"] for each in answers if each.status_code == 200]
        response = answers[-1]
        assert (response.status_code, response.json()["type"]) == FULL
        assert response.headers["retry-after"] == "10"
        assert name in response.json()["detail"]
        assert "field" not in response.json()
        assert (await predict(client, name, prediction_id="first")).json() == first
        assert (await predict(client, f"{name}-2")).status_code == 200
        samples = await scrape(client)
        assert 1000 - 1000 / len(stored) < value(samples, "wager_open_predictions_bytes", model=name) <= 1000
        assert value(samples, "wager_predictions_refused_total", model=name) == 1 + 1000 // 160 - len(stored)
        assert value(samples, "wager_predictions_total", model=name) == len(stored)
        for id_ in stored:
            answer = await client.post("/feedback", json={"prediction_id": id_, "correct": True})
            assert answer.json()["status"] == "recorded"
        assert value(await scrape(client), "wager_open_predictions_bytes", model=name) == 0
        assert (await predict(client, name)).status_code == 200


async def test_a_batch_stores_the_blocks_that_fit(store_url: str, name: str) -> None:
    async with worker(store_url, max_open_bytes=40_000, metrics_models=name) as client:
        await client.post("/models", json=definition(name, learner=UNIFORM))
        body = {"model": name, "contexts": [X] * 500}
        answers = (await client.post("/predict/batch", json=body)).json()["predictions"]
        refused = [(each.get("status"), each["type"]) for each in answers if "type" in each]
        stored = [each["prediction_id"] for each in answers if "type" not in each]
        assert 0 < len(stored) < 500
        assert set(refused) == {FULL}
        assert answers[: len(stored)] == [each for each in answers if "type" not in each]
        feedback = [{"prediction_id": id_, "correct": True} for id_ in stored]
        results = (await client.post("/feedback/batch", json={"feedback": feedback})).json()["results"]
        assert {each["status"] for each in results} == {"recorded"}
        assert value(await scrape(client), "wager_open_predictions_bytes", model=name) == 0


async def test_a_full_embedded_store_lives_on(tmp_path: Path) -> None:
    size, limit = 2**15, 2**24
    features = {"kind": "dense", "size": size, "norm": "none", "intercept": False}
    labels = [f"label-{number}" for number in range(30)]
    with EmbeddedServer(tmp_path, memory=limit) as server:
        pid = server.pid
        async with worker(server.url) as client:
            body = definition("m", labels=labels, features=features, learner={"algorithm": "uniform"})
            assert (await client.post("/models", json=body)).status_code == 201
            answers = [await predict(client, "m", context=[0.5] * size, top=20) for _ in range(80)]
            stored = [answer.json()["slots"] for answer in answers if answer.status_code == 200]
            assert {answer.status_code for answer in answers} == {200, 507}
            assert len(stored) > 10
            first = {"prediction_id": stored[0][0]["prediction_id"], "correct": True}
            assert (await client.post("/feedback", json=first)).json()["status"] == "recorded"
            assert (await client.get("/readyz")).status_code == 200
            assert value(await scrape(client), "wager_store_memory_bytes") < 1.25 * limit
            assert (await client.delete("/models/m")).status_code == 204
        assert server.pid == pid


FILE = {"content-type": "application/octet-stream"}
SLOW = 20


def importing(
    client: httpx2.AsyncClient, name: str, content: AsyncIterator[bytes] | bytes, key: IssuedKey | None
) -> Coroutine[Any, Any, httpx2.Response]:
    headers = FILE | ({} if key is None else bearer(key))
    return client.post(f"/models/{name}/import", content=content, headers=headers)


@pytest.mark.parametrize("who", ["another key", "the same key", "no key"])
async def test_slow_files_keep_nobody_waiting(store_url: str, store: RedisStore, name: str, who: str) -> None:
    admin = key_admin_at(ApiKeyTable(store.command), Clock(START))
    one, two = [await admin.create("k", ["admin"]) for _ in range(2)]
    slow_key, other = {"another key": (one, two), "the same key": (one, one), "no key": (None, None)}[who]
    auth = "off" if other is None else "required"
    async with worker(store_url, auth=auth, body_grace_seconds=600.0, body_timeout_seconds=600.0) as client:
        headers = {} if other is None else bearer(other)
        assert (await client.post("/models", json=definition(name), headers=headers)).status_code == 201
        file = (await client.get(f"/models/{name}/export", headers=headers)).content
        begun = asyncio.Semaphore(0)
        slow = [
            asyncio.create_task(importing(client, f"{name}-slow-{i}", never_ending(begun), slow_key))
            for i in range(SLOW)
        ]
        async with asyncio.timeout(60.0):
            for _ in slow:
                await begun.acquire()
            assert (await importing(client, f"{name}-copy", file, other)).status_code == 201
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)


class Uploads:
    def __init__(self, most_bytes: int) -> None:
        self.clock = Clock()
        self.files = ArrivingFiles(most_bytes, self.clock)
        self.imported: list[tuple[str | None, bytes]] = []
        self._queues: dict[asyncio.Task[str], asyncio.Queue[bytes | None]] = {}
        self.may_end = asyncio.Event()
        self.may_end.set()

    def begin(self, owner: str | None) -> asyncio.Task[str]:
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        task = asyncio.create_task(self._arrive(owner, parts))
        self._queues[task] = parts
        return task

    async def send(self, task: asyncio.Task[str], *sizes: int, end: bool = False) -> None:
        for size in sizes:
            self._queues[task].put_nowait(bytes(size))
        if end:
            self._queues[task].put_nowait(None)
        await settled()

    async def _arrive(self, owner: str | None, parts: asyncio.Queue[bytes | None]) -> str:
        async def arriving() -> AsyncIterator[bytes]:
            while (part := await parts.get()) is not None:
                yield part

        try:
            async with self.files.whole(owner, arriving()) as file:
                self.imported.append((owner, bytes(file)))
                await self.may_end.wait()
        except OverloadedError:
            return "lost"
        return "imported"


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def states(tasks: Sequence[asyncio.Task[str]]) -> list[str]:
    return [task.result() if task.done() else "waits" for task in tasks]


async def ended(tasks: Sequence[asyncio.Task[str]]) -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_key_imports_one_file_at_a_time() -> None:
    uploads = Uploads(1000)
    uploads.may_end.clear()
    tasks = [uploads.begin(owner) for owner in ("a", "a", "b", None, None)]
    for task, size in zip(reversed(tasks), range(1, 6), strict=True):
        await uploads.send(task, size, end=True)
    assert [(owner, len(file)) for owner, file in uploads.imported] == [(None, 1), ("b", 3), ("a", 4)]
    uploads.may_end.set()
    await settled()
    assert states(tasks) == ["imported"] * 5
    assert [len(file) for _, file in uploads.imported] == [1, 3, 4, 2, 5]


async def test_a_file_that_is_lost_says_so_and_frees_its_bytes() -> None:
    uploads = Uploads(100)
    uploads.may_end.clear()
    running = uploads.begin("a")
    await uploads.send(running, 80, end=True)
    alone = uploads.begin("b")
    await uploads.send(alone, 20)
    assert states([running, alone]) == ["waits"] * 2
    await uploads.send(alone, 1)
    assert states([running, alone]) == ["waits", "lost"]
    gone = uploads.begin("b")
    await uploads.send(gone, 15)
    await ended([gone])
    uploads.may_end.set()
    await settled()
    whole = uploads.begin("c")
    await uploads.send(whole, 60, 40, end=True)
    assert states([running, whole]) == ["imported"] * 2


@pytest.mark.parametrize("seed", range(4))
async def test_a_key_with_less_than_half_of_its_share_loses_nothing(seed: int) -> None:
    rng, uploads, owners = random.Random(seed), Uploads(800), ("a", "b", "c")
    tasks: list[asyncio.Task[str]] = []
    modest = uploads.begin("modest")
    for _ in range(200):
        owner = rng.choice(owners)
        if rng.random() < 0.3:
            tasks.append(uploads.begin(owner))
        elif tasks:
            await uploads.send(rng.choice(tasks), rng.randrange(100), end=rng.random() < 0.1)
        uploads.clock.now += rng.random()
        if rng.random() < 0.3:
            await uploads.send(modest, 1)
    await uploads.send(modest, end=True)
    assert states([modest]) == ["imported"]
    await ended(tasks)
    whole = uploads.begin("modest")
    await uploads.send(whole, 800, end=True)
    assert states([whole]) == ["imported"]  # nothing else counts any more


async def test_files_have_limited_memory() -> None:
    mebibyte = 2**20
    uploads = Uploads(4 * mebibyte)
    tracemalloc.start()
    try:
        tasks = [uploads.begin(owner) for owner in "abcdefghij" * 4]
        for task in tasks:
            for _ in range(16):
                if not task.done():  # what a lost file does not read would stay in its queue
                    await uploads.send(task, mebibyte // 16)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 3 * mebibyte < held < 6 * mebibyte
    await ended(tasks)
