"""Decodes log entries from the fields of a stream."""

from collections.abc import Sequence

from service.errors import NewerVersionError
from service.store.base import LogEntry
from service.store.records import format_3, layout

_ROUND, _VERSION = b"r", str(layout.VERSION).encode()


def decode_entry(number: bytes, fields: Sequence[bytes]) -> LogEntry:
    """Decode an entry from its id, `<rounds>-<changes>`, and its fields.

    Fields are `t` the type, `v` the version of its layout, `p` the block and `d` the rounds. Before version 4 they were
    `p` and `r`, the rounds.

    Raises:
        NewerVersionError: if this version does not support its type, its version or one of its fields.
    """
    match list(fields):
        case [b"t", t, b"v", v, b"p", block, b"d", rounds] if (t, v) == (_ROUND, _VERSION):
            version = layout.VERSION
        case [b"p", block, b"r", rounds]:
            version = format_3.VERSION
        case _:
            raise NewerVersionError(f"entry {number.decode()} of the log has a format this version does not support")
    return LogEntry(int(number.partition(b"-")[0]), block.decode(errors="replace"), rounds, version)
