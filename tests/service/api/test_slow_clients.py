"""The laws of slow, silent and departed clients over real sockets: they affect nobody else.

`tests/service/commands/test_deadlines.py` has the moments of the deadlines, by a clock that the test moves.
"""

import asyncio
import base64
import contextlib
import json
import logging
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import pytest

from service.access.key_admin import IssuedKey
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.access.test_scopes import BODIES
from tests.service.api.http_api import held
from tests.service.api.test_webhooks import SECRET, signed
from tests.service.keyed import bearer, key_admin_at
from tests.service.metrics import scrape
from tests.service.sample_models import definition
from tests.service.threads import Served, in_thread
from tests.service.workers import worker

HEAD, GRACE, BODY = 0.3, 0.3, 1.5
IMPATIENT = {"body_grace_seconds": GRACE, "body_timeout_seconds": BODY, "log_requests_per_second": 10_000}
X = [0.6, 0.8, 0.0]
MODEL = "attacked"
COUNT = "wager_http_request_duration_seconds_count"


class Attacked(NamedTuple):
    """A service that requires keys, with a model."""

    served: Served
    key: IssuedKey

    def head(self, path: str, *more: str, length: int | None = 1000) -> bytes:
        """Return the head of a request with a body: with the key, or with a plausible webhook signature."""
        size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        signature = f"v1,{base64.b64encode(bytes(32)).decode()}"
        own = (
            ["webhook-id: m", f"webhook-timestamp: {time.time():.0f}", f"webhook-signature: {signature}"]
            if path.startswith("/webhooks")
            else [f"authorization: Bearer {self.key.text}"]
        )
        lines = [f"POST {path} HTTP/1.1", "host: x", "content-type: application/json", size, *own, *more]
        return "\r\n".join([*lines, "", ""]).encode()

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.served.url, headers=bearer(self.key), timeout=60.0)


@contextlib.contextmanager
def attacked(store_url: str, **settings: Any) -> Iterator[Attacked]:
    """Run a service that requires keys."""

    async def set_up(served: Served) -> Attacked:
        store = RedisStore(store_url, 10.0)
        key = await key_admin_at(ApiKeyTable(store.command), time.time).create("tests", ["admin"])
        await store.close()
        built = Attacked(served, key)
        async with built.client() as client:
            assert (await client.post("/models", json=definition(MODEL))).status_code in (201, 409)
        return built

    own = {"auth": "required", "webhook_secrets": SECRET, "store_timeout_seconds": 30.0}  # a busy machine may take long
    with in_thread(store_url, **own, **settings) as served:
        yield asyncio.run(set_up(served))


@pytest.fixture(scope="module")
def impatient(store_url: str) -> Iterator[Attacked]:
    with attacked(store_url, **IMPATIENT) as built:
        yield built


@pytest.fixture(scope="module")
def hasty(store_url: str) -> Iterator[Attacked]:
    """Run a service that waits briefly for a head: apart, since a busy machine may take as long."""
    with attacked(store_url, head_timeout_seconds=HEAD, max_requests_in_flight=10, **IMPATIENT) as built:
        yield built


@pytest.fixture(scope="module")
def patient(store_url: str) -> Iterator[Attacked]:
    """Run a service whose deadlines no busy machine misses."""
    with attacked(store_url, log_requests_per_second=10_000) as built:
        yield built


@asynccontextmanager
async def connected(built: Attacked, receive_bytes: int = 0) -> AsyncIterator[socket.socket]:
    """Open a raw connection."""
    with socket.socket() as raw:
        if receive_bytes:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", built.served.port))
        yield raw


async def rest(raw: socket.socket, drip: bytes = b"", pause: float = 0.1) -> tuple[bytes, float]:
    """Send `drip` repeatedly until the server closes the connection; return what it sent, and the seconds taken."""
    loop, answer, began = asyncio.get_running_loop(), b"", time.monotonic()
    while True:
        more = asyncio.ensure_future(loop.sock_recv(raw, 65_536))
        while not (await asyncio.wait([more], timeout=pause))[0]:
            with contextlib.suppress(OSError):
                await loop.sock_sendall(raw, drip)
        if isinstance(more.exception(), ConnectionResetError) or not more.result():
            return answer, time.monotonic() - began
        answer += more.result()


async def counted(client: httpx2.AsyncClient, route: str) -> dict[str, float]:
    """Return the number of a route's POST requests by status."""
    samples, own = await scrape(client), {("method", "POST"), ("route", route)}
    return {dict(labels)["status"]: n for (name, labels), n in samples.items() if name == COUNT and own <= labels and n}


@pytest.mark.parametrize("is_signed", [True, False], ids=["plausible", "unsigned"])
async def test_half_sent_webhooks_do_not_delay_others(store_url: str, name: str, is_signed: bool) -> None:
    """They have places of their own: each one that waits for its body loses its place to a later one."""
    async with worker(store_url, max_requests_in_flight=50, webhook_secrets=SECRET) as client:
        assert (await client.post("/models", json=BODIES["/models"](name))).status_code == 201
        headers = signed(b"{}") if is_signed else {"webhook-id": "m"}
        async with held(client, "/webhooks/feedback", 60, headers) as (begun, slow):
            if is_signed:
                for _ in slow:
                    await begun.acquire()
            else:
                await asyncio.wait(slow)
            for _ in range(20):
                answer = await client.post("/predict", json={"model": name, "context": X})
                assert answer.status_code == 200
            refused = await client.post("/webhooks/feedback", content=b"{}", headers={"webhook-id": "m"})
            assert refused.status_code == 401
            done = [task.result().status_code for task in slow if task.done()]
            assert done == ([408] * len(done) if is_signed else [401] * 60)
            assert len(done) >= 55


@pytest.mark.parametrize("length", [1000, None], ids=["declared", "in-chunks"])
@pytest.mark.parametrize("path", ["/predict", "/webhooks/feedback"])
async def test_a_dripping_body_is_refused_in_seconds(impatient: Attacked, path: str, length: int | None) -> None:
    drip = b"{" if length else b"1\r\n{\r\n"
    async with connected(impatient) as raw, impatient.client() as client:
        before = (await counted(client, path)).get("408", 0)
        await asyncio.get_running_loop().sock_sendall(raw, impatient.head(path, length=length))
        answer, seconds = await rest(raw, drip)
        while (await counted(client, path)).get("408", 0) == before:
            pass  # it is counted after the answer
    assert seconds >= GRACE * 0.9
    if answer:  # a client still sending at the close may miss the answer
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer.lower()
        assert b"urn:wager:problem:slow-body" in answer


async def test_a_body_above_the_slowest_rate_is_accepted(impatient: Attacked) -> None:
    """It may exceed the grace period, but not the timeout."""
    body = json.dumps({"model": MODEL, "context": X}).encode().ljust(6000)
    async with connected(impatient) as raw:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(raw, impatient.head("/predict", "connection: close", length=len(body)))
        for start in range(0, len(body), 2000):
            await loop.sock_sendall(raw, body[start : start + 2000])
            await asyncio.sleep(GRACE / 2.5)
        answer, _ = await rest(raw)
    assert answer.startswith(b"HTTP/1.1 200 ")
    async with connected(impatient) as raw:
        await asyncio.get_running_loop().sock_sendall(raw, impatient.head("/predict", length=100_000))
        answer, seconds = await rest(raw, b" " * 300)
    assert answer[:13] in {b"HTTP/1.1 408 ", b""}
    assert seconds >= BODY * 0.99


async def test_the_rest_of_a_refused_body_has_a_deadline(hasty: Attacked) -> None:
    head = hasty.head("/predict").replace(b"Bearer wk_", b"Bearer no_")
    async with connected(hasty) as raw:
        await asyncio.get_running_loop().sock_sendall(raw, head + b"{")
        answer, _ = await rest(raw, b"{")
    assert answer.startswith(b"HTTP/1.1 401 ")


async def test_an_unfinished_head_is_given_up(hasty: Attacked) -> None:
    async with connected(hasty) as raw:
        await asyncio.get_running_loop().sock_sendall(raw, b"GET /livez HTTP/1.1\r\nhost: x\r\nx: ")
        answer, seconds = await rest(raw, b"y")
    assert answer[:13] in {b"HTTP/1.1 408 ", b""}  # a client still sending may miss the answer
    assert seconds >= 0.9 * HEAD


async def test_a_client_that_reads_nothing_is_disconnected(hasty: Attacked) -> None:
    """Unread answers hold a place among the requests without a key only briefly."""
    request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with connected(hasty, receive_bytes=4096) as raw, hasty.client() as client:
        await asyncio.get_running_loop().sock_sendall(raw, request * 40)
        for status in (503, 200):  # one such place, and ten for requests with a key
            while (await client.get("/docs")).status_code != status:
                assert (await client.get("/learners")).status_code == 200


def close(raw: socket.socket) -> None:
    raw.close()


def reset(raw: socket.socket) -> None:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


@pytest.mark.parametrize("disconnect", [close, reset])
async def test_a_disconnect_is_not_a_failure(
    patient: Attacked, disconnect: Callable[[socket.socket], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A disconnect causes no traceback and no 500; inside a body it counts as one 499 and is logged once."""
    paths = ("/predict", "/predict/batch", "/feedback", "/models", "/webhooks/feedback")
    whole = json.dumps({"model": MODEL, "context": X}).encode()
    sent = [b"", b"POST", patient.head("/predict")[:-2], patient.head("/predict", length=len(whole)) + whole]
    inside = [patient.head(path, length=n) + b for path in paths for n, b in ((1000, b""), (None, b""), (1000, b"{"))]
    async with patient.client() as client:
        before = {path: (await counted(client, path)).get("499", 0) for path in paths}
        with caplog.at_level(logging.INFO):
            for each in [*sent, *inside]:
                async with connected(patient) as raw:
                    await asyncio.get_running_loop().sock_sendall(raw, each)
                    await client.get("/livez")  # the server reads in between
                    disconnect(raw)
            for path in paths:
                while (await counted(client, path)).get("499", 0) < before[path] + 3:
                    await client.get("/livez")
        after = {path: await counted(client, path) for path in paths}
    assert {path: after[path]["499"] - before[path] for path in paths} == dict.fromkeys(paths, 3)
    assert not any(status >= "500" for statuses in after.values() for status in statuses)
    assert sum(getattr(record, "status", 0) == 499 for record in caplog.records) == len(inside)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
