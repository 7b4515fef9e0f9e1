"""Lookup of code by its symbol and syntax tree, so that files and layout may change."""

import ast
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("learners", "service", "client/wager_client")

Node = ast.expr | ast.stmt
Span = tuple[Node, Node]  # the first and last of consecutive nodes


class Module(NamedTuple):
    """A module of the product."""

    path: Path  # relative to the root
    text: str
    symbols: dict[str, ast.stmt]  # functions, classes and assignments, by qualified name


@cache
def modules(root: Path = ROOT) -> tuple[Module, ...]:
    """Parse every module of the product, once per process."""
    paths = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return tuple(_module(root, path) for path in paths)


def _module(root: Path, path: Path) -> Module:
    text = path.read_text()
    return Module(path.relative_to(root), text, dict(_defined(ast.parse(text).body, "")))


def _defined(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield prefix + name, statement
                yield from _defined(statement.body, f"{prefix}{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name, statement


def find_symbol(symbol: str, root: Path = ROOT) -> tuple[Module, ast.stmt]:
    """Find the only definition of a symbol.

    Args:
        symbol: a qualified name (`leader`, `Soba.init`). A name that several modules define is preceded by a class or
            function of its module (`Soba._update`), or by the module (`inverse._TOLERANCE`).
        root: the root of the repository.

    Raises:
        ValueError: if no definition or several match.
    """
    home, _, name = symbol.partition(".")
    found = [(module, module.symbols[symbol]) for module in modules(root) if symbol in module.symbols]
    found += [
        (module, module.symbols[name])
        for module in modules(root)
        if name in module.symbols and (home in module.symbols or home == module.path.stem)
    ]
    if len(found) != 1:
        places = ", ".join(str(module.path) for module, _ in found)
        raise ValueError(f"{len(found)} symbols are called {symbol!r}, not one: {places}")
    return found[0]


def replaced(symbol: str, old: str, new: str, root: Path = ROOT) -> tuple[Path, str]:
    """Replace code of a symbol, and return the file, relative to the root, with its new text.

    Raises:
        ValueError: if the symbol is missing or ambiguous, or does not contain the old code exactly once.
    """
    module, definition = find_symbol(symbol, root)
    expression = _expression(old)
    if expression and _expression(new):
        found = [
            (node, node) for node in ast.walk(definition) if isinstance(node, ast.expr) and _same(node, expression)
        ]
        return module.path, _spliced(module.text, _only(found, symbol, old), f"({new})")
    runs = list(_runs(definition, ast.parse(old).body))
    return module.path, _spliced(module.text, _only(runs, symbol, old), ast.unparse(ast.parse(new or "pass")))


def _expression(code: str) -> ast.expr | None:
    try:
        return ast.parse(code, mode="eval").body
    except SyntaxError:
        return None


def _same(one: ast.AST, other: ast.AST) -> bool:
    return type(one) is type(other) and ast.dump(one) == ast.dump(other)


def _runs(definition: ast.stmt, wanted: list[ast.stmt]) -> Iterator[Span]:
    """Yield the spans of consecutive statements that equal the wanted ones."""
    fields = [value for node in ast.walk(definition) for _, value in ast.iter_fields(node)]
    for block in (value for value in fields if isinstance(value, list)):
        for start in range(len(block) - len(wanted) + 1):
            run = block[start : start + len(wanted)]
            if all(map(_same, run, wanted)):
                yield run[0], run[-1]


def _only(found: Sequence[Span], symbol: str, old: str) -> Span:
    if len(found) != 1:
        raise ValueError(f"{symbol} has this {len(found)} times, not once: {old!r}")
    return found[0]


def _spliced(text: str, span: Span, code: str) -> str:
    """Return the text with the code of a span replaced."""
    (first, last), lines = span, text.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: first.lineno - 1])) + first.col_offset
    end = sum(map(len, lines[: (last.end_lineno or 0) - 1])) + (last.end_col_offset or 0)
    indented = textwrap.indent(code, " " * first.col_offset).lstrip()
    return (b"".join(lines)[:begin] + indented.encode() + b"".join(lines)[end:]).decode()
