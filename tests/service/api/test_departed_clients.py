"""The laws of clients that stop reading or disconnect: they affect nobody else."""

import asyncio
import json
import socket
import struct
from collections.abc import Callable

import pytest

from tests.service.api.attacked import HEAD, Attacked, X, connected, counted

# --- readers


async def test_a_client_that_reads_nothing_is_disconnected(impatient: Attacked) -> None:
    """Unread answers hold a place among the requests without a key only briefly."""
    request = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with connected(impatient, receive_bytes=4096) as raw, impatient.client() as client:
        await asyncio.get_running_loop().sock_sendall(raw, request * 40)
        async with asyncio.timeout(30 * HEAD):
            for status in (503, 200):  # one such place, and ten for requests with a key
                while (await client.get("/docs")).status_code != status:
                    assert (await client.get("/learners")).status_code == 200
                    await asyncio.sleep(0.05)


# --- clients that are gone


def close(raw: socket.socket) -> None:
    """Close the connection in an orderly way."""
    raw.close()


def reset(raw: socket.socket) -> None:
    """Reset the connection."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


@pytest.mark.parametrize("disconnect", [close, reset])
async def test_a_disconnect_is_not_a_failure(impatient: Attacked, disconnect: Callable[[socket.socket], None]) -> None:
    """A disconnect causes no traceback and no 500; inside a body it counts as one 499 and is logged once."""
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
                disconnect(raw)
                await asyncio.sleep(0.05)
        after = {path: await counted(client, path) for path in paths}
    assert {path: after[path].get("499", 0) - before[path] for path in paths} == dict.fromkeys(paths, 3)
    assert not any(status >= "500" for statuses in after.values() for status in statuses)
    new_lines = impatient.lines()[lines:]
    assert sum(line.get("status") == 499 for line in new_lines) == len(inside)
    assert not [line for line in new_lines if line["level"] in {"warning", "error"} or "exception" in line]
