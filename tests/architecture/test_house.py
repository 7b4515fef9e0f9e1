"""The laws of this repository's architecture: rooms and arrows, libraries, sizes."""

import pytest

from learners.registry import ALL_LEARNERS
from tests.architecture import rules, sizes
from tests.architecture.graphs import graph_of, shortest_cycles
from tests.architecture.modules import ROOT, SourceTree, product
from tests.architecture.rooms import EXECUTABLE, LIBRARIES, ROOMS, WORLD

OWN = ("learners", "service")
TREE = product()
CHECKS = SourceTree(ROOT, ("tests", "benchmarks"))

EXCUSED: tuple[str, ...] = ()
"""Files of tests that are longer than others may be."""


def keep(violations: list[str]) -> None:
    """Fail with every violation, one a line."""
    assert not violations, "\n".join(["", *violations])


def test_each_module_has_a_room() -> None:
    """The table of rooms knows all modules, and no room is empty."""
    keep(rules.modules_without_room(TREE, ROOMS))


def test_the_table_of_rooms_has_no_cycle() -> None:
    """What it allows never leads back to where it began."""
    allowed = graph_of((room, target) for room, targets in ROOMS.items() for target in targets.split())
    assert set(allowed) <= set(ROOMS)
    assert shortest_cycles(allowed) == []


def test_rooms_import_what_they_may() -> None:
    """No arrow but those of the table."""
    keep(rules.forbidden_arrows(TREE, ROOMS))
    keep(rules.relative_imports(TREE))


def test_no_modules_import_each_other() -> None:
    """Not even inside functions or for types alone."""
    keep(rules.module_cycles(TREE))


@pytest.mark.parametrize("depth", [None, 2], ids=["folders", "outer folders"])
def test_no_folders_import_each_other(depth: int | None) -> None:
    """Each folder by itself, and each with the folders in it."""
    keep(rules.folder_cycles(TREE, depth))


def test_folders_are_seen_at_a_glance() -> None:
    """A folder holds at most 14 modules."""
    keep(rules.crowded_folders(TREE))


def test_each_algorithm_is_in_the_file_named_after_it() -> None:
    """The learner `soba-low-rank` is in `soba_low_rank.py`, as `learners/__init__.py` states."""
    files = {name: learner.__module__.rpartition(".")[2] for name, learner in ALL_LEARNERS.items()}
    assert files == {name: name.replace("-", "_") for name in ALL_LEARNERS}


def test_libraries_stay_in_their_rooms() -> None:
    """FastAPI in the interface, redis in the store, numba with the kernels; a new library is named in the table."""
    keep(rules.foreign_imports(TREE, LIBRARIES, OWN))


def test_clocks_randomness_and_the_environment_come_from_above() -> None:
    """The learners have none; below its top the service takes them as arguments."""
    libraries = LIBRARIES | WORLD
    keep(rules.foreign_imports(TREE, libraries, OWN))
    keep(rules.uses_of_random(TREE, ("service.environment", "service.commands", "service.load")))


def test_nothing_executable_is_read() -> None:
    """No pickle and its kin, and no code made from text, anywhere."""
    keep(rules.foreign_imports(TREE, LIBRARIES | dict.fromkeys(EXECUTABLE, ""), OWN))
    keep(rules.made_code(TREE))


def test_each_algorithm_has_a_file_of_its_name() -> None:
    """Who looks for `soba-newton` finds `soba_newton.py`."""
    keep(rules.misnamed_algorithms(TREE, "learners.algorithms"))


def test_files_are_short() -> None:
    """At most 300 lines; those of tests and benchmarks too, but for a few that are listed."""
    keep(sizes.long_files(TREE))
    keep(sizes.long_files(CHECKS, EXCUSED))


def test_functions_are_short() -> None:
    """No function's body has more than 40 lines."""
    keep(sizes.long_functions(TREE))


def test_public_things_say_what_they_are() -> None:
    """Every module, and every public class, function and method, has a docstring."""
    keep(sizes.undocumented(TREE))
