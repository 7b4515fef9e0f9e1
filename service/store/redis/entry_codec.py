"""Decodes the entries of a log, which is a stream of the store."""

from collections.abc import Sequence

from service.errors import NewerVersionError
from service.store.records import layout
from service.store.values import ChangeEntry, LogEntry, Tail

CHANGE_VERSION = 1
"""Version of the format of changes; others are refused."""

_ROUND, _CHANGE, _VERSION = b"r", b"c", str(layout.VERSION).encode()


def decode_tail(
    rounds: bytes, entries: Sequence[tuple[bytes, list[bytes]]], damage: bytes, changes: bytes, digest: bytes
) -> Tail:
    """Decode the reply of a script that reads the log; the arguments are its items, and become the fields of a `Tail`.

    Raises:
        NewerVersionError: as in `decode_entry`.
    """
    decoded = [decode_entry(*entry) for entry in entries]
    of_rounds = [entry for entry in decoded if isinstance(entry, LogEntry)]
    of_changes = tuple(entry for entry in decoded if isinstance(entry, ChangeEntry))
    return Tail(int(rounds), of_rounds, int(damage), int(changes), of_changes, digest)


def decode_entry(number: bytes, fields: Sequence[bytes]) -> LogEntry | ChangeEntry:
    """Decode an entry from its id, `<rounds>-<changes>`, and its alternating field names and values.

    The fields are `t` (type), `v` (version of the format), `p` (block, for rounds only), and `d` (rounds or change).

    Raises:
        NewerVersionError: if the fields, the type or the version are not those that this version writes.
    """
    rounds_to, _, changes_to = number.partition(b"-")
    match list(fields):
        case [b"t", t, b"v", v, b"p", block, b"d", rounds] if (t, v) == (_ROUND, _VERSION):
            return LogEntry(int(rounds_to), block.decode(errors="replace"), rounds, int(changes_to))
        case [b"t", t, b"v", v, b"d", change] if (t, v) == (_CHANGE, str(CHANGE_VERSION).encode()):
            return ChangeEntry(int(rounds_to), int(changes_to), change)
    raise NewerVersionError(f"entry {number.decode()} of the log has a format this version does not support")
