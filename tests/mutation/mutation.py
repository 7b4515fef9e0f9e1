"""Deliberate errors in the product, each with the test that should detect it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, TypeVar

ROOT = Path(__file__).parents[2]

T = TypeVar("T")
Named = tuple[list[str], int, int]
"""The names of a part of a file, from the outermost one, with its start and end."""

Errors = Mapping[str, Sequence[tuple[str, str, str, str]]]
"""Errors by the test that should detect them: name, place, old code and new code of each, as in `Mutation`."""


class Mutation(NamedTuple):
    """One error.

    Attributes:
        name: of the error.
        place: a function or class (`Soba.init`, or after its module: `soba._update`), a script of the store
            (`add_feedback.lua`), or a function in one (`add_feedback.lua.judge`).
        old: code that occurs once in all places of this name, in any layout.
        new: a plausible wrong version.
        test: the name of a test, with a case if one is enough; preceded by its file if several have this name.
    """

    name: str
    place: str
    old: str
    new: str
    test: str


class Place(NamedTuple):
    """A part of a file."""

    path: Path  # relative to the root
    start: int
    stop: int


def mutations_of(*errors: Errors) -> list[Mutation]:
    """Return the mutations of tables of errors."""
    return [Mutation(*error, test) for table in errors for test, those in table.items() for error in those]


def mutated(mutation: Mutation) -> tuple[Path, str]:
    """Return the file of a mutation, relative to the root, and its mutated text.

    Raises:
        ValueError: if no place has the old code, or it occurs several times.
    """
    tokens = re.findall(r"\w+|[^\w\s]", mutation.old)
    code = re.compile(r"\s*".join(rf"\b{each}\b" if re.match(r"\w", each) else re.escape(each) for each in tokens))
    found = [
        (place.path, each)
        for place in _places()[mutation.place]
        for each in code.finditer((ROOT / place.path).read_text(), place.start, place.stop)
    ]
    ((path, part),) = _only(found, f"parts of {mutation.place} are {mutation.old!r}")
    line = part.string[part.string.rfind("\n", 0, part.start()) + 1 :]
    new = mutation.new.replace("\n", "\n" + line[: len(line) - len(line.lstrip())])
    return path, part.string[: part.start()] + new + part.string[part.end() :]


def _only(found: list[T], what: str) -> list[T]:
    if len(found) != 1:
        raise ValueError(f"{len(found)} {what}")
    return found


@cache
def _places() -> defaultdict[str, list[Place]]:
    """Find all places in the product by their names, with and without the names that precede them."""
    places = defaultdict[str, list[Place]](list)
    for path in (file for folder in ("learners", "service", "client") for file in (ROOT / folder).rglob("*.*")):
        if path.suffix not in (".py", ".lua"):
            continue
        text = path.read_text()
        found = _in_python(text) if path.suffix == ".py" else _in_lua(text)
        for name, start, stop in found:
            parts = [path.parent.name, path.stem if path.suffix == ".py" else path.name, *name]
            for first in range(len(parts)):
                places[".".join(parts[first:])].append(Place(path.relative_to(ROOT), start, stop))
    return places


def _in_lua(text: str) -> Iterator[Named]:
    yield [], 0, len(text)
    for each in re.finditer(r"^local function (\w+)\(.*?^end$", text, re.MULTILINE | re.DOTALL):
        yield [each[1]], *each.span()


def _in_python(text: str) -> Iterator[Named]:
    lines = [0, *accumulate(map(len, text.splitlines(keepends=True)))]

    def visit(node: ast.AST, names: list[str]) -> Iterator[Named]:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield [*names, each.name], lines[each.lineno - 1], lines[each.end_lineno or 0]
                yield from visit(each, [*names, each.name])

    yield from visit(ast.parse(text), [])


@cache
def _tests() -> defaultdict[str, list[str]]:
    """Find the paths of all tests by their names, with and without their file."""
    paths = defaultdict[str, list[str]](list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE):
            for key in (name, f"{path.stem}::{name}"):
                paths[key].append(path.relative_to(ROOT).as_posix())
    return paths


def argument_of(test: str) -> str:
    """Return the test of a mutation as an argument of pytest.

    Raises:
        ValueError: if no test has this name, or several have it.
    """
    (path,) = _only(_tests()[test.partition("[")[0]], f"tests are called {test}")
    return f"{path}::{test.rpartition('::')[2]}"
