"""A copy of a server's whole data at one moment: the RDB file that it sends to a replica (SYNC)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions
from redis.asyncio.connection import AbstractConnection

_PART = 2**20  # bytes read at once
_END_BYTES = 40  # of the random text that ends a file of unknown length
_SILENCE_SECONDS = 60.0  # while it prepares the file, a server sends a newline every second


async def receive_copy(connection: AbstractConnection, receive: Callable[[bytes], object]) -> None:
    """Pass a server's RDB file on, in parts, and close the connection.

    The server forks; it neither stops, nor counts the caller as a replica. It then sends nothing but the file.

    Raises:
        redis.exceptions.RedisError: if the server refuses, or the file is cut short.
    """
    try:
        await connection.connect()
        for name, value in (("rdb-only", 1), ("capa", "eof")):
            await connection.send_command("REPLCONF", name, value)
            await connection.read_response()
        await connection.send_command("SYNC")
        reader: Any = connection._reader  # noqa: SLF001  the file is no reply, so the parser cannot read it
        head = b"\n"
        while head == b"\n":
            head = await _arrived(reader.readline())
        head = head.strip()
        if head.startswith(b"$EOF:"):
            await _receive_until(reader, head[len(b"$EOF:") :], receive)
        elif head.startswith(b"$"):
            await _receive_bytes(reader, int(head[1:]), receive)
        else:
            raise exceptions.ResponseError(head.removeprefix(b"-").decode(errors="replace"))
    finally:
        await connection.disconnect(nowait=True)


async def _receive_bytes(reader: asyncio.StreamReader, left: int, receive: Callable[[bytes], object]) -> None:
    while left:
        part = await _arrived(reader.read(min(left, _PART)))
        left -= len(part)
        receive(part)


async def _receive_until(reader: asyncio.StreamReader, end: bytes, receive: Callable[[bytes], object]) -> None:
    """Receive a file without its last bytes, which end it."""
    held = b""
    while not held.endswith(end):
        held += await _arrived(reader.read(_PART))
        receive(held[:-_END_BYTES])
        held = held[-_END_BYTES:]


async def _arrived(reading: Awaitable[bytes]) -> bytes:
    try:
        part = await asyncio.wait_for(reading, _SILENCE_SECONDS)
    except TimeoutError as error:
        raise exceptions.ConnectionError(f"it was silent for {_SILENCE_SECONDS:g} s") from error
    if not part:
        raise exceptions.ConnectionError("it ended the copy before it was complete")
    return part
