"""The laws of connections over sockets: what a client sends is read as HTTP says, and it can read its answers."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.service.commands.connections import answer, answers, each_loop, echo, run, seen, serving

UPGRADES = ["h2c", "websocket", "h2c, websocket", "TLS/1.0", "x\r\nUpgrade: h2c"]
BODIES = {
    "no body": (b"", ""),
    "a body": (b"content-length: 3\r\n\r\nabc", "abc"),
    "chunks": (b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", "abc"),
}
LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def upgrade(protocol: str, body: bytes) -> bytes:
    """Return a request that asks for another protocol."""
    more = f"connection: Upgrade, HTTP2-Settings\r\nupgrade: {protocol}\r\nhttp2-settings: AAMAAABk\r\n"
    return b"POST /a?b=c HTTP/1.1\r\nHost: x\r\n" + more.encode() + (body or b"\r\n")


@each_loop
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("protocol", UPGRADES)
def test_an_upgrade_is_ignored(loop: str, protocol: str, body: str) -> None:
    """The request is answered with its whole body, and so is the next one, in one packet or in any two."""
    sent, text = BODIES[body]
    first = upgrade(protocol, sent)
    whole = first + first + LAST

    async def main() -> None:
        async with serving(echo) as server:
            for cut in [0, 1, 30, *range(len(first) - 40, len(first) + 20)]:
                read = await server.ask(*filter(None, (whole[:cut], whole[cut:])))
                expected = seen(("POST", "/a", text), ("POST", "/a", text), ("GET", "/last", ""))
                assert answers(read) == expected, cut

    run(loop, main)


@each_loop
def test_a_tunnel_is_refused(loop: str) -> None:
    """CONNECT is answered with 400, and nothing after it is read."""

    async def main() -> None:
        async with serving(echo) as server:
            read = await server.ask(b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n" + LAST)
            assert [status for status, _ in answers(read)] == [400]

    run(loop, main)


@each_loop
@pytest.mark.parametrize("count", [1, 3])
def test_half_closed_requests_are_answered(loop: str, count: int) -> None:
    """A client that closes its direction after complete requests gets their answers; then the server closes."""

    async def main() -> None:
        async with serving(late) as server:
            events.append(server.got_eof)
            read = await server.ask(upgrade("h2c", BODIES["a body"][0]) * count, eof=True)
            assert answers(read) == seen(("POST", "/a", "abc")) * count

    events: list[asyncio.Event] = []

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        if count == 1:  # otherwise the server reads on after the first answers only
            await events[0].wait()
        await echo(scope, receive, send)

    run(loop, main)


@each_loop
@pytest.mark.parametrize("size", [0, 20, 60])
def test_half_closed_parts_of_requests_are_dropped(loop: str, size: int) -> None:
    """A client that closes its direction inside a request gets no answer, and the server closes."""

    async def main() -> None:
        async with serving(echo) as server:
            assert (
                await server.ask(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabcd"[:size], eof=True)
                == b""
            )

    run(loop, main)


def head(size: int) -> bytes:
    """Return a request whose headers have about this many bytes."""
    return (
        b"GET / HTTP/1.1\r\nhost: x\r\n"
        + b"".join(b"x%d: %b\r\n" % (i, b"y" * 8000) for i in range(size // 8000))
        + b"\r\n"
    )


@each_loop
@pytest.mark.parametrize("before", [b"", b"GET /first HTTP/1.1\r\nhost: x\r\n\r\n"], ids=["first", "pipelined"])
def test_a_long_head_is_refused(loop: str, before: bytes) -> None:
    """A head over the limit gets 431, however it arrives; one below gets its answer."""

    async def main() -> None:
        async with serving(echo) as server:
            first = seen(("GET", "/first", "")) if before else []
            assert answers(await server.ask(before + head(60_000) + LAST)) == [
                *first, *seen(("GET", "/", ""), ("GET", "/last", "")),
            ]  # fmt: skip
            for size in (72_000, 100_000, 1_000_000):
                long = head(size)
                for parts in ([before + long + LAST], [before, long + LAST], [before + long[:-3], long[-3:] + LAST]):
                    got = answers(await server.ask(*filter(None, parts)))
                    assert got in ([*first, (431, "")], first), (size, got)
                    assert before or got

    run(loop, main)


ENDLESS = {
    "headers": (b"GET / HTTP/1.1\r\n", b"a:\r\n" * 2500),
    "one header": (b"GET / HTTP/1.1\r\na: ", b"b" * 10_000),
    "a path": (b"GET /", b"b" * 10_000),
    "an extension": (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;", b"b" * 10_000),
    "a trailer": (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: ", b"b" * 10_000),
    "lines": (b"\r\n", b"\r\n" * 5000),
}


@each_loop
@pytest.mark.parametrize("name", ENDLESS)
def test_what_is_no_body_is_limited(loop: str, name: str) -> None:
    """Bytes that never become a request or a part of a body end the connection."""

    async def main() -> None:
        async with serving(echo) as server:
            start, more = ENDLESS[name]
            for parts in ([start, *[more] * 30], [start + more * 7], [start + more * 30]):
                read = await server.ask(*parts)
                assert [status for status, _ in answers(read)] == [431], len(parts)

    run(loop, main)


@each_loop
def test_what_follows_a_request_does_not_cost_its_answer(loop: str) -> None:
    """Bytes that are no request close the connection after the answers to those before them."""

    async def main() -> None:
        async with serving(echo) as server:
            good: Any = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
            for bad in (b"\x00\x01\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\n\r\n"):
                read = await server.ask(good * 2 + bad + good)
                assert answers(read) == seen(("GET", "/a", "")) * 2

    run(loop, main)


BROKEN = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\nz\r\n"


@each_loop
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("early", [False, True])
def test_a_broken_body_disconnects_its_request(
    loop: str, before: int, early: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An application that still waits for it, or answers late, writes nothing more; earlier requests are answered."""
    left: list[str] = []

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/last":
            return await echo(scope, receive, send)
        if early:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        while (message := await receive())["type"] != "http.disconnect":
            pass
        left.append(message["type"])
        if not early:
            await send({"type": "http.response.start", "status": 408, "headers": []})
        return await send({"type": "http.response.body", "body": b"late"})

    async def main() -> None:
        async with serving(late) as server:
            read = await server.ask(LAST.replace(b"connection: close\r\n", b"") * before + BROKEN + LAST)
            statuses = [status for status, _ in answers(read)]
            assert statuses == ([200] * before or statuses)
            assert before or early or statuses == [400]
            await asyncio.sleep(0)
            assert b"late" not in read
            assert left == ([] if before else ["http.disconnect"])

    run(loop, main)
    assert not caplog.records


@each_loop
@pytest.mark.parametrize("count", [1, 2, 50, 700])
def test_a_lost_connection_disconnects_what_runs(loop: str, count: int, caplog: pytest.LogCaptureFixture) -> None:
    """The request that is being answered learns that the client left, however many wait for its answer."""

    async def main() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def app(_scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            begun.set()
            assert (await receive())["type"] == "http.disconnect"
            await answer(send, 200, b"too late")
            ended.set()

        async with serving(app) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n" * count)
            await begun.wait()
            server.protocols[0].transport.abort()
            await ended.wait()
            writer.close()

    run(loop, main)
    assert not caplog.records


@each_loop
@pytest.mark.parametrize("parts", [[b""], [b"a", b"", b"bc"], [b"x" * 100_000] * 4], ids=len)
def test_an_older_client_reads_until_the_end(loop: str, parts: list[bytes]) -> None:
    """HTTP/1.0 has no chunks: an answer without a length ends with the connection."""

    async def stream(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"a/b")]})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    async def main() -> None:
        async with serving(stream) as server:
            for more in (b"", b"connection: keep-alive\r\n"):
                read = await server.ask(b"GET /a HTTP/1.0\r\n" + more + b"\r\n")
                head, _, body = read.partition(b"\r\n\r\n")
                assert b"transfer-encoding" not in head
                assert b"connection: close" in head
                assert body == b"".join(parts)
            assert b"100 Continue" not in await server.ask(b"GET /a HTTP/1.0\r\nexpect: 100-continue\r\n\r\n")
            assert b"transfer-encoding: chunked" in await server.ask(LAST)

    run(loop, main)
