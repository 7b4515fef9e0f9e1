"""Entries of the log as rounds: those that can be read, and those that cannot.

What cannot be read depends on the bytes of an entry and on the numbers of the rounds in it alone, so that every worker
finds the same. The numbers come from the ids of entries, which the store keeps.
"""

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import Contexts
from service.errors import StoreCorruptError
from service.store.base import LogEntry
from service.store.damage import Damage
from service.store.records.records import RecordFormat, Table

_BLOCK = re.compile(r"[\x21-\x7e]+")
_MOMENT = slice(5, 13)
_NUMBER = slice(13, 21)


class Piece(NamedTuple):
    """The bytes of some rounds that follow each other in one entry."""

    first: int  # the number of the first
    last: int
    rounds: bytes
    entry: LogEntry


class Stretch(NamedTuple):
    """Rounds of the log that follow each other, but for those left out."""

    records: list[bytes]  # that can be read, in order
    rows: tuple[Table, Contexts] | None  # of those; None if there are none
    damaged: list[Damage]  # in order


def moment_of(entry: LogEntry) -> bytes | None:
    """When feedback brought an entry, as it is stored: damaged or not, it tells the entry from another."""
    moment = entry.payload[_MOMENT]
    return moment if len(moment) == _MOMENT.stop - _MOMENT.start else None


def begin_of(form: RecordFormat, entry: LogEntry, after: int | None = None) -> int | None:
    """The number of the first round in an entry; None where it cannot be told.

    Args:
        form: of the model's rounds.
        entry: of its log.
        after: the last round before the entry, where that is known: then a damaged entry begins behind it. Else one
            that cannot be told apart begins where its first round says.
    """
    said, count = int.from_bytes(entry.payload[_NUMBER], "little", signed=True), form.count(entry.payload)
    if count and (after is None or said == entry.last_round - count + 1):
        return entry.last_round - count + 1
    if after is not None:
        return after + 1
    return said if 0 < said <= entry.last_round else None


def read_entries(
    form: RecordFormat, entries: Sequence[LogEntry], after: int, left_out: Collection[Damage] = ()
) -> Stretch:
    """Read entries that follow each other.

    Args:
        form: of the model's rounds.
        entries: of its log.
        after: the last round before them.
        left_out: rounds that are left out, whether they can be read or not.

    Raises:
        StoreCorruptError: if rounds are missing between them.
    """
    records = [entry.payload for entry in entries]
    if not left_out and (rows := _rows_at_once(form, entries, records, after)) is not None:
        return Stretch(records, rows, [])
    pieces, damaged = list[Piece](), list[Damage]()
    for entry in entries:
        pieces += _pieces(form, entry, after, damaged)
        after = entry.last_round
    if left_out:
        pieces = [each for piece in pieces for each in _without(form, piece, left_out)]
        damaged = [each for each in damaged if not _covered(each.first, each.last, left_out)]
    if (rows := _rows(form, pieces)) is None:
        pieces = _readable(form, pieces, damaged)
        rows = _rows(form, pieces)
    return Stretch([piece.rounds for piece in pieces], rows, _joined(damaged))


def _rows_at_once(
    form: RecordFormat, entries: Sequence[LogEntry], records: Sequence[bytes], after: int
) -> tuple[Table, Contexts] | None:
    """The rows of whole entries; None where anything is wrong with one, which is then looked for."""
    numbers = [after, *(entry.last_round for entry in entries)]
    whole = list(map(form.count, records)) == [last - first for first, last in pairwise(numbers)]
    if not entries or not whole or not all(_BLOCK.fullmatch(entry.block) for entry in entries):
        return None
    return _rows(form, [Piece(after + 1, numbers[-1], b"".join(records), entries[-1])])


def read_page(form: RecordFormat, entries: Sequence[LogEntry]) -> list[Stretch]:
    """Read entries of which some may be missing: a stretch for all that follow each other, in order."""
    runs: list[tuple[int, list[LogEntry]]] = []
    for entry in entries:
        begin = begin_of(form, entry) or entry.last_round
        if runs and begin == runs[-1][1][-1].last_round + 1:
            runs[-1][1].append(entry)
        else:
            runs.append((begin - 1, [entry]))
    return [read_entries(form, run, after) for after, run in runs]


def _without(form: RecordFormat, piece: Piece, left_out: Collection[Damage]) -> list[Piece]:
    """What is left of a piece."""
    if not any(each.first <= piece.last and piece.first <= each.last for each in left_out):
        return [piece]
    return [each for each in _each(form, piece) if not _covered(each.first, each.last, left_out)]


def _covered(first: int, last: int, left_out: Collection[Damage]) -> bool:
    return any(each.first <= first and last <= each.last for each in left_out)


def _pieces(form: RecordFormat, entry: LogEntry, after: int, damaged: list[Damage]) -> list[Piece]:
    """The entry, if it holds as many rounds as it should."""
    count = form.count(entry.payload)
    if count is not None and count != entry.last_round - after and begin_of(form, entry, after) != after + 1:
        raise StoreCorruptError(f"the log has a hole before round {entry.last_round}")
    if not _BLOCK.fullmatch(entry.block):
        reason = "the name of a block is damaged"
    elif count != entry.last_round - after:
        reason = "the rounds of an entry cannot be told apart"
    else:
        return [Piece(after + 1, entry.last_round, entry.payload, entry)]
    damaged.append(Damage(after + 1, entry.last_round, entry.last_round, reason))
    return []


def _readable(form: RecordFormat, pieces: list[Piece], damaged: list[Damage]) -> list[Piece]:
    """What can be read of some pieces. Many are tried at once, which is fast, then ever fewer."""
    if not pieces:
        return []
    try:
        _checked_rows(form, pieces)
    except StoreCorruptError as error:
        if len(pieces) > 1:
            half = len(pieces) // 2
            return _readable(form, pieces[:half], damaged) + _readable(form, pieces[half:], damaged)
        (piece,) = pieces
        if piece.first < piece.last:
            return _readable(form, _each(form, piece), damaged)
        damaged.append(Damage(piece.first, piece.last, piece.entry.last_round, error.detail))
        return []
    return pieces


def _rows(form: RecordFormat, pieces: Sequence[Piece]) -> tuple[Table, Contexts] | None:
    """The rows of some pieces; None if one cannot be read, or there are none."""
    try:
        return _checked_rows(form, pieces) if pieces else None
    except StoreCorruptError:
        return None


def _checked_rows(form: RecordFormat, pieces: Sequence[Piece]) -> tuple[Table, Contexts]:
    table, contexts = form.rows([piece.rounds for piece in pieces])
    numbers = np.concatenate([np.arange(piece.first, piece.last + 1) for piece in pieces])
    if not np.array_equal(table["round"], numbers):
        raise StoreCorruptError("a round of the log has another number")
    return table, contexts


def _each(form: RecordFormat, piece: Piece) -> list[Piece]:
    """Each round by itself."""
    split = enumerate(form.split(piece.rounds), piece.first)
    return [Piece(number, number, rounds, piece.entry) for number, rounds in split]


def _joined(damaged: list[Damage]) -> list[Damage]:
    """Rounds of one entry that follow each other, and have one fault, as one."""
    joined: list[Damage] = []
    for each in sorted(damaged, key=lambda each: each.first):
        last = joined[-1] if joined else None
        if last and (last.last + 1, last.entry, last.reason) == (each.first, each.entry, each.reason):
            joined[-1] = last._replace(last=each.last)
        else:
            joined.append(each)
    return joined
