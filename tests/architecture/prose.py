"""Words and phrases that the project's prose avoids, and the search for them.

Prose is docstrings, comments and Markdown pages. String literals and `code spans` are not prose.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

_PHRASES = (
    "told",
    "whoever",
    "stands",
    "strangers?",
    "meanwhile",
    "so many",
    "for ever",
    "of its own",
    "of one['’]s own",
    "what is there",
    "that is there",
    "behind(?! (?:a|the|your) (?:\\w+ )?(?:proxy|balancer|load balancer|gateway|firewall)\\b)",
)
_GAP = r"[ \t]*[ \t\n][ \t]*"
_FORBIDDEN = re.compile(rf"(?<![\w-])(?:{'|'.join(_PHRASES).replace(' ', _GAP)})(?![\w-])", re.IGNORECASE)
_NO_PROSE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)")

_LUA = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|--(?:\[\[(?P<block>.*?)\]\]|(?P<line>[^\n]*))""", re.DOTALL
)
_HASH = re.compile(r"""(?P<string>(?<!\w)"(?:\\.|[^"\\\n])*"|(?<!\w)'[^'\n]*')|(?<!\S)\#(?P<line>[^\n]*)""", re.VERBOSE)

Lines = Mapping[int, str]
"""Lines of prose, by number."""


def forbidden_phrases(path: Path, text: str) -> list[str]:
    """Return each forbidden phrase in a file's prose, with the file and the line where it begins.

    Args:
        path: for the messages; its suffix selects the format.
        text: content of the file.
    """
    return [
        f"{path}:{first + passage[: match.start()].count(chr(10))}: {' '.join(match.group().split())}"
        for first, passage in _passages(_FORMATS[path.suffix](text))
        for match in _FORBIDDEN.finditer(passage)
    ]


def is_readable(path: Path) -> bool:
    """Check whether the format of a file is known."""
    return path.suffix in _FORMATS


def _passages(lines: Lines) -> Iterator[tuple[int, str]]:
    """Yield stretches of consecutive lines without code spans and link targets, with the number of the first."""
    for _, pairs in groupby(enumerate(sorted(lines)), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in pairs]
        yield numbers[0], _NO_PROSE.sub("``", "\n".join(lines[number] for number in numbers))


def _markdown(text: str) -> Lines:
    return dict(enumerate(text.splitlines(), 1))


def _python(text: str) -> Lines:
    """Return the lines of docstrings, including those of attributes, and the comments."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {each.start[0]: each.string.lstrip("#") for each in tokens if each.type == tokenize.COMMENT}
    source = text.splitlines()
    docstrings = {
        n: source[n - 1] for each in _docstrings(text) for n in range(each.lineno, (each.end_lineno or 0) + 1)
    }
    return comments | docstrings


def _docstrings(text: str) -> Iterator[ast.Expr]:
    """Yield each statement that is only a string."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node


def _comments(pattern: re.Pattern[str]) -> Callable[[str], Lines]:
    """Return a reader of the comments of a language.

    Args:
        pattern: matches strings and comments, in the groups `string`, `block` (optional) and `line`.
    """

    def read(text: str) -> Lines:
        return {
            text[: match.start()].count("\n") + i: line
            for match in pattern.finditer(text)
            if match["string"] is None
            for i, line in enumerate((match.groupdict().get("block") or match["line"] or "").split("\n"), 1)
        }

    return read


_FORMATS: dict[str, Callable[[str], Lines]] = {
    ".py": _python,
    ".md": _markdown,
    ".lua": _comments(_LUA),
    ".sh": _comments(_HASH),
    ".yml": _comments(_HASH),
    ".yaml": _comments(_HASH),
}
