"""The law of whole copies: a file arrives whole, however it is cut into parts, or the copy fails."""

import asyncio

import pytest
from redis import exceptions

from service.store.connections import whole_copy

END = bytes(range(40, 80))
FILE = bytes(range(80, 256)) * 3 + END[:39]


def arriving(content: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(content)
    reader.feed_eof()
    return reader


@pytest.mark.parametrize("size", [1, 7, 39, 40, 41, 10_000])
async def test_a_file_arrives_whole_or_not_at_all(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_copy, "_PART", size)
    for file in (FILE, b""):
        copied = bytearray()
        await whole_copy._receive_until(arriving(file + END), END, copied.extend)
        await whole_copy._receive_bytes(arriving(file), len(file), copied.extend)
        assert copied == file + file
    for cut in (END[1:], END[:-1] + b"x", b""):
        with pytest.raises(exceptions.ConnectionError):
            await whole_copy._receive_until(arriving(b"half" + cut), END, copied.extend)
    with pytest.raises(exceptions.ConnectionError):
        await whole_copy._receive_bytes(arriving(FILE), len(FILE) + 1, copied.extend)
