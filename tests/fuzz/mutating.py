"""Damages bytes: a deterministic sequence of inputs from a number and some intact inputs."""

import random
from collections.abc import Callable, Iterator, Sequence

TOKENS = [
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\x00" * 8, b"\xff" * 8, b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x00\x00\x00\xf8\x7f", b"\x00\x00\x00\x00\x00\x00\xf0\x7f", b"\x01\x00\x00\x00", b"\xef\xbb\xbf",
    b"\xed\xa0\x80", b"\\ud800", b"\\udc00", b"\\u0000", b"\\", b'"', b"{", b"}", b"[", b"]", b":", b",", b"\n", b"\r",
    b"null", b"true", b"false", b"NaN", b"Infinity", b"-", b"0", b"1e400", b"-1e308", b"1e-400", b"9" * 30, b"9" * 400,
    b"1.5", b"{}", b"[]", b'""', b'"a"', b"[" * 100, b"2026-01-02T03:04:05Z", b"9999-12-31T23:59:59+00:00", b"=", b";",
]  # fmt: skip
_MOST_BYTES = 20_000

Damage = Callable[[random.Random, bytes], bytes]


def inputs(seed: int, intact: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the intact inputs, then damaged ones without end."""
    rng = random.Random(seed)
    yield from intact
    while True:
        data = rng.choice(intact)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
            data = rng.choice(_DAMAGES)(rng, data)
        if rng.random() < 0.1:
            other = rng.choice(intact)
            data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
        yield data[:_MOST_BYTES]


def _place(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 1, 2, 4, 8, rng.randrange(64))))


def _flip(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _replace(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    return data[:start] + rng.choice(TOKENS) + data[stop:]


def _overwrite(rng: random.Random, data: bytes) -> bytes:
    token, at = rng.choice(TOKENS), rng.randrange(len(data) + 1)
    return data[:at] + token + data[at + len(token) :]


def _delete(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    return data[:start] + data[stop:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    return data[:stop] + data[start:stop] * rng.choice((1, 2, 50)) + data[stop:]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


_DAMAGES: Sequence[Damage] = (_flip, _insert, _replace, _overwrite, _delete, _repeat, _cut)
