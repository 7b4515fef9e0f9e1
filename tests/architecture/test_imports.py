"""The architecture: which folder imports which, and where libraries, clocks and random numbers may be used."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from learners.registry import ALL_LEARNERS

ROOT = Path(__file__).parents[2]

LAYERS = """
learners.base learners.borrowed learners.field_docstrings learners.kernel_cache
learners.hyperparameters
learners.kernels learners.layouts
learners.checks learners.codec learners.growth learners.new_models
learners.learner learners.mathematics
learners.actions learners.answers learners.output_spaces
learners.algorithms
learners.registry learners.evaluation
learners.estimators
learners.warming
learners.compilation
learners.__main__
service.costs service.json_values
service.error_messages service.errors service.processes service.request_context service.strict_body service.tuples
service.compute service.per_item service.prediction_id service.store.embedded
service.store.records
service.contexts service.store
service.store.connections
service.actions service.settings service.store.redis
service.schemas
service.api.responses service.choice
service.models
service.kernels
service.environment service.replicas
service.analytics.estimates
service.analytics.verdicts
service.analytics.overviews
service.background.upkeep
service.access
service.rounds
service.registry
service.analytics service.shadows
service.background service.lifecycle service.observability
service.api.middleware service.commands
service.api.routes
service.api
service.app
toolkit.files toolkit.load toolkit.progress toolkit.remote toolkit.backup_folder
toolkit.offline_replay toolkit.visitors
toolkit.backup_store toolkit.demo
toolkit.backup toolkit.evaluation toolkit.export toolkit.fit toolkit.memory toolkit.repair toolkit.replay
toolkit.restore
toolkit.compare
toolkit.commands
service.__main__ toolkit.openapi_page toolkit.docs_pages
"""
"""A folder, or a file at the top, imports only what is in a line above its own. Subfolders belong to their folder
unless they have a place."""

LIBRARIES = {
    "numpy": "learners service toolkit",
    "pydantic": "learners service toolkit",
    "pydantic_core": "service learners.field_docstrings",
    "numba": "learners.kernels learners.borrowed",
    "fastapi": "service.api service.app",
    "starlette": "service.api",
    "msgspec": "service.api.responses service.contexts service.schemas",
    "redis": "service.store",
    "hiredis": "service.store.connections",
    "xxhash": "service.contexts.hashing service.store.stored_models",
    "limits": "service.store.access_tables",
    "standardwebhooks": "service.rounds.webhooks",
    "cloudevents": "service.rounds.webhooks",
    "prometheus_client": "service.observability",
    "structlog": "service.observability.log_format",
    "opentelemetry": "service.observability.telemetry service.store.redis",
    "pydantic_settings": "service.settings",
    "uvicorn": "service.commands",
    "httptools": "service.commands toolkit.load",
    "uvloop": "toolkit.load",
    "typer": "service.__main__ service.commands toolkit",
    "rich": "service.commands toolkit",
    "joblib": "learners.estimators",
    "matplotlib": "learners.estimators toolkit",
    "pyarrow": "toolkit.files",
    "sklearn": "learners.estimators",
    "distributed": "toolkit.evaluation.engines",
    "httpx2": "toolkit",
    # clocks, random numbers, environment: read at the top, and passed on
    "time": "service.app service.commands service.environment service.processes service.store.embedded toolkit "
    "learners.estimators service.compute service.api.middleware.metering",  # the last two measure, and decide nothing
    "os": "service.app service.commands service.environment service.processes service.store.embedded "
    "service.observability toolkit learners.kernel_cache learners.compilation",
    "random": "service.environment toolkit",
    "secrets": "service.environment toolkit",
    "uuid": "service.environment toolkit",
    "subprocess": "service.commands service.store.embedded toolkit",
    "socket": "service toolkit",
    "asyncio": "service toolkit",
    "threading": "service toolkit learners.compilation",
    # what may run code when it reads data
    **dict.fromkeys(("pickle", "dill", "marshal", "shelve", "cloudpickle"), ""),
}
"""Where each library may be imported. Other third-party libraries may be imported nowhere."""

FILES = sorted(path for folder in ("learners", "service", "toolkit") for path in (ROOT / folder).rglob("*.py"))
NAMES = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES}
PLACES = {place: number for number, line in enumerate(LAYERS.split("\n")) for place in line.split()}


@cache  # the other processes collect these tests, and run none
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in FILES}


@cache
def imports() -> list[tuple[Path, int, str]]:
    """Return the file, the line and the module of each import."""
    return [(path, line, target) for path, tree in trees().items() for line, target in imports_of(tree)]


def imports_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the module of each import, also of those in functions and for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield node.lineno, inner if inner in NAMES.values() else origin


def place_of(module: str) -> str:
    """Return the innermost place in the layers of a module."""
    parts = module.split(".")
    return next((place for n in range(len(parts), 0, -1) if (place := ".".join(parts[:n])) in PLACES), "")


def is_within(module: str, places: str) -> bool:
    """Check whether a module is one of some places, or inside one."""
    return any(f"{module}.".startswith(f"{place}.") for place in places.split())


def test_folders_import_only_lower_layers() -> None:
    arrows = {(path, line, place_of(NAMES[path]), place_of(target)) for path, line, target in imports()}
    assert [path for path in FILES if not place_of(NAMES[path]) and path.name != "__init__.py"] == []
    assert [
        f"{path}:{line}: {source} may not import {target}"
        for path, line, source, target in arrows
        if target and source != target and PLACES[target] >= PLACES[source]
    ] == []


def test_libraries_clocks_and_random_numbers_stay_in_their_places() -> None:
    free = {"learners", "service", "toolkit", *(sys.stdlib_module_names - set(LIBRARIES))}
    assert [
        f"{path}:{line}: {target}"
        for path, line, target in imports()
        if (library := target.partition(".")[0]) not in free and not is_within(NAMES[path], LIBRARIES.get(library, ""))
    ] == []


def test_a_worker_imports_nothing_of_the_toolkit() -> None:
    command = "import sys, service.app, service.commands.serve; print([m for m in sys.modules if m[:7] == 'toolkit'])"
    assert subprocess.run([sys.executable, "-c", command], capture_output=True, cwd=ROOT, check=True).stdout == b"[]\n"


def test_random_numbers_and_code_are_not_made() -> None:
    """Below the top, generators are arguments. Nothing runs code from text or imports a module by name."""
    made = re.compile(r"^(eval|exec|compile|__import__|(importlib\.)?import_module|np\.random\.\w+)$")
    allowed = "service.environment service.commands toolkit learners.estimators"
    assert [
        f"{path}:{node.lineno}: {called}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and made.match(called := ast.unparse(node.func))
        if not (called.startswith("np.") and is_within(NAMES[path], allowed))
    ] == []


def test_each_algorithm_is_in_the_file_named_after_it() -> None:
    files = {name: learner.__module__.rpartition(".")[2] for name, learner in ALL_LEARNERS.items()}
    assert files == {name: name.replace("-", "_") for name in ALL_LEARNERS}


def test_functions_have_at_most_40_lines() -> None:
    assert [
        f"{path}:{node.lineno}: {node.name}"
        for path in [*FILES, *(ROOT / "client").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for body in [node.body[1:] if ast.get_docstring(node) else node.body]
        if body and (body[-1].end_lineno or 0) - body[0].lineno >= 40
    ] == []


@pytest.mark.parametrize("path", [each for each in FILES if each.name != "__main__.py"], ids=NAMES.get)
def test_public_methods_have_or_inherit_a_docstring(path: Path) -> None:
    module = import_module(NAMES[path])
    classes = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
    assert [
        f"{each.__qualname__}.{name}"
        for each in classes
        if not each.__name__.startswith("_")
        for name, member in vars(each).items()
        if not name.startswith("_") and isinstance(member, property | classmethod | staticmethod | type(place_of))
        if not inspect.getdoc(getattr(each, name))
    ] == []
