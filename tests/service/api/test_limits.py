"""The laws of limits: requests per key, requests in flight, slow bodies, long answers; and of security headers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import redis
from fastapi import FastAPI
from starlette.exceptions import HTTPException

from service.access.key_admin import IssuedKey, KeyAdmin
from service.api.middleware.body_limit import Pace
from service.api.middleware.observer import SECURITY_HEADERS
from service.api.responses import problems
from service.errors import StoreUnavailableError
from service.store import keys
from service.store.access_tables import ApiKeyTable, RateLimits
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import bearer, key_admin_at
from tests.service.pipelines import in_pipeline, scope_of
from tests.service.sample_models import definition
from tests.service.workers import worker


@pytest.fixture
def admin(store: RedisStore) -> KeyAdmin:
    """Return a key admin for the service's store."""
    return key_admin_at(ApiKeyTable(store.command))


@pytest.fixture
def guarded(store_url: str, runner: asyncio.Runner) -> Iterator[httpx2.AsyncClient]:
    """Run a worker that requires keys."""
    context = worker(store_url, auth="required")
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


def client_of(app: Any) -> httpx2.AsyncClient:
    """Return a client that calls an application without a network."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app, raise_app_exceptions=False), base_url="http://localhost"
    )


# --- requests of a key


async def test_requests_over_the_limit_of_a_key_are_refused(guarded: httpx2.AsyncClient, admin: KeyAdmin) -> None:
    """Requests within a key's limit report what is left; further ones get 429 with a retry time."""
    limited, other = (
        await admin.create("x", ["read"], limit="3/hour"),
        await admin.create("y", ["read"], limit="3/hour"),
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
    assert (await guarded.get("/livez", headers=bearer(limited))).status_code == 200


async def test_workers_share_the_count_of_a_key(store_url: str, admin: KeyAdmin) -> None:
    """Two workers share a key's count, which includes refused requests."""
    key = await admin.create("x", ["read"], limit="2/day")
    async with worker(store_url, auth="required") as one, worker(store_url, auth="required") as other:
        assert (await one.post("/models", json={}, headers=bearer(key))).status_code == 403
        assert (await other.get("/learners", headers=bearer(key))).status_code == 200
        assert (await one.get("/learners", headers=bearer(key))).status_code == 429


async def test_a_key_works_again_in_the_next_window(
    guarded: httpx2.AsyncClient, admin: KeyAdmin, store_url: str
) -> None:
    """The count expires in the store at the end of the window, and then the key may be used again."""
    key = await admin.create("x", ["read"], limit="1/minute")
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 200
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 429
    with redis.Redis.from_url(store_url) as raw:
        (counter,) = raw.keys(f"{keys.RATE_LIMITS}:*{key.id}*")
        assert 0 < raw.ttl(counter) <= 60
        raw.delete(counter)
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 200


async def test_a_key_without_a_limit_is_not_counted(guarded: httpx2.AsyncClient, admin: KeyAdmin) -> None:
    """Answers to a key without a limit have no rate-limit headers."""
    response = await guarded.get("/learners", headers=bearer(await admin.create("x", ["read"])))
    assert not [name for name in response.headers if name.startswith("ratelimit")]


async def test_counting_needs_the_store() -> None:
    """Counting raises `StoreUnavailableError` if the store is unreachable."""
    store = RedisStore("unix:///nowhere/valkey.sock", 1.0)
    with pytest.raises(StoreUnavailableError):
        await RateLimits(store.command).count("0" * 12, "1/second")
    await store.close()


async def test_no_key_is_accepted_without_a_store() -> None:
    """A worker that cannot look up keys answers 503 to every key."""
    async with worker("unix:///nowhere/valkey.sock", auth="required") as client:
        response = await client.get("/learners", headers=bearer(IssuedKey("", f"wk_{'0' * 12}_{'0' * 64}")))
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert (await client.get("/livez")).status_code == 200


# --- requests in flight


async def test_a_full_worker_refuses_requests() -> None:
    """One request over the limit gets 503 with Retry-After; health checks are answered; freed places are used again."""
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
    """Requests without a key have a tenth as many places, at least one; neither kind takes the other's places."""
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


# --- bodies


@pytest.mark.parametrize(
    ("pace", "received", "patience"),
    [
        (Pace(30.0, 5.0, 1000.0), 0, 5.0),
        (Pace(30.0, 5.0, 1000.0), 2500, 7.5),
        (Pace(30.0, 5.0, 1000.0), 10**6, 30.0),
        (Pace(3.0, 5.0, 1000.0), 0, 3.0),
        (Pace(30.0, 5.0, 0.0), 1, 30.0),
    ],
)
def test_patience_grows_with_the_bytes_received(pace: Pace, received: int, patience: float) -> None:
    """A body may take the grace period plus its bytes at the slowest rate, up to the timeout."""
    assert pace.patience(received) == patience


@pytest.mark.parametrize(
    ("method", "path", "patience"),
    [
        ("POST", "/models/m/import", "0.005 s"),
        ("POST", "/v1/models/m/import", "0.005 s"),
        ("POST", "/models/m/clone", "0.1 s"),
        ("PUT", "/models/m/import", "0.1 s"),
    ],
)
async def test_files_must_arrive_twenty_times_as_fast(method: str, path: str, patience: str) -> None:
    """A file to import may be large, so it has more time in all, and less for each byte."""
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
    """Yield a body that stalls in the middle."""
    for _ in range(pieces):
        yield b" "
    await gate.wait()
    yield b"{}"


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in-chunks"])
@pytest.mark.parametrize("path", ["/predict", "/feedback/batch", "/models"])
async def test_a_slow_body_is_refused(store_url: str, declared: bool, path: str) -> None:
    """A body that does not arrive in time is answered with 408, and the connection closes."""
    async with worker(store_url, body_timeout_seconds=0.05) as client:
        headers = {"content-type": "application/json"} | ({"content-length": "10"} if declared else {})
        async with asyncio.timeout(10.0):
            response = await client.post(path, content=dripping(3, asyncio.Event()), headers=headers)
        assert (response.status_code, response.json()["type"]) == (408, "urn:wager:problem:slow-body")
        assert response.headers["connection"] == "close"


async def received_types(headers: list[tuple[bytes, bytes]], *messages: Any) -> list[str]:
    """Return the types of two messages that an application receives through a limit without patience."""
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


async def test_only_the_body_has_a_deadline() -> None:
    """Only the body has a deadline; later messages, here the disconnect, may take longer."""
    body = {"type": "http.request", "body": b"{}", "more_body": False}
    found = await received_types([(b"content-length", b"2")], body, {"type": "http.disconnect"})
    assert found == ["http.request", "http.disconnect"]


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"0")]], ids=["no length", "length 0"])
async def test_a_disconnect_interrupts_no_request_without_a_body(headers: list[tuple[bytes, bytes]]) -> None:
    """The application receives the disconnect itself; a download needs it, because it receives while it sends."""
    assert await received_types(headers, *[{"type": "http.disconnect"}] * 2) == ["http.disconnect"] * 2


async def test_the_distributions_of_a_batch_are_limited(store_url: str, name: str) -> None:
    """The numbers in a batch's distributions, items x labels, are limited; a single distribution is not."""
    async with worker(store_url, max_distribution_numbers=12) as client:
        await client.post("/models", json=definition(name))
        x = [0.6, 0.8, 0.0]
        for items, include, status in [(3, True, 200), (4, True, 422), (4, False, 200)]:
            body = {"model": name, "contexts": [x] * items, "include_distribution": include}
            response = await client.post("/predict/batch", json=body)
            assert response.status_code == status, response.text
        one = {"model": name, "context": x, "include_distribution": True}
        assert (await client.post("/predict", json=one)).status_code == 200


# --- headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/livez", 200), ("GET", "/nothing", 404), ("PUT", "/predict", 405), ("POST", "/predict", 422),
     ("GET", "/docs", 200), ("GET", "/docs/docs.js", 200), ("GET", "/openapi.json", 200), ("GET", "/models/x", 404)],
)  # fmt: skip
async def test_every_answer_has_the_security_headers(
    client: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    """Every answer has each security header once; pages under /docs have their own policy."""
    response = await client.request(method, path)
    assert response.status_code == status
    for name, value in SECURITY_HEADERS.items():
        (found,) = response.headers.get_list(name)
        if not path.startswith("/docs"):
            assert found == value
    assert "server" not in response.headers


async def test_refusals_and_defects_have_the_security_headers(guarded: httpx2.AsyncClient) -> None:
    """Answers of the gate and of FastAPI's outermost layer have the security headers too."""
    refused = await guarded.get("/models")
    app = FastAPI()
    problems.install(app)

    @app.get("/")
    async def broken() -> None:
        raise KeyError

    async with client_of(in_pipeline(app)) as client:
        defect = await client.get("/")
    assert (refused.status_code, defect.status_code) == (401, 500)
    for response in (refused, defect):
        assert response.headers.items() >= {name.lower(): value for name, value in SECURITY_HEADERS.items()}.items()
