"""Rules for the imports of a source tree. Each rule returns its violations, with file and line."""

import ast
import sys
from collections.abc import Collection, Iterable, Mapping

from tests.architecture.graphs import graph_of, shortest_cycles
from tests.architecture.modules import Import, Module, SourceTree

_BUILTINS = ("eval", "exec", "compile", "__import__")
_MAKERS_OF_CODE = {*_BUILTINS, *(f"builtins.{name}" for name in _BUILTINS), "importlib.import_module", "import_module"}


def room_of(module: str, rooms: Collection[str]) -> str | None:
    """Return the innermost room of a module; only an `__init__.py` is in a room with a one-part name."""
    if module in rooms:
        return module
    parts = module.split(".")
    outer = (".".join(parts[:n]) for n in range(len(parts) - 1, 1, -1))
    return next((room for room in outer if room in rooms), None)


def modules_without_room(tree: SourceTree, rooms: Mapping[str, str]) -> list[str]:
    """Find modules that no room of the table contains, and rooms without a module."""
    found = {module: room_of(module.name, rooms) for module in tree.modules}
    lost = [f"{module.path}:1: {module.name} is in no room" for module, room in found.items() if room is None]
    return lost + [f"{room} is an empty room" for room in sorted(set(rooms) - set(found.values()))]


def forbidden_arrows(tree: SourceTree, rooms: Mapping[str, str]) -> list[str]:
    """Find imports between rooms that the table does not allow."""
    arrows = [(each, room_of(each.source, rooms), room_of(each.target, rooms)) for each in tree.inner_imports]
    return [
        f"{each}: {source} may not import {target}"
        for each, source, target in arrows
        if source and target and target not in (source, *rooms[source].split())
    ]


def module_cycles(tree: SourceTree) -> list[str]:
    """Find modules that import each other, including inside functions and under TYPE_CHECKING."""
    return _cycles([(each.source, each.target, each) for each in tree.inner_imports])


def folder_cycles(tree: SourceTree, depth: int | None = None) -> list[str]:
    """Find folders that import each other; a file directly in a top folder counts as a folder.

    Args:
        tree: all modules.
        depth: the most parts of a folder name; deeper folders count as their ancestor. None for no limit.
    """
    folders = {module.name: _folder(module, depth) for module in tree.modules}
    return _cycles([(folders[each.source], folders[each.target], each) for each in tree.inner_imports])


def relative_imports(tree: SourceTree) -> list[str]:
    """Find relative imports."""
    return [str(each) for each in tree.imports if each.target.startswith(".")]


def foreign_imports(tree: SourceTree, libraries: Mapping[str, str], own: Collection[str]) -> list[str]:
    """Find imports of libraries where the table does not allow them.

    Third-party libraries that the table does not list are forbidden everywhere; unlisted standard modules are allowed.

    Args:
        tree: all modules.
        libraries: the modules and rooms that may import each library.
        own: the top folders.
    """
    free = {*own, *(sys.stdlib_module_names - set(libraries))}
    outer = [(each, each.target.partition(".")[0]) for each in tree.imports if not each.target.startswith(".")]
    return [
        str(each)
        for each, library in outer
        if library not in free and not _is_within(each.source, libraries.get(library, "").split())
    ]


def uses_of_random(tree: SourceTree, allowed: Collection[str]) -> list[str]:
    """Find uses of `numpy.random` outside the allowed modules and rooms."""
    return [
        f"{module.place(node)}: {module.name} uses np.random"
        for module in tree.modules
        if not _is_within(module.name, allowed)
        for node in ast.walk(module.tree)
        if _is_numpy_random(node)
    ]


def _is_numpy_random(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="random", value=ast.Name(id="np" | "numpy")):
            return True
        case ast.ImportFrom(module="numpy"):
            return any(each.name == "random" for each in node.names)
        case ast.ImportFrom(module=str(name)):
            return name.startswith("numpy.random")
        case ast.Import():
            return any(each.name.startswith("numpy.random") for each in node.names)
    return False


def made_code(tree: SourceTree) -> list[str]:
    """Find calls that run code from text or import a module by name."""
    return [
        f"{module.place(node)}: {module.name} calls {ast.unparse(node.func)}"
        for module in tree.modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _MAKERS_OF_CODE
    ]


def misnamed_algorithms(tree: SourceTree, room: str) -> list[str]:
    """Find classes in a room whose file is not named after their `algorithm`, with hyphens as underscores."""
    return [
        f"{module.place(node)}: {algorithm} is in {module.path.name}"
        for module in tree.modules
        if _is_within(module.name, (room,))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.AnnAssign | ast.Assign) and (algorithm := _algorithm(node)) is not None
        if algorithm.replace("-", "_") != module.path.stem
    ]


def _algorithm(node: ast.AnnAssign | ast.Assign) -> str | None:
    """Return the algorithm that an assignment names."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
    if [each.id for each in targets if isinstance(each, ast.Name)] != ["algorithm"]:
        return None
    return node.value.value if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else None


def _is_within(module: str, places: Iterable[str]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def _folder(module: Module, depth: int | None) -> str:
    parts = module.name.split(".")
    if len(parts) <= 2:
        return module.name
    return ".".join(module.room.split(".")[:depth])


def _cycles(arrows: list[tuple[str, str, Import]]) -> list[str]:
    """Return a message for each shortest cycle, with one import for each of its arrows."""
    imports = {(source, target): each for source, target, each in reversed(arrows)}
    cycles = shortest_cycles(graph_of(imports))
    return ["; ".join(str(imports[pair]) for pair in zip(each, [*each[1:], each[0]], strict=True)) for each in cycles]
