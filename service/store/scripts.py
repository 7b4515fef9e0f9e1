"""The store's Lua scripts."""

import hashlib
from importlib import resources
from typing import NamedTuple

from service.store.records.layout import lua_prelude


class Script(NamedTuple):
    """The source of a script, and the source's SHA-1, by which the store finds a script that it has cached."""

    sha: str
    source: bytes


def script(*names: str) -> Script:
    """Return the script that concatenates the files with these names, without their suffix, in `service/store/lua`.

    If the last file begins with `#!lua flags=allow-oom`, so does the script: the store then runs the script even above
    its memory limit.
    """
    return _script(_source("", names))


def record_script(*names: str) -> Script:
    """Return the same as `script`, with the layouts of records before the files."""
    return _script(_source(lua_prelude(), names))


def _source(prelude: str, names: tuple[str, ...]) -> bytes:
    folder = resources.files("service.store").joinpath("lua")
    *prepended, own = (folder.joinpath(f"{name}.lua").read_bytes() for name in names)
    flags = own[: own.index(b"\n") + 1] if own.startswith(b"#!") else b""
    return b"".join((flags, prelude.encode(), *prepended, own.removeprefix(flags)))


def _script(source: bytes) -> Script:
    return Script(hashlib.sha1(source, usedforsecurity=False).hexdigest(), source)
