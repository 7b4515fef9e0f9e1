"""Modules of a source tree, and their imports."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tests.architecture.graphs import graph_of

ROOT = Path(__file__).parents[2]


class Import(NamedTuple):
    """One import of one module."""

    source: str
    target: str  # a module of the tree if there is one of that name, else as it is written
    place: str  # path and line

    def __str__(self) -> str:
        return f"{self.place}: {self.source} imports {self.target}"


@dataclass(frozen=True)
class Module:
    """A file of Python.

    Attributes:
        name: dotted; that of the package for an `__init__.py`.
        path: from the root of the tree.
        text: its source.
    """

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of a folder."""
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """Dotted name of its folder."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def place(self, node: ast.AST) -> str:
        """Path and line of a piece of its syntax."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


class SourceTree:
    """All modules below some folders.

    Args:
        root: holds the folders.
        folders: packages at the root.
    """

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        paths = sorted(path.relative_to(root) for folder in folders for path in (root / folder).rglob("*.py"))
        self.modules = [Module(_name_of(path), path, (root / path).read_text()) for path in paths]
        self.names = {module.name for module in self.modules}
        self.imports = list(dict.fromkeys(each for module in self.modules for each in self._imports_of(module)))

    @property
    def inner_imports(self) -> list[Import]:
        """Imports of modules of the tree."""
        return [each for each in self.imports if each.target in self.names]

    @property
    def graph(self) -> dict[str, set[str]]:
        """The modules that each module imports."""
        return graph_of((each.source, each.target) for each in self.inner_imports)

    def _imports_of(self, module: Module) -> Iterator[Import]:
        """All imports: also those in functions, and under TYPE_CHECKING."""
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                yield from (Import(module.name, alias.name, module.place(node)) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                origin = "." * node.level + (node.module or "")
                for alias in node.names:
                    inner = f"{origin}.{alias.name}"
                    yield Import(module.name, inner if inner in self.names else origin, module.place(node))


def _name_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def product() -> SourceTree:
    """The modules of learners and service."""
    return SourceTree(ROOT, ("learners", "service"))
