"""Reads log entries, and separates their readable rounds from damaged ones.

Whether a round is readable depends only on the bytes of its entry and on its number, so every worker finds the same
damage. The numbers follow from the ids of the entries, which the store assigns.
"""

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from service.errors import StoreCorruptError
from service.store.records.layout import ROUND, digits_of
from service.store.records.optional_fields import LogRows
from service.store.records.records import RecordFormat
from service.store.values import ChangeEntry, Damage, LogEntry

_BLOCK = re.compile(r"[\x21-\x7e]+")
_MOMENT, _NUMBER = ROUND.place("feedback_at"), ROUND.place("round")


class Piece(NamedTuple):
    """The bytes of consecutive rounds."""

    first: int  # number of the first round
    last: int
    rounds: bytes
    entry: LogEntry  # the entry that contains the rounds; the last such entry if there are several


class Stretch(NamedTuple):
    """Consecutive rounds of the log, separated into readable and damaged ones. Skipped rounds are in neither part."""

    rows: LogRows | None  # the readable rounds, in order; None if there are none
    damaged: list[Damage]  # the damaged rounds, in order


def mark_of(entry: LogEntry | ChangeEntry) -> bytes | None:
    """Return bytes that distinguish an entry, even a damaged one, from others at its position; None if it lacks them.

    For rounds, they are the stored moment of the first round's feedback; for a change, the first digits of its SHA-1.
    """
    if isinstance(entry, ChangeEntry):
        return digits_of(entry.payload)
    moment = entry.payload[_MOMENT : _MOMENT + 8]
    return moment if len(moment) == 8 else None


def begin_of(form: RecordFormat, entry: LogEntry, after: int | None = None) -> int | None:
    """Return the number of the first round in an entry; None if it cannot be determined.

    Args:
        form: the format of the model's rounds.
        entry: an entry of its log.
        after: the number of the last round before the entry; None if unknown. A damaged entry, which cannot be split or
            whose stored number is wrong, is assumed to begin right after this round. If the round is unknown, an entry
            that cannot be split is assumed to begin with its stored number.
    """
    count = _count(form, entry)
    stored = int.from_bytes(entry.payload[_NUMBER : _NUMBER + 8], "little", signed=True)
    if count and (after is None or stored == entry.last_round - count + 1):
        return entry.last_round - count + 1
    if after is not None:
        return after + 1
    return stored if 0 < stored <= entry.last_round else None


def read_entries(
    form: RecordFormat, entries: Sequence[LogEntry], after: int, left_out: Collection[Damage] = ()
) -> Stretch:
    """Read consecutive entries.

    Args:
        form: the format of the model's rounds.
        entries: consecutive entries of its log.
        after: the number of the last round before these entries.
        left_out: rounds to skip, whether readable or not.

    Raises:
        StoreCorruptError: if rounds are missing between entries.
        NewerVersionError: if a newer version wrote part of a round.
    """
    if not left_out and (rows := _rows_at_once(form, entries, after)) is not None:
        return Stretch(rows, [])
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
    return Stretch(rows, _joined(damaged))


def _count(form: RecordFormat, entry: LogEntry) -> int | None:
    """Return the number of rounds in an entry; None if it cannot be split."""
    try:
        return len(form.round_bounds(entry.payload)) - 1
    except StoreCorruptError:
        return None


def _rows_at_once(form: RecordFormat, entries: Sequence[LogEntry], after: int) -> LogRows | None:
    """Return the rows of entries; None if there are none, or if an entry has a fault, which the caller must locate."""
    numbers = [after, *(entry.last_round for entry in entries)]
    whole = [_count(form, entry) for entry in entries] == [last - first for first, last in pairwise(numbers)]
    if not entries or not whole or not all(_BLOCK.fullmatch(entry.block) for entry in entries):
        return None
    rounds = b"".join([entry.payload for entry in entries])
    return _rows(form, [Piece(after + 1, numbers[-1], rounds, entries[-1])])


def read_page(form: RecordFormat, entries: Sequence[LogEntry]) -> list[Stretch]:
    """Read entries that may have gaps between them; return a stretch for each run of consecutive entries."""
    runs: list[tuple[int, list[LogEntry]]] = []
    for entry in entries:
        begin = begin_of(form, entry) or entry.last_round
        if runs and begin == runs[-1][1][-1].last_round + 1:
            runs[-1][1].append(entry)
        else:
            runs.append((begin - 1, [entry]))
    return [read_entries(form, run, after) for after, run in runs]


def _without(form: RecordFormat, piece: Piece, left_out: Collection[Damage]) -> list[Piece]:
    """Remove the rounds in `left_out` from a piece; return the pieces that remain."""
    if not any(each.first <= piece.last and piece.first <= each.last for each in left_out):
        return [piece]
    return [each for each in _each(form, piece) if not _covered(each.first, each.last, left_out)]


def _covered(first: int, last: int, left_out: Collection[Damage]) -> bool:
    return any(each.first <= first and last <= each.last for each in left_out)


def _pieces(form: RecordFormat, entry: LogEntry, after: int, damaged: list[Damage]) -> list[Piece]:
    """Return the entry as a piece; if it is damaged, add it to `damaged` instead."""
    count = _count(form, entry)
    if count is not None and count != entry.last_round - after and begin_of(form, entry, after) != after + 1:
        raise StoreCorruptError(f"the log lacks rounds before the entry that ends with round {entry.last_round}")
    if not _BLOCK.fullmatch(entry.block):
        reason = "the name of a block is damaged"
    elif count != entry.last_round - after:
        reason = "an entry cannot be split into rounds"
    else:
        return [Piece(after + 1, entry.last_round, entry.payload, entry)]
    damaged.append(Damage(after + 1, entry.last_round, entry.last_round, reason))
    return []


def _readable(form: RecordFormat, pieces: list[Piece], damaged: list[Damage]) -> list[Piece]:
    """Return the readable pieces; add the others to `damaged`. Bisect, because checking many pieces at once is fast."""
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


def _rows(form: RecordFormat, pieces: Sequence[Piece]) -> LogRows | None:
    """Return the rows of pieces; None if there are none, or if a piece cannot be read."""
    try:
        return _checked_rows(form, pieces) if pieces else None
    except StoreCorruptError:
        return None


def _checked_rows(form: RecordFormat, pieces: Sequence[Piece]) -> LogRows:
    rows = form.rows([piece.rounds for piece in pieces])
    numbers = [number for piece in pieces for number in range(piece.first, piece.last + 1)]
    if rows.table["round"].tolist() != numbers:
        raise StoreCorruptError("a round of the log has the wrong number")
    return rows


def _each(form: RecordFormat, piece: Piece) -> list[Piece]:
    """Split a piece into single rounds."""
    spans = enumerate(pairwise(form.round_bounds(piece.rounds)), piece.first)
    return [Piece(number, number, piece.rounds[start:stop], piece.entry) for number, (start, stop) in spans]


def _joined(damaged: list[Damage]) -> list[Damage]:
    """Sort damaged rounds, and merge consecutive ones of the same entry with the same fault."""
    joined: list[Damage] = []
    for each in sorted(damaged, key=lambda each: each.first):
        last = joined[-1] if joined else None
        if last and (last.last + 1, last.entry, last.reason) == (each.first, each.entry, each.reason):
            joined[-1] = last._replace(last=each.last)
        else:
            joined.append(each)
    return joined
