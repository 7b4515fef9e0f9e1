"""The laws of trailers, codings and hosts: each request is read as other servers read it."""

import json

import pytest

from tests.service.commands.connections import answers, each_loop, echo, run, seen, serving, show

LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"

TRAILERS = [b"x-api-key: a", b"x-forwarded-for: 1.2.3.4", b"content-type: a/b", b"host: y", b"x-request-id: a",
            b"upgrade: h2c", b"expect: 100-continue"]  # fmt: skip
FRAMING = [b"connection: close", b"proxy-connection: close", b"content-length: 1", b"transfer-encoding: chunked"]


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
@pytest.mark.parametrize("trailer", FRAMING)
def test_trailers_about_the_connection_are_refused(loop: str, trailer: bytes) -> None:
    """A trailer that would change where requests end gets 400, and nothing after it is read."""

    async def main() -> None:
        async with serving(echo) as server:
            start = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
            for parts in ([start + trailer + b"\r\n\r\n" + LAST], [start, trailer + b"\r\n\r\n" + LAST]):
                assert [status for status, _ in answers(await server.ask(*parts))] == [400]

    run(loop, main)


HEADS = {
    400: [b"", b"host: a\r\nhost: b\r\n", b"host: x\r\nhost: x\r\n", b"host: a b\r\n", b"host: a/b\r\n",
          b"host: a@b\r\n", b"host: [::1\r\n", b"host: a:b\r\n", b"host: \xff\r\n",
          b"host: x\r\ntransfer-encoding: chunked, chunked\r\n"],
    501: [b"host: x\r\ntransfer-encoding: %b\r\n" % coding
          for coding in (b"gzip, chunked", b"foo, chunked", b"identity, chunked", b", chunked")],
    200: [b"host: \r\n", b"host: a.b:80\r\n", b"host: [::1]:80\r\n", b"host: a_b\r\n",
          b"host: x\r\ntransfer-encoding: Chunked\r\n", b"host: x\r\na: b\r\na: c\r\n"],
}  # fmt: skip


@each_loop
@pytest.mark.parametrize(("status", "head"), [(status, head) for status in HEADS for head in HEADS[status]])
def test_another_server_cannot_read_another_request(loop: str, status: int, head: bytes) -> None:
    """A request has one valid host, and no coding except chunked, or is refused. HTTP/1.0 needs no host."""

    async def main() -> None:
        async with serving(echo) as server:
            request = b"POST / HTTP/1.1\r\nconnection: close\r\n" + head + b"\r\n0\r\n\r\n"
            assert [found for found, _ in answers(await server.ask(request))] in ([status], [status, 400])
            after = [found for found, _ in answers(await server.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" + request))]
            assert after in ([[200, 200], [200, 200, 400]] if status == 200 else [[200]])
            if not head:
                read = await server.ask(request.replace(b"1.1", b"1.0"))
                assert [found for found, _ in answers(read)] == [200]

    run(loop, main)


TARGETS = {
    b"http://x": "/", b"http://x?a=b": "/", b"HTTP://x:80/": "/", b"http://x/a?b": "/a", b"/a": "/a", b"//a": "//a",
}  # fmt: skip


@each_loop
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_may_be_absolute(loop: str, target: bytes) -> None:
    """An absolute target has a path: `/` if it names none."""

    async def main() -> None:
        async with serving(echo) as server:
            request = b"GET " + target + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            assert answers(await server.ask(request)) == seen(("GET", TARGETS[target], ""))

    run(loop, main)


@each_loop
@pytest.mark.parametrize("target", [b"/a#b", b"#", b"http://x#a", b"x:80", b"a", b"http://"])
def test_other_targets_are_refused(loop: str, target: bytes) -> None:
    """A target that is neither a path nor an absolute URL, or has a fragment, gets 400."""

    async def main() -> None:
        async with serving(echo) as server:
            read = await server.ask(b"GET " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n" + LAST)
            assert [status for status, _ in answers(read)] == [400]

    run(loop, main)


@each_loop
@pytest.mark.parametrize("version", [b"0.9", b"2.0", b"1.2", b"3.0", b"9.9"])
def test_other_versions_are_refused(loop: str, version: bytes) -> None:
    """A request of another version of HTTP is not answered as if it were HTTP/1.1."""

    async def main() -> None:
        async with serving(echo) as server:
            read = await server.ask(b"GET /a HTTP/" + version + b"\r\nhost: x\r\n\r\n" + LAST)
            assert [status for status, _ in answers(read)] in ([505], [400])

    run(loop, main)


@each_loop
@pytest.mark.parametrize(("size", "status"), [(40_000, 200), (66_000, 431), (200_000, 431)])
@pytest.mark.parametrize("trailer", [False, True])
def test_what_surrounds_a_body_is_limited_in_one_packet(loop: str, trailer: bool, size: int, status: int) -> None:
    """Trailers and extensions of chunks of more than 64 KiB are refused, although the request is complete."""
    more = b"x" * size
    end = b"1\r\na\r\n0\r\na: " + more + b"\r\n\r\n" if trailer else b"1;" + more + b"\r\na\r\n0\r\n\r\n"

    async def main() -> None:
        async with serving(echo) as server:
            start = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            found = [each for each, _ in answers(await server.ask(start + end + LAST))]
            assert found == ([200, 200] if status == 200 else [status])

    run(loop, main)
