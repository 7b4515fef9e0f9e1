"""Query parameters: every operation refuses unknown and repeated ones, except those that probes and scrapers call."""

from typing import Any

import httpx2
import pytest

from tests.service.api.http_api import body_of, problem_of
from tests.service.api_description import api_description
from tests.service.sample_models import definition

LENIENT = {"/livez", "/readyz", "/metrics"}
"""Balancers and scrapers add parameters to these."""

_API: dict[str, Any] = api_description()
OPERATIONS = [(method.upper(), path, each) for path, item in _API["paths"].items() for method, each in item.items()]
STRICT = [pytest.param(*each, id=f"{each[0]} {each[1]}") for each in OPERATIONS if each[1] not in LENIENT]


def query_names(operation: dict[str, Any]) -> list[str]:
    """Return the query parameters that the schema documents."""
    return [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]


NAMES = [
    pytest.param(method, path, name, id=f"{method} {path} {name}")
    for method, path, operation in OPERATIONS
    for name in query_names(operation)
]


@pytest.mark.parametrize("prefix", ["", "/v1"], ids=["root", "v1"])
@pytest.mark.parametrize(("method", "path", "operation"), STRICT)
async def test_an_unknown_parameter_is_refused(
    client: httpx2.AsyncClient, prefix: str, method: str, path: str, operation: dict[str, Any]
) -> None:
    """An unknown parameter gets 400; the error names it and lists the operation's parameters."""
    response = await client.request(
        method, f"{prefix}{path.format(name='m', snapshot='s', shadow='s')}?zzz=1&yyy", json={}
    )
    problem = problem_of(response, 400, "unknown-parameter", "zzz")
    assert [error["field"] for error in problem["errors"]] == ["zzz", "yyy"]
    for name in query_names(operation):
        assert name in problem["detail"].partition("known parameters: ")[2].split(", ")
    assert "`unknown-parameter`, `repeated-parameter`" in operation["responses"]["400"]["description"]


@pytest.mark.parametrize("path", sorted(LENIENT | {"/docs", "/docs/docs.js", "/openapi.json"}))
async def test_probes_may_add_parameters(client: httpx2.AsyncClient, path: str) -> None:
    """Health, metrics and the API's description ignore parameters."""
    assert (await client.get(path, params={"zzz": "1"})).status_code == 200


@pytest.mark.parametrize(("method", "path", "name"), NAMES)
async def test_the_nearest_parameter_is_suggested(
    client: httpx2.AsyncClient, method: str, path: str, name: str
) -> None:
    """The error about a misspelt parameter suggests the nearest known one."""
    response = await client.request(method, path.format(name="m", snapshot="s", shadow="s"), params={name[:-1]: "1"})
    assert f'did you mean "{name}"?' in problem_of(response, 400, "unknown-parameter", name[:-1])["detail"]


@pytest.mark.parametrize(("method", "path", "name"), NAMES)
async def test_a_repeated_parameter_is_refused(client: httpx2.AsyncClient, method: str, path: str, name: str) -> None:
    """A repeated parameter gets 400, even with equal values."""
    response = await client.request(method, f"{path.format(name='m', snapshot='s', shadow='s')}?{name}=1&{name}=1")
    problem_of(response, 400, "repeated-parameter", name)


async def test_the_answer_to_many_unknown_parameters_is_short(client: httpx2.AsyncClient) -> None:
    """The error lists the first twenty: a suggestion for each of thousands would block the worker."""
    response = await client.get("/models?" + "&".join(f"limi{number}" for number in range(5000)))
    assert len(problem_of(response, 400, "unknown-parameter", "limi0")["errors"]) == 20


async def test_a_refused_request_changes_nothing(client: httpx2.AsyncClient, name: str) -> None:
    """With an unknown parameter, no model is created, no prediction is made, no feedback counts, nothing is deleted."""
    await client.post("/models?dry_run=1", json=definition(name))
    assert (await client.get(f"/models/{name}")).status_code == 404
    assert (await client.post("/models", json=definition(name))).status_code == 201
    prediction = {"model": name, "context": [0.6, 0.8, 0.0], "prediction_id": "p"}
    await client.post("/predict?x=1", json=prediction)
    feedback = {"prediction_id": f"{name}:p", "correct": True}
    problem_of(await client.post("/feedback", json=feedback), 404, "prediction-not-found", "prediction_id")
    assert (await client.post("/predict", json=prediction)).status_code == 200
    await client.post("/feedback?x=1", json=feedback)
    await client.delete(f"/models/{name}?x=1")
    assert body_of(await client.get(f"/models/{name}"), 200)["rounds_seen"] == 0
