"""`wager` as a later version: the current code with each version number that it writes raised by one.

It reads what the current version has written, as a later version would. Run it as
`python -m tests.service.operations.next_version serve …` alongside the current `wager` on the same store.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

VERSIONS = [
    ("service.store.records.layout", "VERSION"),
    ("service.store.redis.entry_codec", "CHANGE_VERSION"),
    ("service.store.redis.snapshot_parts", "SNAPSHOT_VERSION"),
    ("service.replicas.statistics", "STATISTICS_VERSION"),
]
"""Modules and constants, ordered so that no module imports a constant that a later entry changes."""

LUA = {
    b"version ~= VERSION": b"version ~= VERSION and version ~= VERSION - 1",
    b"string.byte(record) == VERSION": b"VERSION - string.byte(record) <= 1 and string.byte(record) <= VERSION",
    b"fields[4] == tostring(VERSION)": b"(fields[4] == tostring(VERSION) or fields[4] == tostring(VERSION - 1))",
}
"""How the scripts refuse another version, and how they accept the former one as well."""


class Either(int):
    """A version that the former one equals, too."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and int(self) - int(other) in {0, 1}

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __gt__(self, other: int) -> bool:
        return int(self) - 1 > int(other)

    __hash__ = int.__hash__


def bump() -> None:
    scripts: Any = importlib.import_module("service.store.scripts")
    scripts._source = _reading_scripts(scripts._source)
    for module, constant in VERSIONS:
        versions: Any = importlib.import_module(module)
        setattr(versions, constant, getattr(versions, constant) + 1)
    blocks: Any = importlib.import_module("service.store.records.blocks")
    entries: Any = importlib.import_module("service.store.redis.entry_codec")
    blocks.VERSION = Either(blocks.VERSION)
    entries.decode_entry = _reading_entries(entries.decode_entry)


def _reading_scripts(source: Callable[..., bytes]) -> Callable[..., bytes]:
    def both(prelude: str, names: tuple[str, ...]) -> bytes:
        found = source(prelude, names)
        for refusal, acceptance in LUA.items():
            found = found.replace(refusal, acceptance)
        return found

    return both


def _reading_entries(decode: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decoder of log entries that takes the former version, which is 1 for all types, for the current one."""

    def both(number: bytes, fields: Sequence[bytes]) -> Any:
        t, of_type, v, version, *others = fields
        return decode(number, [t, of_type, v, b"2" if version == b"1" else version, *others])

    return both


if __name__ in {"__main__", "__mp_main__"}:  # the second is its name in the workers that it starts
    bump()

if __name__ == "__main__":
    from service.__main__ import main

    main()
