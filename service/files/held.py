"""Which rounds the parts of an exported log hold, and which ones are missing between them."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from service.files.errors import FileError
from service.files.parquet import pyarrow

_AGAIN = "delete it, and repeat the command"
_ROUND = {".parquet": "round", ".ndjson": "round", ".dsjson": "_round"}
_TAIL = 8
"""Bytes at the end of a Parquet file: the length of its footer, and a mark."""


class Held(NamedTuple):
    """The rounds of a part."""

    path: Path
    first: int
    last: int


class Hole(NamedTuple):
    """Rounds that no part holds."""

    after: int  # the round before them
    until: int | None  # the last of them; None after the last part


def held_rounds(folder: Path, suffix: str) -> list[Held]:
    """Return the rounds of each part of a folder, in order. Of Parquet, only footers are read.

    Raises:
        FileError: if a part is damaged, or two parts hold the same rounds.
    """
    found = [_held(path) for path in sorted(folder.glob(f"part-*{suffix}"))]
    for one, other in pairwise(found):
        if other.first <= one.last:
            detail = f"begins with round {other.first}, but {one.path.name} ends with round {one.last}"
            raise FileError(other.path, "", f"{detail}; delete one of them, and repeat the command")
    return found


def holes_of(held: Sequence[Held], after: int) -> list[Hole]:
    """Return the rounds that no part holds, oldest first; the last hole is open.

    Args:
        held: the rounds of the parts, in order.
        after: the last round that is not wanted.
    """
    found, last = list[Hole](), after
    for each in held:
        if each.first > last + 1:
            found.append(Hole(last, each.first - 1))
        last = max(last, each.last)
    return [*found, Hole(last, None)]


def _held(path: Path) -> Held:
    """Return the rounds of a part; its name has the first one."""
    first, last = _ends_of_parquet(path) if path.suffix == ".parquet" else _ends_of_text(path)
    if path.stem != f"part-{first:012}":
        raise FileError(path, "", f"is damaged: it begins with round {first}; {_AGAIN}")
    return Held(path, first, last)


def _ends_of_parquet(path: Path) -> tuple[int, int]:
    """Return the first and the last round of a part, from its footer, and check that no byte is missing."""
    _, pq = pyarrow(path)
    try:
        about = pq.read_metadata(path)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        chunks = [group.column(i) for group in groups for i in range(about.num_columns)]
        ends = [(each.dictionary_page_offset or each.data_page_offset) + each.total_compressed_size for each in chunks]
        known = [each.statistics for each in chunks if each.path_in_schema == "round"]
        first, last = min(each.min for each in known), max(each.max for each in known)
    except Exception as error:
        raise FileError(path, "", f"is damaged: {str(error).splitlines()[0][:200]}; {_AGAIN}") from error
    if path.stat().st_size < max(ends) + about.serialized_size + _TAIL:
        raise FileError(path, "", f"is damaged: bytes are missing; {_AGAIN}")
    return int(first), int(last)


def _ends_of_text(path: Path) -> tuple[int, int]:
    """Return the first and the last round of a part. If it has fewer lines than rounds, check each."""
    number, first, last, line = 0, b"", b"", b""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):  # noqa: B007
                first = first or line
        last = line
        ends = _round(path, 1, first), _round(path, number, last)
        if number != ends[1] - ends[0] + 1:
            with path.open("rb") as file:
                for place, line in enumerate(file, 1):
                    _round(path, place, line)
    except OSError as error:
        raise FileError(path, "", f"cannot be read: {error.strerror}") from error
    return ends


def _round(path: Path, number: int, line: bytes) -> int:
    """Return the round of a whole line."""
    try:
        found: Any = json.loads(line)[_ROUND[path.suffix]] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if type(found) is not int:
        raise FileError(path, f"line {number}", f"is damaged; {_AGAIN}")
    return found
