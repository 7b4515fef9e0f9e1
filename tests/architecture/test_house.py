"""The architecture of this repository: rooms and arrows, libraries, sizes."""

import pytest

from learners.registry import ALL_LEARNERS
from tests.architecture import rules, sizes
from tests.architecture.graphs import graph_of, shortest_cycles
from tests.architecture.modules import product
from tests.architecture.rooms import EXECUTABLE, LIBRARIES, ROOMS, WORLD

OWN = ("learners", "service")
TREE = product()

_WITH_SEEDS = "service.environment", "service.commands", "toolkit.load", "learners.estimators.seeds"
"""The modules and rooms that make random numbers; estimators make them from seeds that their caller gives."""


def assert_no_violations(violations: list[str]) -> None:
    """Fail with all violations, one per line."""
    assert not violations, "\n".join(["", *violations])


def test_each_module_has_a_room() -> None:
    """The table covers every module, and no room is empty."""
    assert_no_violations(rules.modules_without_room(TREE, ROOMS))


def test_room_table_has_no_cycle() -> None:
    """The allowed imports between rooms form no cycle."""
    allowed = graph_of((room, target) for room, targets in ROOMS.items() for target in targets.split())
    assert set(allowed) <= set(ROOMS)
    assert shortest_cycles(allowed) == []


def test_rooms_import_only_allowed_rooms() -> None:
    """Rooms import only what the table allows, by absolute names."""
    assert_no_violations(rules.forbidden_arrows(TREE, ROOMS))
    assert_no_violations(rules.relative_imports(TREE))


def test_modules_have_no_import_cycle() -> None:
    """No modules import each other, not even inside functions or for types only."""
    assert_no_violations(rules.module_cycles(TREE))


@pytest.mark.parametrize("depth", [None, 2], ids=["folders", "outer folders"])
def test_folders_have_no_import_cycle(depth: int | None) -> None:
    """No folders import each other, on their own or together with their subfolders."""
    assert_no_violations(rules.folder_cycles(TREE, depth))


def test_each_algorithm_is_in_the_file_named_after_it() -> None:
    """The learner `soba-low-rank` is in `soba_low_rank.py`, as `learners/__init__.py` states."""
    files = {name: learner.__module__.rpartition(".")[2] for name, learner in ALL_LEARNERS.items()}
    assert files == {name: name.replace("-", "_") for name in ALL_LEARNERS}


def test_libraries_stay_in_their_rooms() -> None:
    """The interface alone imports FastAPI, the store redis, the kernels numba; the table lists every library."""
    assert_no_violations(rules.foreign_imports(TREE, LIBRARIES, OWN))


def test_clocks_randomness_and_environment_are_arguments() -> None:
    """The learners have no clock, randomness or environment; the service reads them at its top and passes them on."""
    libraries = LIBRARIES | WORLD
    assert_no_violations(rules.foreign_imports(TREE, libraries, OWN))
    assert_no_violations(rules.uses_of_random(TREE, _WITH_SEEDS))


def test_product_runs_no_code_from_data() -> None:
    """The product imports no pickle or similar library, and runs no code made from text."""
    assert_no_violations(rules.foreign_imports(TREE, LIBRARIES | dict.fromkeys(EXECUTABLE, ""), OWN))
    assert_no_violations(rules.made_code(TREE))


def test_each_algorithm_file_has_its_name() -> None:
    """Each algorithm is in the file of its name: `soba-newton` in `soba_newton.py`."""
    assert_no_violations(rules.misnamed_algorithms(TREE, "learners.algorithms"))


def test_functions_are_short() -> None:
    """No function body has more than 40 lines."""
    assert_no_violations(sizes.long_functions(TREE))


def test_public_definitions_have_docstrings() -> None:
    """Every module, and every public class, function and method, has a docstring."""
    assert_no_violations(sizes.undocumented(TREE))
