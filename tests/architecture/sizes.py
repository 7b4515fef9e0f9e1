"""The limit on the length of functions, and the definitions that need a docstring."""

import ast
from collections.abc import Iterator

from tests.architecture.modules import Module, SourceTree

LONGEST_FUNCTION = 40

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def long_functions(tree: SourceTree, most: int = LONGEST_FUNCTION) -> list[str]:
    """Find functions with too many lines in their bodies, not counting docstrings."""
    return [
        f"{module.place(node)}: {node.name} has {length} lines"
        for module in tree.modules
        for node in ast.walk(module.tree)
        if isinstance(node, _Function) and (length := _body_length(node)) > most
    ]


def undocumented(tree: SourceTree) -> list[str]:
    """Find modules, and public classes, functions and methods, without a docstring."""
    modules = [f"{module.path}:1: the module" for module in tree.modules if ast.get_docstring(module.tree) is None]
    silent = [
        f"{module.place(node)}: {node.name}"
        for module in tree.modules
        for node in _public_definitions(module)
        if ast.get_docstring(node) is None
    ]
    return modules + silent


def _body_length(function: _Function) -> int:
    """Count the lines from the first statement to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def _public_definitions(parent: Module | ast.ClassDef) -> Iterator[_Documented]:
    body = parent.tree.body if isinstance(parent, Module) else parent.body
    for node in body:
        if isinstance(node, _Documented) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public_definitions(node)
