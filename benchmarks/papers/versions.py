"""Digests of the code and data that an outcome depends on, so that outcomes of other versions are not reused."""

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.papers.runs import PEERS, Run
from benchmarks.papers.vowpal_wabbit import ALGORITHM
from learners.registry import LEARNERS

_OURS = ("learners", "benchmarks")
_ENTRY = "benchmarks.papers.runs"
_REGISTRY = "learners.registry"


@functools.cache
def version_of(algorithm: str, file: str | None) -> str:
    """Return eight hexadecimal digits: a digest of a run's data and of its code without docstrings and comments."""
    digest = hashlib.sha256()
    peers = {name: peer.__module__ for name, peer in PEERS.items()}
    player = peers[algorithm] if algorithm in peers else LEARNERS[algorithm].__module__
    # No player depends on another one.
    for name in sorted(_reached([_ENTRY, player], {_REGISTRY, *peers.values()} - {player})):
        digest.update(_code(name).encode())
    if algorithm == ALGORITHM:
        digest.update(_version("vowpalwabbit").encode())
    if file is not None:
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:8]


def name_of(run: Run) -> str:
    """Return the name of a run's file, from its parameters and the version of its code."""
    words = [f"{key}={value}" for key, value in run.hyperparameters.items()]
    settings = "".join(letter if letter.isalnum() or letter in "=.-_," else "_" for letter in ",".join(words))
    of_code, seen = version_of(run.algorithm, run.file), "" if run.features else "-no-features"
    return f"{run.stream}/{run.algorithm}/{settings or 'default'}{seen}-T{run.rounds}-seed{run.seed}-{of_code}.json"


def _reached(names: list[str], ignored: set[str]) -> set[str]:
    """Return these modules of the project and all modules of the project that they import."""
    reached: set[str] = set()
    while names:
        name = names.pop()
        if name not in reached | ignored:
            reached.add(name)
            names.extend(_imports(name))
    return reached


def _imports(name: str) -> Iterator[str]:
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in _OURS:
            yield node.module


@functools.cache
def _tree(name: str) -> ast.Module:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text())


@functools.cache
def _code(name: str) -> str:
    """Return the source of a module without comments and docstrings."""
    tree = ast.parse(ast.unparse(_tree(name)))
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [child for child in body if not _is_text(child)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
