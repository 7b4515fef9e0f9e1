"""The laws of all problems: openapi.json lists the type for the operation, and the detail is in plain words."""

import re
from functools import cache
from typing import Any

import httpx2

from service.api.responses import problem_types
from service.api.responses.problems import TYPE_PREFIX
from tests.service.api_description import api_description
from tests.service.error_messages.plain_words import check_problem

ANYWHERE = {"internal-error", "no-such-path", "method-not-allowed"}
"""The types that openapi.md declares for all operations at once, or that concern no operation."""


@cache
def _paths() -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = api_description()["paths"]
    return paths


@cache
def _listed(method: str, path: str, status: int) -> frozenset[str] | None:
    template = min((each for each in _paths() if _fits(each, path)), key=lambda each: each.count("{"), default="")
    operation = _paths().get(template, {}).get(method.lower())
    if operation is None:
        return None
    listed = {*re.findall(r"`([a-z-]+)`", operation["responses"].get(str(status), {}).get("description", ""))}
    validated = problem_types.validation_slugs() if "invalid-request" in listed else []
    unread = [] if "requestBody" in operation else ["slow-body", "body-too-large"]  # of a body that it does not need
    return frozenset({*listed, *validated, *unread, *ANYWHERE})


def _fits(template: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path.removeprefix("/v1")) is not None


def check_declared(method: str, path: str, problem: dict[str, Any]) -> None:
    slug = problem["type"].removeprefix(TYPE_PREFIX)
    listed = _listed(method, path, problem["status"])
    assert listed is None or slug in listed, f"openapi.json does not list {slug} for {method} {path}"


async def check_response(response: httpx2.Response) -> None:
    if response.headers.get("content-type") == "application/problem+json" and await response.aread():
        check_declared(response.request.method, response.request.url.path, response.json())
        check_problem(response.json())
