"""The laws of the API's description: openapi.json, and openapi.md generated from it."""

import dataclasses
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pydantic
import pytest

from service.api.responses import problem_types, problems
from service.app import create_app
from service.errors import InvalidInputError
from service.settings import Settings
from tests.service.api_description import api_description

_ROOT = Path(__file__).parents[3]
_PAGE = (_ROOT / "openapi.md").read_text()
_API: dict[str, Any] = api_description()


class Operation(NamedTuple):
    method: str
    path: str
    about: dict[str, Any]


OPERATIONS = [
    Operation(method.upper(), path, about) for path, item in _API["paths"].items() for method, about in item.items()
]
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.about["operationId"])


def section(operation: Operation) -> str:
    call = f"\n\n`{operation.method} {operation.path}`\n\n"
    (one,) = (part for part in re.split(r"\n(?=##)", _PAGE) if call in part)
    return one


def example(operation: Operation, heading: str) -> str | None:
    found = re.search(rf"{heading}:\n\n```json\n(.*?)\n```", section(operation), re.DOTALL)
    return found and found[1]


def validate(schema: dict[str, Any], text: str) -> None:
    name = schema["$ref"].rpartition("/")[2]
    schemas = [vars(module) for path, module in sys.modules.items() if path.startswith("service.schemas.")]
    classes = [each for names in schemas for each in names.values() if dataclasses.is_dataclass(each)]
    models: set[Any] = {*descendants(pydantic.BaseModel), *classes}
    (model,) = (each for each in models if each.__name__ == name)
    pydantic.TypeAdapter(model).validate_json(text)


def descendants(cls: type[Any]) -> Iterator[type[Any]]:
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)


def test_the_page_is_up_to_date() -> None:
    strange = {
        "PYTHONHASHSEED": "7",
        "PYTHONPATH": str(_ROOT),
        "WAGER_MAX_BATCH_ITEMS": "2",
        "WAGER_STORE_URL": "http:",
    }
    command = [sys.executable, "-m", "toolkit.openapi_page"]
    printed = subprocess.run(
        command, env=os.environ | strange, capture_output=True, check=True, encoding="utf-8"
    ).stdout
    assert printed == _PAGE


@each_operation
def test_every_example_is_valid(operation: Operation) -> None:
    body = operation.about.get("requestBody", {}).get("content", {}).get("application/json")
    assert (body is None) == (example(operation, "For example") is None)
    if body is not None:
        validate(body["schema"], example(operation, "For example") or "")
    for status, response in operation.about["responses"].items():
        answer = response.get("content", {}).get("application/json")
        if status.startswith("2") and answer is not None:
            validate(answer["schema"], example(operation, "The response") or "")


async def test_the_examples_work(client: httpx2.AsyncClient) -> None:
    named = {each.about["operationId"]: each for each in OPERATIONS}
    story = ["create_model", "predict", "feedback", "explain", "predict_batch", "feedback_batch", "get_model"]
    story.append("delete_model")
    for operation in (named[each] for each in story):
        path = operation.path.format(name="tickets", snapshot="kept", shadow="rival")
        content = example(operation, "For example")
        headers = {"Content-Type": "application/json"} if content else {}
        response = await client.request(operation.method, path, content=content, headers=headers)
        assert str(response.status_code) == next(iter(operation.about["responses"])), response.text
        assert problems.TYPE_PREFIX not in response.text


def test_every_problem_is_in_the_table() -> None:
    rows = dict(re.findall(r"\n\| `([a-z-]+)` \| (\d{3}) \|", _PAGE))
    written = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', inspect.getsource(problem_types)))
    assert written == set(rows)
    assert {kind.slug: str(kind.status) for kind in problem_types.OF_ERROR.values()}.items() <= rows.items()


def test_every_invalid_input_is_declared_by_an_operation() -> None:
    listed = {slug for each in OPERATIONS for slug in re.findall(r"`([a-z-]+)`", str(each.about["responses"]))}
    raised = {kind.slug for error, kind in problem_types.OF_ERROR.items() if issubclass(error, InvalidInputError)}
    assert raised <= listed | {*problem_types.validation_slugs()}


@each_operation
def test_every_operation_is_described(operation: Operation) -> None:
    """Each has a summary, a description, one tag, a description of each answer, and the parameters of its path."""
    about = operation.about
    assert about["summary"]
    assert about["description"].endswith(".")
    assert about["operationId"].isidentifier()
    assert len(about["tags"]) == 1
    assert all(response["description"] for response in about["responses"].values())
    assert [status for status in about["responses"] if status.startswith("2")] == [next(iter(about["responses"]))]
    in_path = {each["name"] for each in about.get("parameters", []) if each["in"] == "path" and each["required"]}
    assert in_path == set(re.findall(r"\{(\w+)\}", operation.path))


async def test_the_service_serves_the_same_document(client: httpx2.AsyncClient) -> None:
    """Required keys do not change it: other tests read either."""
    assert (await client.get("/openapi.json")).json() == _API
    closed = create_app(Settings(store_url="unix:///nowhere/valkey.sock", auth="required"))
    assert closed.openapi() == _API
