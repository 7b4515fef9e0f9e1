"""A server with `LimitedProtocol` on a real socket, clients that send any bytes, and a loop whose time a test moves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from service.commands.connections import Deadlines, LimitedProtocol

PATIENT = Deadlines(60.0, 1.0)


async def answer(send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    seen = [scope["method"], scope["path"], body.decode("latin-1")]
    await answer(send, 200, json.dumps(seen).encode() + b"\n")


async def show(scope: Scope, receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    await answer(send, 200, json.dumps([name.decode() for name, _ in scope["headers"]]).encode() + b"\n")


async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
    await answer(send, 413, b"too large\n")


class Server:
    def __init__(self, app: ASGIApp, deadlines: Deadlines) -> None:
        self.protocols: list[LimitedProtocol] = []
        self.port = 0
        self._app, self._deadlines = app, deadlines

    def protocol(self) -> LimitedProtocol:
        config = uvicorn.Config(
            self._app, access_log=False, server_header=False, log_config=None, timeout_keep_alive=60, ws="none"
        )
        config.load()
        made = LimitedProtocol(deadlines=self._deadlines, config=config, server_state=ServerState(), app_state={})
        self.protocols.append(made)
        return made

    async def ask(self, *parts: bytes, eof: bool = False) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.closing(writer):
            for part in parts:
                with contextlib.suppress(ConnectionError, RuntimeError):  # the server has closed
                    writer.write(part)
                    await writer.drain()
                await asyncio.sleep(0)
            if eof:
                with contextlib.suppress(OSError, RuntimeError):
                    writer.write_eof()
            read = b""
            with contextlib.suppress(ConnectionResetError):  # by a server that closes before it has read everything
                while part := await reader.read(2**16):
                    read += part
            return read


@asynccontextmanager
async def serving(app: ASGIApp, deadlines: Deadlines = PATIENT, limit: float = 20.0) -> AsyncIterator[Server]:
    made = Server(app, deadlines)
    server = await asyncio.get_running_loop().create_server(made.protocol, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(limit):
        yield made
        for each in made.protocols:
            each.transport.abort()


def answers(read: bytes) -> list[tuple[int, str]]:
    found, left = [], read
    while left:
        head, _, left = left.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        found.append((int(lines[0].split()[1]), left[:length].decode().rstrip("\n")))
        left = left[length:]
    return found


def seen(*requests: tuple[str, str, str]) -> list[tuple[int, str]]:
    return [(200, json.dumps(list(each))) for each in requests]


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call = at, call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self.now, self.timers = loop, 0.0, list[Timer]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[..., None], *args: Any) -> Timer:
        self.timers.append(Timer(at, lambda: call(*args)))
        return self.timers[-1]

    def call_later(self, seconds: float, call: Callable[..., None], *args: Any) -> Timer:
        return self.call_at(self.now + seconds, call, *args)

    def advance(self, to: float) -> None:
        while due := [timer for timer in self.timers if timer.at <= to and not timer.cancelled]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = first.at
            first.call()
        self.now = to


HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"
SIZE = b"%d" % len(HIDDEN)
CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
ENCODED = b"Transfer-Encoding: chunked"
ENCODINGS = [
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: ",
    b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: chunked\x0b", b"Transfer-Encoding: \x00chunked",
    b" Transfer-Encoding: chunked", b"\tTransfer-Encoding: chunked", b"A: b\r\n Transfer-Encoding: chunked",
    b"A: b\nTransfer-Encoding: chunked", b"A: b\rTransfer-Encoding: chunked", b"Transfer-Encoding\n: chunked",
    b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding:\n chunked",
    b'Transfer-Encoding: "chunked"', b"Transfer-Encoding: chunked;a=b", b"Transfer-Encoding: CHUNKED",
    b"Transfer-Encoding\x00: chunked", b"\x00Transfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nTE: trailers",
    b"Transfer-Encoding: chunk\xc5\xbfed", b"\xefTransfer-Encoding: chunked", b"Transfer-Encoding: chunked ,",
]  # fmt: skip
LENGTHS = [
    b"+%b", b"-%b", b"0x%b", b"%b ,", b"%b, %b", b"%b 0", b"0 %b", b"%b\x00", b"%b.0", b"%be0", b"1_%b", b"%b;a",
    b"99999999999999999999%b", b"\xd9\xa3%b", b'"%b"',
]  # fmt: skip
DOUBLE_LENGTHS = [(SIZE, b"0"), (b"0", SIZE), (SIZE, b"+" + SIZE), (b"0, " + SIZE, SIZE), (SIZE, b"")]
CHUNK_SIZES = [
    b"0x%x", b"+%x", b"-%x", b" %x", b"%x ", b"%x\t", b"%x;a=b", b"%x;a=\"\\r\\n\"", b"%x;\n", b"%x\n", b"%x\r",
    b"1_%x", b"fffffffffffffff%x", b"%x,0", b"%x\x00", b"%x;\x00", b"0%x", b"%x ;",
]  # fmt: skip


def request(headers: bytes, body: bytes, line: bytes = b"POST /given HTTP/1.1") -> bytes:
    return b"%b\r\nHost: x\r\n%b\r\n\r\n%b" % (line, headers, body)


def attempts() -> Iterator[tuple[str, bytes]]:
    late = b"0\r\n\r\n" + HIDDEN
    length = b"Content-Length: "
    yield "CL.TE", request(length + b"%d\r\n" % len(late) + ENCODED, late)
    yield "TE.CL", request(length + b"4\r\n" + ENCODED, CHUNK)
    yield "TE.CL in the other order", request(ENCODED + b"\r\n" + length + b"4", CHUNK)
    yield "TE of HTTP/1.0", request(length + b"%d\r\n" % len(late) + ENCODED, late, b"POST /given HTTP/1.0")
    for each in ENCODINGS:
        yield f"{each!r} ends early", request(length + b"%d\r\n" % len(late) + each, late)
        yield f"{each!r} ends late", request(length + b"4\r\n" + each, CHUNK)
        yield f"{each!r} alone", request(each, CHUNK)
    for form in LENGTHS:
        yield f"length {form!r}", request(length + form.replace(b"%b", SIZE), HIDDEN)
    for one, other in DOUBLE_LENGTHS:
        yield f"lengths {one!r} and {other!r}", request(length + one + b"\r\n" + length + other, HIDDEN)
    yield "a folded length", request(b"Content-Length:\r\n " + SIZE, HIDDEN)
    yield "a length behind LF", request(b"A: b\nContent-Length: " + SIZE, HIDDEN)
    yield "a length behind CR", request(b"A: b\rContent-Length: " + SIZE, HIDDEN)
    yield "a length before a colon", request(b"Content-Length : " + SIZE, HIDDEN)
    for form in CHUNK_SIZES:
        size = form % len(HIDDEN)
        yield f"chunk size {size!r}", request(ENCODED, size + b"\r\n" + HIDDEN + b"\r\n0\r\n\r\n")
    yield "chunks without CRLF", request(ENCODED, b"1\r\na0\r\n\r\n" + HIDDEN)
    yield "chunks with LF", request(ENCODED, CHUNK.replace(b"\r\n0\r\n", b"\n0\n"))
    yield "a trailer that is a length", request(ENCODED, CHUNK[:-2] + b"Content-Length: 5\r\n\r\n")
    yield "a trailer that is an encoding", request(ENCODED, CHUNK[:-2] + ENCODED + b"\r\n\r\n")
    for protocol in (b"h2c", b"websocket"):
        head = b"Connection: Upgrade\r\nUpgrade: %b\r\n" % protocol
        yield f"{protocol!r} with a length", request(head + length + SIZE, HIDDEN)
        yield f"{protocol!r} with chunks", request(head + ENCODED, CHUNK)
        yield f"{protocol!r} of GET", request(head + length + SIZE, HIDDEN, b"GET /given HTTP/1.1")
    for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS"):
        yield f"{method!r} with a body", request(length + SIZE, HIDDEN, method + b" /given HTTP/1.1")
    for line in (b"POST /given HTTP/1.1 HTTP/1.1", b"POST  /given HTTP/1.1", b"POST /gi ven HTTP/1.1", b"POST /given",
                 b"POST /given HTTP/2.0", b"POST /given HTTP/1.01", b"POST\t/given\tHTTP/1.1",
                 b"PO\x00ST /given HTTP/1.1", b"\x00POST /given HTTP/1.1",
                 b"POST http://y/given HTTP/1.1"):  # fmt: skip
        yield f"line {line!r}", request(length + SIZE, HIDDEN, line)
    yield "Connection names the length", request(b"Connection: Content-Length\r\n" + length + SIZE, HIDDEN)
    yield "expects", request(b"Expect: 100-continue\r\n" + length + SIZE, HIDDEN)
