"""Tests of the checker on small trees: each rule passes a sound tree and reports the line of each violation."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture import rules, sizes
from tests.architecture.graphs import graph_of, longest_chain, shortest_cycles
from tests.architecture.modules import SourceTree

ROOMS = {"house": "", "house.words": "", "house.low": "house.words", "house.high": "house.low house.words"}
LIBRARIES = {"redis": "house.low", "numpy": "house"}
SOUND = {
    "__init__.py": '"""The house."""\n',
    "words.py": '"""Words."""\n',
    "low/__init__.py": '"""Low."""\n',
    "low/store.py": '"""The store."""\n\nimport json\n\nimport redis\n\nfrom house.words import WORD\n',
    "high/__init__.py": '"""High."""\n',
    "high/use.py": '"""Use."""\n\nfrom house.low import store\nfrom house.low.store import get\n',
}

Rule = Callable[[SourceTree], list[str]]


def arrows(tree: SourceTree) -> list[str]:
    """Apply the rule about imports between rooms, with the rooms of these trees."""
    return rules.forbidden_arrows(tree, ROOMS)


def homes(tree: SourceTree) -> list[str]:
    """Apply the rule that each module has a room."""
    return rules.modules_without_room(tree, ROOMS)


def libraries(tree: SourceTree) -> list[str]:
    """Apply the rule about libraries."""
    return rules.foreign_imports(tree, LIBRARIES | {"time": "", "os": "house.high"}, ("house",))


def random(tree: SourceTree) -> list[str]:
    """Apply the rule about random numbers."""
    return rules.uses_of_random(tree, ("house.high",))


def names(tree: SourceTree) -> list[str]:
    """Apply the rule about names of algorithms."""
    return rules.misnamed_algorithms(tree, "house.low")


def outer_cycles(tree: SourceTree) -> list[str]:
    """Apply the rule about cycles between the outer folders."""
    return rules.folder_cycles(tree, 2)


class Broken(NamedTuple):
    """Changes to the sound tree, and the messages that one rule gives for them."""

    rule: Rule
    files: dict[str, str]  # files to change or add
    expected: list[str]  # a part of each message


CYCLE_OF_TWO = {"low/a.py": "import house.low.b\n", "low/b.py": "from house.low import a\n"}
CYCLE_OF_THREE = CYCLE_OF_TWO | {"low/b.py": "from house.low.c import d\n", "low/c.py": "\nfrom house.low.a import d\n"}
LAZY = CYCLE_OF_TWO | {"low/b.py": "def f():\n    from house.low.a import d\n"}
TYPES = CYCLE_OF_TWO | {"low/b.py": "if TYPE_CHECKING:\n    from house.low.a import d\n"}
FOLDERS = {"low/a.py": "import house.high.b\n", "high/b.py": "", "high/c.py": "import house.low.d\n", "low/d.py": ""}
NESTED = {
    "low/__init__.py": "",
    "low/in/__init__.py": "",
    "low/in/a.py": "import house.high.b\n",
    "high/b.py": "",
}

BROKEN = {
    "a cycle of two": Broken(rules.module_cycles, CYCLE_OF_TWO, ["house/low/a.py:1: house.low.a imports house.low.b"]),
    "a cycle of three": Broken(
        rules.module_cycles, CYCLE_OF_THREE, ["house/low/c.py:2: house.low.c imports house.low.a"]
    ),
    "a cycle inside a function": Broken(rules.module_cycles, LAZY, ["house/low/b.py:2"]),
    "a cycle for types only": Broken(rules.module_cycles, TYPES, ["house/low/b.py:2"]),
    "folders in a cycle": Broken(rules.folder_cycles, FOLDERS, ["house/low/a.py:1"]),
    "a folder's folder in a cycle": Broken(outer_cycles, NESTED, ["house/low/in/a.py:1"]),
    "a forbidden arrow": Broken(
        arrows, {"low/a.py": "\nimport house.high.use\n"}, ["house/low/a.py:2: house.low.a imports"]
    ),
    "an upward arrow": Broken(arrows, {"words.py": "from house.low import store\n"}, ["house/words.py:1"]),
    "a module without a room": Broken(homes, {"attic.py": ""}, ["house/attic.py:1: house.attic is in no room"]),
    "a relative import": Broken(rules.relative_imports, {"low/a.py": "from . import store\n"}, ["house/low/a.py:1"]),
    "a library in another room": Broken(libraries, {"high/a.py": "import redis.asyncio\n"}, ["house/high/a.py:1"]),
    "an unlisted library": Broken(libraries, {"low/a.py": "from pickles import x\n"}, ["house/low/a.py:1"]),
    "a clock": Broken(libraries, {"high/a.py": "def f():\n    import time\n"}, ["house/high/a.py:2"]),
    "random numbers by name": Broken(random, {"low/a.py": "from numpy import random\n"}, ["house/low/a.py:1"]),
    "a generator by name": Broken(random, {"low/a.py": "from numpy.random import default_rng\n"}, ["house/low/a.py:1"]),
    "an import by name": Broken(
        rules.made_code,
        {"low/a.py": "importlib.import_module('house.high')\n"},
        ["house/low/a.py:1: house.low.a calls importlib.import_module"],
    ),
    "random numbers": Broken(random, {"low/a.py": "x = np.random.default_rng()\n"}, ["house/low/a.py:1"]),
    "code from text": Broken(
        rules.made_code, {"low/a.py": "\neval('1')\n"}, ["house/low/a.py:2: house.low.a calls eval"]
    ),
    "an algorithm in another file": Broken(
        names, {"low/a.py": "class A:\n    algorithm: str = 'a-b'\n"}, ["house/low/a.py:2: a-b is in a.py"]
    ),
    "a long function": Broken(
        sizes.long_functions,
        {"low/a.py": "def f():\n    '''Do.'''\n" + "    x\n" * 41},
        ["house/low/a.py:1: f has 41 lines"],
    ),
    "a module and a method without docstrings": Broken(
        sizes.undocumented,
        {"low/a.py": "class A:\n    '''A.'''\n    def f(self): ...\n    def _g(self): ...\n"},
        ["house/low/a.py:1: the module", "house/low/a.py:3: f"],
    ),
}

EDGE = {
    "a function of 40 lines": Broken(
        sizes.long_functions, {"low/a.py": "def f():\n    '''Do.'''\n" + "    x\n" * 40}, []
    ),
    "a class of its file's name": Broken(names, {"low/a_b.py": "class A:\n    algorithm: str = 'a-b'\n"}, []),
    "a library in its room": Broken(
        libraries, {"high/a.py": "import os\nimport numpy\n", "low/a.py": "import redis\n"}, []
    ),
}


def tree(root: Path, files: dict[str, str]) -> SourceTree:
    """Write the sound tree with some files changed or added."""
    for name, text in (SOUND | files).items():
        path = root / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return SourceTree(root, ("house",))


@pytest.mark.parametrize("rule", dict.fromkeys(case.rule for case in BROKEN.values()), ids=lambda rule: rule.__name__)
def test_every_rule_passes_a_sound_tree(tmp_path: Path, rule: Rule) -> None:
    """No rule reports a violation in the sound tree."""
    assert rule(tree(tmp_path, {})) == []


@pytest.mark.parametrize("case", (BROKEN | EDGE).values(), ids=BROKEN | EDGE)
def test_each_rule_reports_violations_with_their_lines(tmp_path: Path, case: Broken) -> None:
    """Each violation gives one message; a tree exactly at a limit gives none."""
    messages = case.rule(tree(tmp_path, case.files))
    assert len(messages) == len(case.expected)
    assert all(part in message for part, message in zip(case.expected, messages, strict=True)), messages


def test_rooms_without_modules_are_reported(tmp_path: Path) -> None:
    """A row of the table without a module, as a moved folder leaves it, is a violation."""
    assert rules.modules_without_room(tree(tmp_path, {}), ROOMS | {"house.cellar": ""}) == [
        "house.cellar is an empty room"
    ]


def test_graphs_find_cycles_and_the_longest_chain() -> None:
    """Each cycle is found once, whichever node it is entered from; the longest chain is found."""
    graph = graph_of([("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "b"), ("d", "d"), ("e", "a")])
    assert shortest_cycles(graph) == [["a", "b"], ["b", "c", "d"]]
    assert longest_chain(graph_of([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])) == ["a", "b", "c", "d"]
