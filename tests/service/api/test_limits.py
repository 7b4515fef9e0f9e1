"""The laws of limits: requests of a key, requests in flight, slow bodies, long answers; and headers of every answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import redis
from fastapi import FastAPI

from service.access.key_admin import IssuedKey, KeyAdmin
from service.api.middleware.body_limit import BodyLimit, Pace
from service.api.middleware.in_flight import InFlight
from service.api.responses import problems
from service.api.responses.headers import SECURITY_HEADERS, SecurityHeaders
from service.errors import StoreUnavailableError
from service.store import keys
from service.store.redis.api_keys import ApiKeyTable
from service.store.redis.rate_limits import RateLimits
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import bearer, key_admin_at
from tests.service.sample_models import definition
from tests.service.workers import worker


@pytest.fixture
def admin(store: RedisStore) -> KeyAdmin:
    """Makes keys in the product's store."""
    return key_admin_at(ApiKeyTable(store.command))


@pytest.fixture
def guarded(store_url: str, runner: asyncio.Runner) -> Iterator[httpx2.AsyncClient]:
    """A worker that asks for keys."""
    context = worker(store_url, auth="required")
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


def client_of(app: Any) -> httpx2.AsyncClient:
    """Calls an application without a network."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app, raise_app_exceptions=False), base_url="http://worker"
    )


# --- requests of a key


async def test_a_key_makes_as_many_requests_as_it_may(guarded: httpx2.AsyncClient, admin: KeyAdmin) -> None:
    """So many are answered, with what is left; the next is 429 and says when to come again; others go on."""
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


async def test_workers_count_together(store_url: str, admin: KeyAdmin) -> None:
    """Two workers share the count of a key, refused requests of whatever kind included."""
    key = await admin.create("x", ["read"], limit="2/day")
    async with worker(store_url, auth="required") as one, worker(store_url, auth="required") as other:
        assert (await one.post("/models", json={}, headers=bearer(key))).status_code == 403
        assert (await other.get("/learners", headers=bearer(key))).status_code == 200
        assert (await one.get("/learners", headers=bearer(key))).status_code == 429


async def test_a_new_window_opens(guarded: httpx2.AsyncClient, admin: KeyAdmin, store_url: str) -> None:
    """When the store forgets the count, as it does after the window, the key may ask again; the count does end."""
    key = await admin.create("x", ["read"], limit="1/minute")
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 200
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 429
    with redis.Redis.from_url(store_url) as raw:
        (counter,) = raw.keys(f"{keys.RATE_LIMITS}:*{key.id}*")
        assert 0 < raw.ttl(counter) <= 60
        raw.delete(counter)
    assert (await guarded.get("/learners", headers=bearer(key))).status_code == 200


async def test_a_key_without_a_limit_is_not_counted(guarded: httpx2.AsyncClient, admin: KeyAdmin) -> None:
    """No header speaks of a limit that is not there."""
    response = await guarded.get("/learners", headers=bearer(await admin.create("x", ["read"])))
    assert not [name for name in response.headers if name.startswith("ratelimit")]


async def test_no_count_without_a_store() -> None:
    """A store that is not there is said to be unavailable."""
    store = RedisStore("unix:///nowhere/valkey.sock", 1.0)
    with pytest.raises(StoreUnavailableError):
        await RateLimits(store.command).count("0" * 12, "1/second")
    await store.close()


async def test_keys_without_a_store_are_not_believed() -> None:
    """A worker that cannot look a key up answers 503, whoever asks."""
    async with worker("unix:///nowhere/valkey.sock", auth="required") as client:
        response = await client.get("/learners", headers=bearer(IssuedKey("", f"wk_{'0' * 12}_{'0' * 64}")))
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert (await client.get("/livez")).status_code == 200


# --- requests in flight


async def test_a_full_worker_says_so() -> None:
    """One request more than it takes is 503 with Retry-After; health goes on; a place that is left is taken."""
    app, gate, inside = FastAPI(), asyncio.Event(), asyncio.Semaphore(0)

    @app.get("/wait")
    async def wait() -> None:
        inside.release()
        await gate.wait()

    @app.get("/livez")
    async def livez() -> None:
        pass

    async with client_of(InFlight(app, most=2)) as client:
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


async def test_requests_without_a_key_have_their_own_places() -> None:
    """They fill a tenth as many, at least one, and leave those of the others; the others leave theirs."""
    gate, inside = asyncio.Event(), asyncio.Semaphore(0)

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        if scope["query_string"]:
            inside.release()
            await gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    for most, own in ((1, 1), (9, 1), (30, 3)):
        gate.clear()
        async with client_of(InFlight(app, most=most)) as client:
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
def test_patience_grows_with_what_has_come(pace: Pace, received: int, patience: float) -> None:
    """A body has the grace and as long as its bytes take at the slowest rate, at most the longest time."""
    assert pace.patience(received) == patience


async def dripping(pieces: int, gate: asyncio.Event) -> AsyncIterator[bytes]:
    """A body that stops in the middle."""
    for _ in range(pieces):
        yield b" "
    await gate.wait()
    yield b"{}"


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "in-chunks"])
@pytest.mark.parametrize("path", ["/predict", "/feedback/batch", "/models"])
async def test_a_slow_body_is_not_waited_for(store_url: str, declared: bool, path: str) -> None:
    """A body that does not arrive in time is answered 408, and the connection is to be closed."""
    async with worker(store_url, body_timeout_seconds=0.05) as client:
        headers = {"content-type": "application/json"} | ({"content-length": "10"} if declared else {})
        async with asyncio.timeout(10.0):
            response = await client.post(path, content=dripping(3, asyncio.Event()), headers=headers)
        assert (response.status_code, response.json()["type"]) == (408, "urn:wager:problem:slow-body")
        assert response.headers["connection"] == "close"


async def test_an_answer_may_take_longer_than_a_body() -> None:
    """Only the body has to be in time, not what is done with it: the end of the connection is waited for."""
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Any:
        if len(messages) == 1:
            for _ in range(5):  # turns of the loop in which a time that has run out would be noticed
                await asyncio.sleep(0)
        return messages.pop()

    heard: list[str] = []

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        heard.extend([(await receive())["type"], (await receive())["type"]])

    async def send(_message: Any) -> None:
        pass

    await BodyLimit(app, max_bytes=10, pace=Pace(0.0, 0.0, 0.0))({"type": "http", "headers": []}, receive, send)
    assert heard == ["http.request", "http.disconnect"]


async def test_a_batch_may_not_list_too_much(store_url: str, name: str) -> None:
    """Distributions are bounded by items x labels; without them, only by items; alone, not at all."""
    async with worker(store_url, max_distribution_numbers=12) as client:
        await client.post("/models", json=definition(name))
        x = [0.6, 0.8, 0.0]
        for items, asked, status in [(3, True, 200), (4, True, 422), (4, False, 200)]:
            body = {"model": name, "contexts": [x] * items, "include_distribution": asked}
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
async def test_every_answer_has_the_headers(client: httpx2.AsyncClient, method: str, path: str, status: int) -> None:
    """Each security header is there once, whatever is answered; a page keeps a policy of its own."""
    response = await client.request(method, path)
    assert response.status_code == status
    for name, value in SECURITY_HEADERS.items():
        (there,) = response.headers.get_list(name)
        if not path.startswith("/docs"):
            assert there == value
    assert "server" not in response.headers


async def test_a_refusal_and_a_defect_have_the_headers_too(guarded: httpx2.AsyncClient) -> None:
    """Also what middleware answers, and the 500 that stands outside of all middleware."""
    refused = await guarded.get("/models")
    app = FastAPI()
    problems.install(app)
    app.add_middleware(SecurityHeaders)

    @app.get("/")
    async def broken() -> None:
        raise KeyError

    async with client_of(app) as client:
        defect = await client.get("/")
    assert (refused.status_code, defect.status_code) == (401, 500)
    for response in (refused, defect):
        assert response.headers.items() >= {name.lower(): value for name, value in SECURITY_HEADERS.items()}.items()
