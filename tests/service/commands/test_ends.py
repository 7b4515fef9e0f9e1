"""The laws of the end of a connection: a client that still sends can read the last answer."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from starlette.types import Receive, Scope, Send

from service.commands.connections.http_protocol import TimedProtocol
from tests.service.commands.connections import answer, answers, each_loop, refuse, run, serving


@each_loop
@pytest.mark.parametrize("more", [b"connection: close\r\n", b""])
@pytest.mark.parametrize("length", [b"content-length: 8000000\r\n", b"transfer-encoding: chunked\r\n"])
def test_a_refused_body_does_not_reset_the_connection(loop: str, more: bytes, length: bytes) -> None:
    """A client that first sends all of a body that the application does not read, reads its answer afterwards."""

    async def main() -> None:
        async with serving(refuse) as server:
            start, end = (b"7a1200\r\n", b"\r\n0\r\n\r\n") if b"chunked" in length else (b"", b"")
            begun = b"POST / HTTP/1.1\r\nhost: x\r\n" + more + length + b"\r\n" + start
            read = await server.ask(begun, *[b"x" * 1_000_000] * 8, end, eof=not more)
            assert answers(read) == [(413, "too large")]

    run(loop, main)


ENDS: dict[str, Callable[[TimedProtocol], None]] = {
    "connection: close": lambda _: None,
    "HTTP/1.0": lambda _: None,
    "idle": lambda protocol: protocol._expire(),
    "stop": lambda protocol: protocol.shutdown(),
}


@each_loop
@pytest.mark.parametrize("end", ENDS)
def test_a_request_that_crosses_the_end_does_not_cost_the_answer_before_it(loop: str, end: str) -> None:
    """A client that reads slowly, and sends its next request when the server has closed, reads its answer whole."""
    long, more = b"x" * 8_000_000, b"connection: close\r\n" if "close" in end else b""
    request = b"GET / HTTP/" + (b"1.0" if end == "HTTP/1.0" else b"1.1") + b"\r\nhost: x\r\n" + more + b"\r\n"

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, 200, long)

    async def main() -> int:
        async with serving(app) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=4096)
            with contextlib.closing(writer):
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                ENDS[end](server.protocols[0])
                for _ in range(3):
                    writer.write(b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
                    await writer.drain()
                    await asyncio.sleep(0)
                return len(await reader.read()) if b"200" in head else 0

    assert run(loop, main) == len(long)
