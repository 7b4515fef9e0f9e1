"""The store's Lua scripts."""

import hashlib
from importlib import resources
from typing import NamedTuple

from service.store.records.lua_prelude import lua_prelude


class Script(NamedTuple):
    """The source of a script, and its SHA-1, by which the store caches it."""

    sha: str
    source: bytes


def script(*names: str) -> Script:
    """Return the script that concatenates the named files."""
    return _script(_source(names))


def record_script(*names: str) -> Script:
    """Return the script that concatenates the layouts of records and the named files."""
    return _script(lua_prelude().encode() + _source(names))


def _source(names: tuple[str, ...]) -> bytes:
    folder = resources.files("service.store").joinpath("lua")
    return b"".join(folder.joinpath(f"{name}.lua").read_bytes() for name in names)


def _script(source: bytes) -> Script:
    return Script(hashlib.sha1(source, usedforsecurity=False).hexdigest(), source)
