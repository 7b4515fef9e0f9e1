"""The laws of the open loop, the closed loop and their HTTP client."""

import asyncio
import itertools
import time

import pytest

from tests.servers import free_port
from tests.toolkit.load.world_server import Reply, conversing, serving
from toolkit.load.client import Answer, Client, LoadError, Target
from toolkit.load.loops import Pace, Requests, closed_loop, open_loop
from toolkit.load.timing import Pacer

STALL = 0.5  # seconds
RATE = 400.0
ENDLESS = Requests("POST", "/predict", itertools.repeat(b"{}"))


class Staller:
    """A server that blocks the event loop for `STALL` seconds at its 50th request."""

    def __init__(self) -> None:
        self.requests = 0

    async def answer(self, _method: str, _path: str, _body: bytes) -> Reply:
        """Answer one request."""
        self.requests += 1
        if self.requests == 50:
            time.sleep(STALL)  # noqa: ASYNC251 - the fault itself; it blocks the driver too, as on a small machine
        return 200, {}


class HoldingServer:
    """A server that holds all answers from its 50th request on, for `STALL` seconds."""

    def __init__(self) -> None:
        self.requests = 0
        self.go_on = asyncio.Event()

    async def answer(self, _method: str, _path: str, _body: bytes) -> Reply:
        """Answer one request."""
        self.requests += 1
        if self.requests == 50:
            asyncio.get_running_loop().call_later(STALL, self.go_on.set)
        if self.requests >= 50:
            await self.go_on.wait()
        return 200, {}


async def test_the_open_loop_measures_a_stall() -> None:
    """In the open loop, the latency of every request due during a stall includes the wait."""
    async with serving(HoldingServer().answer) as url, Client(Target.parse(url), 4) as client:
        measured, _ = await open_loop(client, ENDLESS, Pace(RATE, seconds=1.0, seed=1))
    assert measured.due == len(measured.latency) == pytest.approx(RATE, rel=0.2)
    # Half of the roughly 200 requests due during the stall waited for more than half of it.
    assert measured.latency.percentile(100 - 100 * 0.8 * RATE * STALL / 2 / measured.due) > STALL / 2
    assert measured.latency.percentile(99) > 0.9 * STALL
    assert measured.latency.greatest >= STALL
    assert measured.not_sent == measured.no_answer == measured.refused == 0


async def test_the_closed_loop_hides_the_same_stall() -> None:
    """In the closed loop only one request per connection sees the stall, so its latencies are not those of users."""
    requests = Requests("POST", "/predict", itertools.repeat(b"{}", 1000))
    async with serving(HoldingServer().answer) as url, Client(Target.parse(url), 4) as client:
        measured = await closed_loop(client, requests.encoded(client.target), connections=4)
    assert measured.due == measured.answered == len(measured.latency) == 1000
    assert measured.latency.percentile(99) < STALL / 2
    assert measured.latency.greatest >= STALL


async def test_a_blocked_driver_does_not_hide_a_stall() -> None:
    """If the driver itself was blocked, latencies count from the due time, and the driver's lag is reported."""
    async with serving(Staller().answer) as url, Client(Target.parse(url), 4) as client:
        measured, lag = await open_loop(client, ENDLESS, Pace(RATE, seconds=1.0, seed=1))
    assert measured.latency.percentile(95) > STALL / 2
    assert lag.greatest > STALL / 2


async def test_requests_over_the_bound_are_counted_and_not_sent() -> None:
    """Requests beyond the in-flight bound are not sent but counted: due = answered + not sent."""
    server = HoldingServer()
    async with serving(server.answer) as url, Client(Target.parse(url), 4) as client:
        measured, _ = await open_loop(client, ENDLESS, Pace(RATE, seconds=1.0, in_flight=10, seed=1))
    assert measured.not_sent > 0.5 * RATE * STALL
    assert measured.due == measured.not_sent + len(measured.latency)
    assert server.requests == len(measured.latency)


async def test_the_warm_up_is_not_measured() -> None:
    """Requests of the warm-up are sent but not measured."""
    kept: list[bytes] = []

    async def answer(_method: str, _path: str, body: bytes) -> Reply:
        return 200, body

    bodies = (str(i).encode() for i in itertools.count())
    async with serving(answer) as url, Client(Target.parse(url), 4) as client:
        measured, _ = await open_loop(client, Requests("POST", "/", bodies, kept.append), Pace(RATE, 0.2, warm_up=0.3))
    assert sorted(map(int, kept)) == list(range(len(kept)))
    assert 0 < measured.due < 0.6 * len(kept)
    assert measured.seconds == pytest.approx(0.2)


@pytest.mark.parametrize("status", [429, 500, None])
async def test_failures_have_counts_and_latencies(status: int | None) -> None:
    """Refusals and lost connections have latencies and separate counts, and do not count as answered."""

    async def answer(_method: str, _path: str, _body: bytes) -> Reply:
        return None if status is None else (status, {})

    requests = Requests("POST", "/", itertools.repeat(b"{}", 20))
    async with serving(answer) as url, Client(Target.parse(url), 4) as client:
        measured = await closed_loop(client, requests.encoded(client.target), connections=4)
    assert (measured.no_answer, measured.refused) == ((20, 0) if status is None else (0, 20))
    assert measured.answered == 0
    assert len(measured.latency) == 20


async def test_a_request_ends_at_its_timeout() -> None:
    """A request without an answer ends at the timeout, both on a connection and in the queue for one."""
    never = asyncio.Event()

    async def answer(_method: str, _path: str, _body: bytes) -> Reply:
        await never.wait()
        return 200, {}

    async with serving(answer) as url, Client(Target.parse(url), connections=1, timeout=0.1) as client:
        answers = await asyncio.gather(*(client.call("GET", "/") for _ in range(3)))
    assert answers == [Answer(0, b"")] * 3


async def test_connections_are_reused() -> None:
    """Hundreds of requests reuse the connections opened first."""
    opened = 0

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        while await reader.read(1000):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with conversing(converse) as url, Client(Target.parse(url), connections=3) as client:
        requests = Requests("POST", "/", itertools.repeat(b"{}", 300))
        await closed_loop(client, requests.encoded(client.target), connections=3)
    assert opened == 3


async def test_invalid_http_counts_as_no_answer() -> None:
    """An answer that is not valid HTTP counts as no answer, and the next request opens a new connection."""
    answers = iter([b"what?\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"])

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            writer.write(next(answers))

    async with conversing(converse) as url, Client(Target.parse(url), connections=1) as client:
        assert await client.call("GET", "/") == Answer(0, b"")
        assert await client.call("GET", "/") == Answer(200, b"ok")


async def test_an_unreachable_server_is_named() -> None:
    """Connecting to a closed port raises an error that names the port."""
    port = free_port()
    with pytest.raises(LoadError, match=f"port {port} does not answer"):
        await Client(Target.parse(f"http://127.0.0.1:{port}"), 2).__aenter__()


def test_a_request_carries_the_key_and_the_prefix() -> None:
    """A request has exactly the expected bytes, with the URL's prefix and the API key."""
    target = Target.parse("http://wager.example:81/v1/", "s3cret")
    assert target.request("POST", "/predict", b"{}") == (
        b"POST /v1/predict HTTP/1.1\r\nhost: wager.example:81\r\nuser-agent: wager-load\r\n"
        b"content-type: application/json\r\nauthorization: Bearer s3cret\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert Target.parse("https://[::1]").port == 443
    assert Target.parse("https://[::1]").tls


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:port", "http://a/?b"])
def test_a_wrong_url_is_refused(url: str) -> None:
    """An invalid URL is refused with an example of a valid one."""
    with pytest.raises(LoadError, match="is not a URL such as"):
        Target.parse(url)


def test_a_key_cannot_break_the_header() -> None:
    """A key with a line break, which would begin another header, is refused."""
    with pytest.raises(LoadError, match="API key"):
        Target.parse("http://host", "a\r\nb: c")


@pytest.mark.parametrize("platform", ["linux", "other"])
async def test_the_pacer_keeps_the_order(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Actions start in order of their due times; actions due at the same time start in the order planned."""
    monkeypatch.setattr("toolkit.load.timing.sys.platform", platform)
    pacer, done, order = Pacer(), asyncio.Event(), list[float]()
    now = time.perf_counter()
    for after in (0.02, 0.0, 0.01, 0.01):
        pacer.at(now + after, order.append)
    pacer.at(now + 0.03, lambda _: done.set())
    pacer.at(now + 60, lambda _: None)
    await done.wait()
    assert [round(due - now, 3) for due in order] == [0.0, 0.01, 0.01, 0.02]
    pacer.stop()
    assert len(pacer.lag) == 5
