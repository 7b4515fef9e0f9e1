"""A small HTTP server for the load driver's tests: answers as Wager does, from memory, with optional faults."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Reply = tuple[int, Any] | None
"""Status and body, as JSON or bytes; None closes the connection without an answer."""
Handler = Callable[[str, str, bytes], Awaitable[Reply]]
Converse = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def conversing(converse: Converse) -> AsyncIterator[str]:
    conversations: set[asyncio.Task[None]] = set()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await converse(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)
        await server.wait_closed()


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await _turn(handler, reader, writer):
            pass

    async with conversing(converse) as url:
        yield url


async def _turn(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = head[0].split(" ")
    answer = await handler(method, path, body)
    if answer is None:
        return False
    status, content = answer
    written = content if isinstance(content, bytes) else json.dumps(content).encode()
    writer.write(f"HTTP/1.1 {status} OK\r\ncontent-length: {len(written)}\r\n\r\n".encode() + written)
    await writer.drain()
    return True


class FakeWager:
    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.predictions: dict[str, set[str]] = {}  # ids by model
        self.logs: dict[str, list[dict[str, Any]]] = {}
        self.deleted: list[str] = []
        self.feedbacks = 0  # requests
        self._rounds: dict[str, int] = {}

    async def answer(self, method: str, path: str, body: bytes) -> Reply:
        if path == "/readyz":
            return 200, {"status": "ready"}
        if method == "DELETE":
            self.deleted.append(path.removeprefix("/models/"))
            return 204, b""
        if method == "GET":
            return self._read(path.removeprefix("/models/"))
        return self._post(path, json.loads(body))

    def _post(self, path: str, body: dict[str, Any]) -> Reply:
        if path == "/models":
            self.logs[body["name"]], self.predictions[body["name"]] = [], set()
            return 201, body
        if path == "/predict":
            self.predictions[body["model"]].add(body["prediction_id"])
            return 200, {"label": "label-0", "propensity": 0.5}
        self.feedbacks += 1
        return self._record(body)

    def _record(self, body: dict[str, Any]) -> Reply:
        id_ = body["prediction_id"]
        if id_ in self._rounds:
            return 200, {"round": self._rounds[id_], "status": "duplicate"}
        self._rounds[id_] = number = len(self._rounds) + 1
        log = self.logs[id_.partition(":")[0]]
        line = {"prediction_id": id_, "correct": body["correct"]}
        lines = {"lose": [], "repeat": [line, line], "alter": [line | {"correct": not body["correct"]}]}
        invented = [line, line | {"prediction_id": id_.partition(":")[0] + ":of-others"}]
        faulty = number % 10 == 0
        log.extend(({"invent": invented} | lines).get(self.fault, [line]) if faulty else [line])
        return None if faulty and self.fault == "mute" else (200, {"round": number, "status": "recorded"})

    def _read(self, rest: str) -> Reply:
        name, _, query = rest.partition("/rounds?after=")
        if not query:
            return 200, {"predictions": len(self.predictions[name]) // (2 if self.fault == "forget" else 1)}
        after = int(query.partition("&")[0])
        lines = [json.dumps(line | {"round": i}) for i, line in enumerate(self.logs[name], 1)]
        return 200, "\n".join(lines[after : after + 100]).encode()
