"""The laws of connections over sockets: what a client sends is read as HTTP says, and it can read its answers."""

import json

import pytest

from tests.service.commands.connections import answers, each_loop, echo, refuse, run, seen, serving, show

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
    """A request whose head is in one packet is answered with its whole body, and so is the next one."""
    sent, text = BODIES[body]
    first = upgrade(protocol, sent)
    whole = first + LAST

    async def main() -> None:
        async with serving(echo) as server:
            for cut in [0, *range(first.index(b"\r\n\r\n") + 4, len(first) + 20)]:
                read = await server.ask(*filter(None, (whole[:cut], whole[cut:])))
                assert answers(read) == seen(("POST", "/a", text), ("GET", "/last", "")), cut

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
@pytest.mark.parametrize("before", [1, 3])
@pytest.mark.parametrize("wrong", [b"BROKEN\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000])
def test_what_is_refused_is_refused_after_the_answers_before_it(loop: str, before: int, wrong: bytes) -> None:
    """The requests before malformed bytes, or a head that is too long, get their answers first."""

    async def main() -> None:
        async with serving(echo) as server:
            valid = b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % i for i in range(before))
            found = answers(await server.ask(valid + wrong))
            assert found[:before] == seen(*[("GET", f"/{i}", "") for i in range(before)])
            assert [status for status, _ in found[before:]] == [400 if wrong.startswith(b"BROKEN") else 431]

    run(loop, main)


@each_loop
def test_an_answer_after_the_end_of_a_connection_is_dropped(loop: str) -> None:
    """A body that becomes malformed while its request is answered ends the connection, and nothing fails."""

    async def main() -> None:
        async with serving(refuse) as server:
            start = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            found = answers(await server.ask(start + b"no size\r\n"))
            assert [status for status, _ in found] in ([400], [413])

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
            for size in (90_000, 100_000, 1_000_000):
                long = head(size)
                for parts in ([before + long + LAST], [before, long + LAST], [before + long[:-3], long[-3:] + LAST]):
                    got = answers(await server.ask(*filter(None, parts)))
                    assert got in ([*first, (431, "")], first), (size, got)  # who still sends may miss it

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
            for parts in ([start, *[more] * 30], [start + more * 10], [start + more * 30]):
                read = await server.ask(*parts)
                assert [status for status, _ in answers(read)] in ([431], []), len(parts)

    run(loop, main)


TRAILERS = [b"x-api-key: a", b"x-forwarded-for: 1.2.3.4", b"content-type: a/b", b"host: y", b"x-request-id: a",
            b"upgrade: h2c", b"expect: 100-continue"]  # fmt: skip


@each_loop
@pytest.mark.parametrize("trailer", TRAILERS)
@pytest.mark.parametrize("more", [b"", b"connection: upgrade\r\n"])
def test_trailers_are_no_headers(loop: str, trailer: bytes, more: bytes) -> None:
    """No trailer becomes a header or changes what follows, in one packet or in any two."""
    start = b"POST / HTTP/1.1\r\nhost: x\r\n" + more + b"transfer-encoding: chunked\r\n\r\n"
    request = start + b"1\r\na\r\n0\r\n" + trailer + b"\r\n\r\n"
    names = [line.split(b":")[0].decode() for line in start.split(b"\r\n")[1:-2]]

    async def main() -> None:
        async with serving(show) as server:
            for cut in [0, *range(len(start) - 2, len(request) + 2, 3)]:
                read = await server.ask(*filter(None, ((request + LAST)[:cut], (request + LAST)[cut:])))
                assert answers(read) == [(200, json.dumps(each)) for each in (names, ["host", "connection"])], cut

    run(loop, main)


@each_loop
@pytest.mark.parametrize(("size", "status"), [(40_000, 200), (90_000, 431), (200_000, 431)])
@pytest.mark.parametrize("trailer", [False, True])
def test_what_surrounds_a_body_is_limited_in_one_packet(loop: str, trailer: bool, size: int, status: int) -> None:
    """Trailers and extensions of chunks of more than 64 KiB are refused, although the request is complete."""
    more = b"x" * size
    end = b"1\r\na\r\n0\r\na: " + more + b"\r\n\r\n" if trailer else b"1;" + more + b"\r\na\r\n0\r\n\r\n"

    async def main() -> None:
        async with serving(echo) as server:
            start = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            found = [each for each, _ in answers(await server.ask(start + end + LAST))]
            assert found in ([[200, 200]] if status == 200 else [[status], []])

    run(loop, main)


@each_loop
@pytest.mark.parametrize("length", [b"content-length: 8000000\r\n", b"transfer-encoding: chunked\r\n"])
def test_a_client_that_sends_a_refused_body_reads_its_answer(loop: str, length: bytes) -> None:
    """A client that first sends all of a body that the application does not read, reads its answer afterwards."""

    async def main() -> None:
        async with serving(refuse) as server:
            start, end = (b"7a1200\r\n", b"\r\n0\r\n\r\n") if b"chunked" in length else (b"", b"")
            begun = b"POST / HTTP/1.1\r\nhost: x\r\n" + length + b"\r\n" + start
            read = await server.ask(begun, *[b"x" * 1_000_000] * 8, end, LAST)
            assert answers(read) == [(413, "too large"), (413, "too large")]

    run(loop, main)
