"""A service in a separate process that slow clients attack over real sockets."""

import asyncio
import base64
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from service.access.key_admin import IssuedKey
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import bearer, key_admin_at
from tests.service.metrics import scrape
from tests.service.sample_models import definition
from tests.service.wager import Wager, serve

SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()


GUARDED = {"WAGER_AUTH": "required", "WAGER_WEBHOOK_SECRETS": SECRET}


HEAD, GRACE, BODY = 1.0, 0.5, 2.5


IMPATIENT = {
    "WAGER_HEAD_TIMEOUT_SECONDS": str(HEAD),
    "WAGER_BODY_GRACE_SECONDS": str(GRACE),
    "WAGER_BODY_TIMEOUT_SECONDS": str(BODY),
    "WAGER_MAX_REQUESTS_IN_FLIGHT": "10",
    "WAGER_LOG_REQUESTS_PER_SECOND": "10000",
}


X = [0.6, 0.8, 0.0]


COUNT = "wager_http_request_duration_seconds_count"


class Attacked(NamedTuple):
    """A service that requires keys, with a model `m`."""

    wager: Wager
    key: IssuedKey
    log: Path

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
        """Return a client that sends the key, with its own connections."""
        return httpx2.AsyncClient(base_url=self.wager.url, headers=bearer(self.key), timeout=60.0)

    def lines(self) -> list[dict[str, Any]]:
        """Return the parsed log lines."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@contextlib.contextmanager
def attacked(folder: Path, **environment: str) -> Iterator[Attacked]:
    """Run a service with a key and a model `m`."""

    async def set_up(wager: Wager) -> Attacked:
        store = RedisStore(wager.store_url, 10.0)
        key = await key_admin_at(ApiKeyTable(store.command), time.time).create("tests", ["admin"])
        await store.close()
        built = Attacked(wager, key, folder / "wager.log")
        async with built.client() as client:
            assert (await client.post("/models", json=definition("m"))).status_code == 201
        return built

    settings: dict[str, Any] = GUARDED | environment
    with serve(folder, **settings) as wager:
        yield asyncio.run(set_up(wager))


@asynccontextmanager
async def connected(built: Attacked, receive_bytes: int = 0) -> AsyncIterator[socket.socket]:
    """Open a raw connection."""
    with socket.socket() as raw:
        if receive_bytes:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", built.wager.port))
        yield raw


async def rest(raw: socket.socket, drip: bytes = b"", pause: float = 0.1) -> tuple[bytes, float]:
    """Send `drip` repeatedly until the server closes the connection; return what it sent, and the seconds taken."""
    loop, answer, began = asyncio.get_running_loop(), b"", time.monotonic()
    async with asyncio.timeout(60.0):
        while True:
            more = asyncio.ensure_future(loop.sock_recv(raw, 65_536))
            while not (await asyncio.wait([more], timeout=pause))[0]:
                with contextlib.suppress(OSError):
                    await loop.sock_sendall(raw, drip)
            if isinstance(more.exception(), ConnectionResetError) or not more.result():
                return answer, time.monotonic() - began
            answer += more.result()


async def latencies(client: httpx2.AsyncClient, n: int) -> list[float]:
    """Make n predictions, which must succeed; return their sorted latencies in seconds."""
    taken = []
    for _ in range(n):
        began = time.monotonic()
        response = await client.post("/predict", json={"model": "m", "context": X})
        taken.append(time.monotonic() - began)
        assert response.status_code == 200, response.text
    return sorted(taken)


async def counted(client: httpx2.AsyncClient, route: str) -> dict[str, float]:
    """Return the number of a route's POST requests by status."""
    samples = await scrape(client)
    found = {dict(labels)["status"]: n for (name, labels), n in samples.items() if matches(name, labels, route)}
    return {status: n for status, n in found.items() if n}


def matches(name: str, labels: frozenset[tuple[str, str]], route: str) -> bool:
    """Check whether a sample counts POST requests of a route."""
    return name == COUNT and {("method", "POST"), ("route", route)} <= labels
