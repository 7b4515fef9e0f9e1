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
    """One import in one module."""

    source: str
    target: str  # the full name of a module of the tree, or the name as written
    place: str  # path and line

    def __str__(self) -> str:
        return f"{self.place}: {self.source} imports {self.target}"


@dataclass(frozen=True)
class Module:
    """A Python file.

    Attributes:
        name: dotted; the package name for an `__init__.py`.
        path: relative to the root of the tree.
        text: the source.
    """

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def is_package(self) -> bool:
        """Whether the file is the `__init__.py` of a folder."""
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """Dotted name of the folder."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def place(self, node: ast.AST) -> str:
        """Return the path and line of a node of the syntax tree."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


class SourceTree:
    """All modules under some folders.

    Args:
        root: the folder that holds them.
        folders: packages at the root.
    """

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        paths = sorted(path.relative_to(root) for folder in folders for path in (root / folder).rglob("*.py"))
        self.modules = [Module(_name_of(path), path, (root / path).read_text()) for path in paths]
        self.names = {module.name for module in self.modules}

    @cached_property
    def imports(self) -> list[Import]:
        """All imports of all modules, each once."""
        return list(dict.fromkeys(each for module in self.modules for each in self._imports_of(module)))

    @property
    def inner_imports(self) -> list[Import]:
        """Imports of modules of the tree."""
        return [each for each in self.imports if each.target in self.names]

    @property
    def graph(self) -> dict[str, set[str]]:
        """The modules of the tree that each module imports."""
        return graph_of((each.source, each.target) for each in self.inner_imports)

    def _imports_of(self, module: Module) -> Iterator[Import]:
        """Yield all imports, including those in functions and under TYPE_CHECKING."""
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
    """Return the modules of learners and service."""
    return SourceTree(ROOT, ("learners", "service"))
