"""Lookup of code in the Lua scripts of the store by script and function, in any layout."""

import re
from pathlib import Path

from tests.mutation.symbols import PACKAGES, ROOT


def find_script(symbol: str, root: Path = ROOT) -> tuple[Path, str, int, int]:
    """Find a script, or a function in it.

    Args:
        symbol: the file name and the name of a local function in it (`add_feedback.lua:judge`); without a function
            (`add_feedback.lua:`), the whole script.
        root: the root of the repository.

    Returns:
        The file, relative to the root; its text; the start and end of the symbol in it.

    Raises:
        ValueError: if no script or function matches, or several do.
    """
    file, _, function = symbol.partition(":")
    paths = sorted(path for package in PACKAGES for path in (root / package).rglob(file))
    if len(paths) != 1:
        raise ValueError(f"{len(paths)} scripts are called {file!r}, not one")
    text = paths[0].read_text()
    body = rf"^local function {function}\(.*?^end$" if function else r"\A.*\Z"
    found = list(re.finditer(body, text, re.MULTILINE | re.DOTALL))
    if len(found) != 1:
        raise ValueError(f"{file} has {len(found)} functions called {function!r}, not one")
    return paths[0].relative_to(root), text, *found[0].span()


def replaced(symbol: str, old: str, new: str, root: Path = ROOT) -> tuple[Path, str]:
    """Replace words of a script, and return the file, relative to the root, with its new text.

    Raises:
        ValueError: if the symbol is missing or ambiguous, or does not contain the old words exactly once.
    """
    path, text, begin, end = find_script(symbol, root)
    words = r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", old))
    found = list(re.finditer(rf"(?<!\w){words}(?!\w)", text[begin:end]))
    if len(found) != 1:
        raise ValueError(f"{symbol} has this {len(found)} times, not once: {old!r}")
    first, last = (begin + at for at in found[0].span())
    return path, text[:first] + new + text[last:]
