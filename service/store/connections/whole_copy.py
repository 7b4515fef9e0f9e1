"""Receives a point-in-time copy of a server's data: the RDB file that servers send to replicas (SYNC)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions
from redis.asyncio.connection import AbstractConnection

_PART = 2**20  # maximum bytes per read
_END_BYTES = 40  # length of the random marker that ends a file of unknown length
_SILENCE_SECONDS = 60.0  # maximum wait for data; a server that prepares the file sends a newline every second


async def receive_copy(connection: AbstractConnection, receive: Callable[[bytes], object]) -> None:
    """Pass a server's RDB file to `receive` in parts, then close the connection.

    A child process of the server writes the file. Because of `rdb-only`, the server does not send its later writes.

    Raises:
        redis.exceptions.RedisError: if the server refuses or falls silent, or the file is cut short.
        OSError: if the connection breaks.
    """
    try:
        await connection.connect()
        for name, value in (("rdb-only", 1), ("capa", "eof")):
            await connection.send_command("REPLCONF", name, value)
            await connection.read_response()
        await connection.send_command("SYNC")
        reader: Any = connection._reader  # noqa: SLF001  the parser reads only replies, not the file
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
    """Receive a file up to the marker `end`, which is not passed on."""
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
