"""The laws of the distribution: it needs nothing of the service, and has a class for each problem."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from service.api.responses.problem_types import every_kind
from tests.client.problem_classes import PATH, text
from wager_client import problems
from wager_client.errors import ProblemError, problem_of

ROOT = Path(__file__).parents[2]

CLIENT = ROOT / "client"


def test_every_problem_type_has_a_class() -> None:
    assert PATH.read_text() == text()
    for kind in every_kind():
        error = problem_of(kind.status, {"type": f"urn:wager:problem:{kind.slug}"})
        assert type(error) is ProblemError.of_slug[kind.slug]
        assert getattr(problems, type(error).__name__) is type(error)


def test_the_client_imports_httpx2_only() -> None:
    declared = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [each.partition(">")[0] for each in declared] == ["httpx2"]
    sources = "".join(path.read_text() for path in (CLIENT / "wager_client").rglob("*.py"))
    names = set(re.findall(r"^\s*(?:from|import) (\w+)", sources, re.MULTILINE))
    assert names - set(sys.stdlib_module_names) == {"wager_client", "httpx2"}


def test_every_public_name_is_exported() -> None:
    tree = ast.parse((CLIENT / "wager_client" / "__init__.py").read_text())
    imported = {a.asname or a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    (listed,) = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"]
    assert set(ast.literal_eval(listed.value)) == imported


def test_the_wheel_works_without_the_service(tmp_path: Path) -> None:
    wheel = pytest.importorskip("hatchling.builders.wheel")
    built = Path(next(wheel.WheelBuilder(str(CLIENT)).build(directory=str(tmp_path), versions=["standard"])))
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    assert {"wager_client/__init__.py", "wager_client/py.typed"} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"wager_client"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "import wager_client\n"
        "assert wager_client.__file__.startswith(sys.argv[1])\n"
        "sys.exit(str({'service', 'learners', 'numpy', 'pydantic'} & set(sys.modules) or ''))"
    )
    command = [sys.executable, "-P", "-c", code, str(tmp_path / "installed")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
