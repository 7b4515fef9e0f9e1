"""The law of request smuggling: no request hides another, directly and through HAProxy."""

import asyncio
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from benchmarks.balancer import balancing, installed
from tests.service.commands.connections import PATIENT, Server, answers, each_loop, echo, run, seen, serving
from tests.service.commands.smuggling import attempts

ATTEMPTS = dict(attempts())


@each_loop
def test_no_request_is_hidden(loop: str) -> None:
    """The service refuses every attempt, or reads the hidden request as a body, in one packet or in two."""
    paths: list[str] = []

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        paths.append(scope["path"])
        await echo(scope, receive, send)

    async def main() -> None:
        async with serving(noted) as server:
            for name, attempt in ATTEMPTS.items():
                for cut in (0, len(attempt) // 2):
                    paths.clear()
                    await server.ask(*filter(None, (attempt[:cut], attempt[cut:])), eof=True)
                    assert paths in ([], ["/given"]), name

    run(loop, main)


@pytest.mark.skipif(not installed(), reason="HAProxy is not installed")
def test_behind_a_balancer_everyone_gets_their_own_answer(tmp_path: Path) -> None:
    """After every attempt, the next clients on the same connection of the balancer get their own answers."""
    reused = list[int]()

    async def main() -> None:
        async with serving(echo, limit=120.0) as server:
            context = balancing(tmp_path, [server.port], "none", "http-reuse always")
            front = Server(echo, PATIENT)
            front.port = await asyncio.to_thread(context.__enter__)
            try:
                for number, (name, attempt) in enumerate(ATTEMPTS.items()):
                    await attack(front, attempt)
                    for victim in range(3):
                        path = f"/victim-{number}-{victim}"
                        asked = f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()
                        assert answers(await front.ask(asked)) == seen(("GET", path, "")), name
                reused.append(len(server.protocols))
            finally:
                await asyncio.to_thread(context.__exit__, None, None, None)

    run("asyncio", main)
    assert reused[0] < 3 * len(ATTEMPTS), "the victims must share connections"


async def attack(front: Server, attempt: bytes) -> None:
    """Send an attempt through the balancer, and read until nothing comes for a moment or the connection closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(attempt)
    await writer.drain()
    try:
        async with asyncio.timeout(0.05):
            while await reader.read(2**16):
                pass
    except (TimeoutError, ConnectionResetError):
        pass
    writer.close()
