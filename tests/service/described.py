"""Checks that an answer is as openapi.json describes it."""

import json
from functools import cache
from typing import Any

import httpx2
import jsonschema_rs

from service.api.responses.evaluation_failures import is_ofrep
from tests.service.api_description import api_description
from tests.service.error_messages.plain_words import check_problem

# Problem types for a generated path that is not the operation's path.
OFF_PATH = {"urn:wager:problem:no-such-path", "urn:wager:problem:method-not-allowed"}
_PROBLEM = {
    "description": "",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def check_described(described: dict[str, Any], response: httpx2.Response) -> None:
    check_type(described, response)
    check_schema(described, response)
    check_refusal(described, response)


def media_type_of(response: httpx2.Response) -> str:
    media_type: str = response.headers.get("content-type", "").partition(";")[0]
    return media_type


def description_of(described: dict[str, Any], response: httpx2.Response) -> dict[str, Any]:
    if media_type_of(response) == "application/problem+json" and response.json()["type"] in OFF_PATH:
        return _PROBLEM
    assert str(response.status_code) in described, f"undocumented status {response.status_code}"
    found: dict[str, Any] = described[str(response.status_code)]
    return found


def check_type(described: dict[str, Any], response: httpx2.Response) -> None:
    described = description_of(described, response)
    if response.status_code not in (204, 304):
        assert media_type_of(response) in described["content"], f"undocumented type {media_type_of(response)}"


def check_schema(described: dict[str, Any], response: httpx2.Response) -> None:
    media_type = media_type_of(response)
    if media_type.endswith("json") and media_type != "application/x-ndjson" and response.content:
        schema = description_of(described, response)["content"][media_type]["schema"]
        _validator_of(json.dumps(schema)).validate(response.json())


def check_refusal(described: dict[str, Any], response: httpx2.Response) -> None:
    if response.status_code < 400 or is_ofrep(response.request.url.path):  # whose failures name no type
        return
    assert media_type_of(response) == "application/problem+json"
    problem = response.json()
    assert problem["status"] == response.status_code
    check_problem(problem)
    slug, description = problem["type"].removeprefix("urn:wager:problem:"), description_of(described, response)
    assert response.status_code == 422 or problem["type"] in OFF_PATH or f"`{slug}`" in description["description"]


@cache
def _validator_of(schema: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(schema) | {"components": api_description()["components"]})
