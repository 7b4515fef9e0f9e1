"""The store's Lua scripts."""

import hashlib
from importlib import resources
from typing import NamedTuple


class Script(NamedTuple):
    """The source of a script, and the name that the store has for it."""

    sha: str
    source: bytes


def script(*names: str) -> Script:
    """Return the script that is made of some files, one after the other."""
    folder = resources.files("service.store").joinpath("lua")
    source = b"".join(folder.joinpath(f"{name}.lua").read_bytes() for name in names)
    return Script(hashlib.sha1(source, usedforsecurity=False).hexdigest(), source)
