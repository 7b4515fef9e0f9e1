"""The laws of clients that are slow, silent or gone, over real sockets: they cost themselves, and nobody else."""

import asyncio
import base64
import contextlib
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from service.access.key_admin import IssuedKey
from service.store.redis.api_keys import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import bearer, desk_at
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
    """A service that asks for keys, with a model in it."""

    wager: Wager
    key: IssuedKey
    log: Path

    def head(self, path: str, *more: str, length: int | None = 1000) -> bytes:
        """The head of a request with a body, keyed or plausibly signed."""
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
        """A client with the key, on connections of its own."""
        return httpx2.AsyncClient(base_url=self.wager.url, headers=bearer(self.key), timeout=60.0)

    def lines(self) -> list[dict[str, Any]]:
        """What was logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@contextlib.contextmanager
def attacked(folder: Path, **environment: str) -> Iterator[Attacked]:
    """A running service, its key, and a model `m`."""

    async def set_up(wager: Wager) -> Attacked:
        store = RedisStore(wager.store_url, 10.0)
        key = await desk_at(ApiKeyTable(store.command), time.time).create("tests", ["admin"])
        await store.close()
        built = Attacked(wager, key, folder / "wager.log")
        async with built.client() as client:
            assert (await client.post("/models", json=definition("m"))).status_code == 201
        return built

    settings: dict[str, Any] = GUARDED | environment
    with serve(folder, **settings) as wager:
        yield asyncio.run(set_up(wager))


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A service with short deadlines, for the laws of slowness."""
    with attacked(tmp_path_factory.mktemp("impatient"), **IMPATIENT) as built:
        yield built


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Attacked]:
    """A service as it is by default, but for its keys and secrets."""
    with attacked(tmp_path) as built:
        yield built


@asynccontextmanager
async def connected(built: Attacked, receive_bytes: int = 0) -> AsyncIterator[socket.socket]:
    """A raw connection."""
    with socket.socket() as raw:
        if receive_bytes:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", built.wager.port))
        yield raw


async def rest(raw: socket.socket, drip: bytes = b"", pause: float = 0.1) -> tuple[bytes, float]:
    """Everything until the server closes the connection, and the seconds until then; drips while it waits."""
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
    """The sorted seconds of n predictions, each of which must be answered."""
    taken = []
    for _ in range(n):
        began = time.monotonic()
        response = await client.post("/predict", json={"model": "m", "context": X})
        taken.append(time.monotonic() - began)
        assert response.status_code == 200, response.text
    return sorted(taken)


# --- clients without a key


@pytest.mark.parametrize("signed", [True, False], ids=["plausible", "unsigned"])
async def test_half_sent_webhooks_hold_up_nobody(patient: Attacked, signed: bool) -> None:
    """While 1,100 webhooks wait for their bodies, keyed predictions are answered nearly as fast as before."""
    head = patient.head("/webhooks/feedback")
    if not signed:
        head = head.replace(b"webhook-signature", b"x-signature")
    async with contextlib.AsyncExitStack() as attack, patient.client() as client:
        await latencies(client, 100)
        quiet = (await latencies(client, 200))[-3]
        for _ in range(1100):
            raw = await attack.enter_async_context(connected(patient))
            await asyncio.get_running_loop().sock_sendall(raw, head + b'{"prediction_id":')
        under_attack = (await latencies(client, 200))[-3]
        assert under_attack <= max(5.0 * quiet, 0.1)
        headers = (
            {"webhook-id": "m"}
            if not signed
            else dict(line.split(": ") for line in head.decode().splitlines() if line.startswith("webhook-"))
        )
        refused = await client.post("/webhooks/feedback", content=b"{}", headers=headers)
        assert refused.status_code == 401  # it has a place, and a body that is not the signed one
        lost = {"408": 1001.0, "401": 1.0} if signed else {"401": 1101.0}  # each place went to a later webhook
        assert await counted(client, "/webhooks/feedback") == lost


async def counted(client: httpx2.AsyncClient, route: str) -> dict[str, float]:
    """How many POST requests of a route were answered with each status."""
    samples = await scrape(client)
    found = {dict(labels)["status"]: n for (name, labels), n in samples.items() if matches(name, labels, route)}
    return {status: n for status, n in found.items() if n}


def matches(name: str, labels: frozenset[tuple[str, str]], route: str) -> bool:
    """Whether a sample counts POST requests of a route."""
    return name == COUNT and {("method", "POST"), ("route", route)} <= labels


# --- bodies


@pytest.mark.parametrize("length", [1000, None], ids=["declared", "in-chunks"])
@pytest.mark.parametrize("path", ["/predict", "/feedback/batch", "/models", "/webhooks/feedback"])
async def test_a_drip_ends_in_seconds(impatient: Attacked, path: str, length: int | None) -> None:
    """A body that stops, or goes on by a few bytes a second, is answered 408 soon after its grace, and cut off."""
    for drip in (b"", b"{" if length else b"1\r\n{\r\n"):
        async with connected(impatient) as raw, impatient.client() as client:
            before = (await counted(client, path)).get("408", 0)
            await asyncio.get_running_loop().sock_sendall(raw, impatient.head(path, length=length))
            answer, seconds = await rest(raw, drip)
            assert (await counted(client, path))["408"] == before + 1
        assert GRACE * 0.9 <= seconds < BODY
        if answer or not drip:  # who is still sending when the connection is closed may not see it
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"connection: close" in answer.lower()
            assert b"urn:wager:problem:slow-body" in answer


async def test_a_slow_body_that_goes_on_is_waited_for(impatient: Attacked) -> None:
    """A body that is faster than the slowest rate may take longer than the grace, though not than the timeout."""
    body = json.dumps({"model": "m", "context": X}).encode().ljust(3000)
    async with connected(impatient) as raw:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(raw, impatient.head("/predict", "connection: close", length=len(body)))
        for start in range(0, len(body), 300):
            await loop.sock_sendall(raw, body[start : start + 300])
            await asyncio.sleep(0.15)
        answer, _ = await rest(raw)
    assert answer.startswith(b"HTTP/1.1 200 ")
    async with connected(impatient) as raw:
        await asyncio.get_running_loop().sock_sendall(raw, impatient.head("/predict", length=100_000))
        answer, seconds = await rest(raw, b" " * 300)
    assert answer[:13] in {b"HTTP/1.1 408 ", b""}
    assert BODY * 0.99 <= seconds < BODY + 2.0


async def test_the_rest_of_a_refused_body_is_not_waited_for(impatient: Attacked) -> None:
    """What was answered before its body was read has until the end of the body's time, drip or no drip."""
    head = impatient.head("/predict").replace(b"Bearer wk_", b"Bearer no_")
    for drip in (b"", b"{"):
        async with connected(impatient) as raw:
            await asyncio.get_running_loop().sock_sendall(raw, head + b"{")
            answer, seconds = await rest(raw, drip)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert seconds < BODY + 2.0


# --- heads


HEADS: dict[str, tuple[bytes, bytes, bytes]] = {  # what is sent at once, what drips, what is answered
    "nothing": (b"", b"", b""),
    "line ends": (b"", b"\r\n", b""),
    "half a line": (b"GET /li", b"", b"HTTP/1.1 408 "),
    "half a head": (b"GET /livez HTTP/1.1\r\nhost: x\r\n", b"", b"HTTP/1.1 408 "),
    "a head by the byte": (b"GET /livez HTTP/1.1\r\nhost: x\r\nx: ", b"y", b"HTTP/1.1 408 "),
    "an endless header": (b"GET /livez HTTP/1.1\r\nhost: x\r\nx: ", b"y" * 20_000, b"HTTP/1.1 431 "),
    "an endless path": (b"GET /", b"y" * 20_000, b"HTTP/1.1 431 "),
    "endless headers": (b"GET /livez HTTP/1.1\r\n", b"x: y\r\n" * 4_000, b"HTTP/1.1 431 "),
}


@pytest.mark.parametrize("second", [False, True], ids=["first", "behind-another"])
@pytest.mark.parametrize("case", HEADS)
async def test_a_head_has_its_time(impatient: Attacked, case: str, second: bool) -> None:
    """A head that does not end is given up, on a new connection and on one that has served a request."""
    first, drip, answered = HEADS[case]
    if second and not answered:
        pytest.skip("uvicorn's time for idle connections, more than a minute")
    async with connected(impatient) as raw:
        loop = asyncio.get_running_loop()
        if second:
            await loop.sock_sendall(raw, b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
            seen = b""
            while b"alive" not in seen:
                seen += await loop.sock_recv(raw, 65_536)
        await loop.sock_sendall(raw, first)
        answer, seconds = await rest(raw, drip)
    assert answer[:13] == answered or (drip and not answer)  # who still sends may not see it
    assert seconds < HEAD + 2.0


async def test_requests_behind_each_other_are_answered(impatient: Attacked) -> None:
    """Pipelined requests, of which the last comes in pieces, are all answered, in order."""
    request = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    async with connected(impatient) as raw:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(raw, request * 5 + request[:12])
        await asyncio.sleep(0.3)
        await loop.sock_sendall(raw, request[12:-2] + b"connection: close\r\n\r\n")
        answer, seconds = await rest(raw)
    assert answer.count(b"HTTP/1.1 200 ") == 6
    assert seconds < HEAD


# --- readers


async def test_a_reader_that_takes_nothing_is_cut_off(impatient: Attacked) -> None:
    """Answers that nobody reads hold a place among those without a key for a moment only."""
    request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: x\r\n\r\n"
    async with connected(impatient, receive_bytes=4096) as raw, impatient.client() as client:
        await asyncio.get_running_loop().sock_sendall(raw, request * 40)
        async with asyncio.timeout(10 * HEAD):
            for status in (503, 200):  # there is one such place, beside ten of the others
                while (await client.get("/docs")).status_code != status:
                    assert (await client.get("/learners")).status_code == 200
                    await asyncio.sleep(0.05)


# --- clients that are gone


def leave(raw: socket.socket) -> None:
    """Close in an orderly way."""
    raw.close()


def vanish(raw: socket.socket) -> None:
    """Reset the connection."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


@pytest.mark.parametrize("going", [leave, vanish])
async def test_a_client_that_goes_is_no_failure(impatient: Attacked, going: Callable[[socket.socket], None]) -> None:
    """At whatever stage it goes: no traceback, no 500; inside a body, one 499 in the counts and one line."""
    paths = ("/predict", "/predict/batch", "/feedback", "/models", "/webhooks/feedback")
    whole = json.dumps({"model": "m", "context": X}).encode()
    sent = [b"", b"POST", impatient.head("/predict")[:-2]]
    inside = [impatient.head(path, length=n) + b"{" * k for path in paths for n in (1000, None) for k in (0,)]
    inside += [impatient.head(path) + b"{" for path in paths]
    sent += [impatient.head("/predict", length=len(whole)) + whole, b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\n\r\n"]
    async with impatient.client() as client:
        before = {path: (await counted(client, path)).get("499", 0) for path in paths}
        lines = len(impatient.lines())
        for each in [*sent, *inside]:
            async with connected(impatient) as raw:
                await asyncio.get_running_loop().sock_sendall(raw, each)
                await asyncio.sleep(0.05)
                going(raw)
                await asyncio.sleep(0.05)
        after = {path: await counted(client, path) for path in paths}
    assert {path: after[path].get("499", 0) - before[path] for path in paths} == dict.fromkeys(paths, 3)
    assert not any(status >= "500" for statuses in after.values() for status in statuses)
    told = impatient.lines()[lines:]
    assert sum(line.get("status") == 499 for line in told) == len(inside)
    assert not [line for line in told if line["level"] in {"warning", "error"} or "exception" in line]
