"""Reads the lines of text files, compressed or not, with clear errors for damaged ones."""

import bz2
import codecs
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from toolkit import ToolError


class FileError(ToolError):
    """A file cannot be read or written, or its content cannot be used. All readers and writers of files raise it.

    `place` is a line or a row, such as `line 3`; "" for the whole file.
    """

    def __init__(self, path: Path, place: str, reason: str) -> None:
        super().__init__(f"{path}: {place + ': ' if place else ''}{reason}")
        self.path = path
        self.place = place
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, to send the error to another process."""
        return type(self), (self.path, self.place, self.reason)


MOST_LINE_BYTES = 2**22
"""Maximum bytes of a line: the default limit of the service for the body of a request."""

_CHUNK = 2**20

_OPENERS: tuple[tuple[bytes, Callable[[Path], object]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"BZh", bz2.open),
)
"""The functions that open compressed files, by their first bytes."""

_DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)


def read_start(path: Path, size: int = 16) -> bytes:
    """Return up to `size` bytes from the start of a file, which must not be empty."""
    try:
        with path.open("rb") as file:
            start = file.read(size)
    except OSError as error:
        raise FileError(path, "", f"cannot be read: {error.strerror}") from error
    if not start:
        raise FileError(path, "", "is empty")
    return start


def digest_of(path: Path, *settings: object) -> str:
    """Return a digest of a file and of the settings to read it: 32 hexadecimal digits."""
    digest = hashlib.sha256(repr(settings).encode())
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()[:32]


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, and decompress it if its first bytes are those of a compressed file."""
    start = read_start(path)
    opener = next((opener for magic, opener in _OPENERS if start.startswith(magic)), None)
    return path.open("rb") if opener is None else cast(BinaryIO, opener(path))


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank, without the line break."""
    for number, line in raw_lines(path):
        if line.strip():
            yield number, line.rstrip("\r\n")


def raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, with the line break."""
    number = 0
    with open_bytes(path) as file:
        while line := _next_line(path, file, number + 1):
            number += 1
            yield number, _text(path, line, number)


def _next_line(path: Path, file: BinaryIO, number: int) -> bytes:
    try:
        line = file.readline(MOST_LINE_BYTES + 1)
    except _DAMAGED as error:
        broken = getattr(error, "strerror", None)  # an error of the system; damaged compression has no strerror
        reason = f"cannot be read: {broken}" if broken else f"the compressed file is damaged or cut short: {error}"
        raise FileError(path, f"line {number}", reason) from error
    if len(line) > MOST_LINE_BYTES:
        raise FileError(path, f"line {number}", f"has more than {MOST_LINE_BYTES:,} bytes")
    return line


def _text(path: Path, line: bytes, number: int) -> str:
    try:
        return (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode()
    except UnicodeDecodeError as error:
        raise FileError(path, f"line {number}", f"is not UTF-8 (byte {error.start + 1})") from error
