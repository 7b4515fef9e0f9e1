"""The laws of openapi.json, and of openapi.md, which is generated from it."""

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from service import errors
from service.api.responses import problem_types
from service.app import create_app
from service.errors import InvalidInputError
from service.settings import Settings
from tests.service.api_description import api_description

_ROOT = Path(__file__).parents[3]
_PAGE = (_ROOT / "openapi.md").read_text()
_API: dict[str, Any] = api_description()
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_TYPES = {"string", "integer", "number", "boolean", "array", "object", "null"}


class Operation(NamedTuple):
    """An operation in openapi.json."""

    method: str
    path: str
    about: dict[str, Any]


OPERATIONS = [
    Operation(method.upper(), path, about) for path, item in _API["paths"].items() for method, about in item.items()
]
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.about["operationId"])


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from objects_in(each)


# --- openapi.md


def test_the_files_are_up_to_date(tmp_path: Path) -> None:
    """The command writes both files to the byte, whatever the environment. To update them, run `make openapi`."""
    strange = {
        "PYTHONHASHSEED": "7",
        "PYTHONPATH": str(_ROOT),
        "WAGER_MAX_BATCH_ITEMS": "2",
        "WAGER_STORE_URL": "http:",
    }
    command = [sys.executable, "-m", "toolkit.openapi_page"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | strange, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["openapi.json", "openapi.md"]
    for path in tmp_path.iterdir():
        assert path.read_text() == (_ROOT / path.name).read_text()
    assert json.loads((_ROOT / "openapi.json").read_text()) == _API


def test_every_link_of_the_page_resolves() -> None:
    """All links resolve, headings are unique, and the table at the top lists every operation."""
    headings = [line.lstrip("# ").lower().replace(" ", "-") for line in _PAGE.splitlines() if line.startswith("##")]
    links = re.findall(r"\]\(#([^)]*)\)", _PAGE)
    assert len(set(headings)) == len(headings)
    assert set(links) <= set(headings)
    assert all(f"[`{each.method} {each.path}`](#" in _PAGE for each in OPERATIONS)


def test_the_page_is_plain_markdown() -> None:
    """There is no `<` outside code, and all rows of a table have the same number of cells."""
    assert "<" not in _CODE.sub("", _PAGE)
    for table in re.findall(r"(?:^\|.*\|\n)+", _PAGE, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


def test_every_problem_is_in_the_table() -> None:
    """Each problem type that the service can write has a row with its status."""
    rows = dict(re.findall(r"\n\| `([a-z-]+)` \| (\d{3}) \|", _PAGE))
    written = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', inspect.getsource(problem_types) + inspect.getsource(errors)))
    assert written == set(rows)
    assert {kind.slug: str(kind.status) for kind in problem_types.OF_ERROR.values()}.items() <= rows.items()


def test_every_invalid_input_is_declared_by_an_operation() -> None:
    """Each type of problem that the service raises about input is in the table of some operation."""
    listed = {slug for each in OPERATIONS for slug in re.findall(r"`([a-z-]+)`", str(each.about["responses"]))}
    raised = {kind.slug for error, kind in problem_types.OF_ERROR.items() if issubclass(error, InvalidInputError)}
    assert raised <= listed | {*problem_types.validation_slugs()}


def test_actions_have_features() -> None:
    """No kind without features is allowed for actions, and the descriptions do not mention one."""
    schemas = _API["components"]["schemas"]
    kinds = schemas["ActionsDefinition"]["properties"]["features"]["discriminator"]["mapping"]
    assert "none" not in kinds
    assert "none" in schemas["ModelDefinition"]["properties"]["features"]["discriminator"]["mapping"]
    assert "without features" not in json.dumps(schemas["GivenAction"])


# --- openapi.json


@each_operation
def test_every_operation_is_described(operation: Operation) -> None:
    """Each operation has a summary, a description, one tag, and a description of each answer, with one success."""
    about = operation.about
    assert about["summary"]
    assert about["description"].endswith(".")
    assert len(about["tags"]) == 1
    assert all(response["description"] for response in about["responses"].values())
    assert [status for status in about["responses"] if status.startswith("2")] == [next(iter(about["responses"]))]


def test_operation_ids_are_unique_names() -> None:
    """Operation ids are unique, and valid function names for generated clients."""
    ids = [each.about["operationId"] for each in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert all(each.isidentifier() for each in ids)


@each_operation
def test_parameters_are_declared(operation: Operation) -> None:
    """The names in a path are its required path parameters; only some methods have a body."""
    parameters = operation.about.get("parameters", [])
    in_path = {each["name"] for each in parameters if each["in"] == "path" and each["required"]}
    assert in_path == set(re.findall(r"\{(\w+)\}", operation.path))
    assert len({(each["name"], each["in"]) for each in parameters}) == len(parameters)
    assert operation.method in {"POST", "PUT", "PATCH"} or "requestBody" not in operation.about


def test_the_document_is_openapi_3_1() -> None:
    """The document has the members required by OpenAPI 3.1, no dangling reference, and only JSON Schema types."""
    assert _API["openapi"].startswith("3.1.")
    assert {"title", "version", "description", "license"} <= set(_API["info"])
    assert set(_API) <= {"openapi", "info", "servers", "paths", "components", "security", "tags", "webhooks"}
    assert all(re.fullmatch(r"/[a-z0-9_{}./-]*", path) for path in _API["paths"])
    references = {each["$ref"] for each in objects_in(_API) if "$ref" in each}
    assert references == {f"#/components/schemas/{name}" for name in _API["components"]["schemas"]}
    for schema in objects_in(_API["components"]["schemas"]):
        kind = schema.get("type", "object")
        assert isinstance(kind, dict) or kind in _TYPES  # a dict is a property named `type`


def test_the_service_serves_the_same_document() -> None:
    """`/openapi.json` is the document that the page is generated from."""

    async def ask() -> Any:
        transport = httpx2.ASGITransport(app=create_app(Settings(store_url="unix:///nowhere/valkey.sock")))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get("/openapi.json")).json()

    assert asyncio.run(ask()) == _API


def test_required_keys_do_not_change_the_description() -> None:
    """The description is that of a service with keys and of one without: other tests read either."""
    closed = create_app(Settings(store_url="unix:///nowhere/valkey.sock", auth="required"))
    assert closed.openapi() == api_description()
