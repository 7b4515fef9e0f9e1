"""The laws of the links in openapi.json: a link leads from an answer to an operation that knows what it names."""

import json
from typing import Any

import httpx2
import pytest

from tests.service.api_description import api_description
from tests.service.sample_models import definition

OPERATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, item in api_description()["paths"].items()
    for method, operation in item.items()
}
LINKS = [
    (source, status, link)
    for source, (_, _, operation) in OPERATIONS.items()
    for status, answer in operation["responses"].items()
    for link in answer.get("links", {}).values()
]
X = [0.6, 0.8, 0.0]
BODIES: dict[str, Any] = {  # what a request needs besides the members of its link
    "create_model": lambda: definition("linked"),
    "clone_model": lambda: {"name": "linked-copy"},
    "predict": lambda: {"model": "linked", "context": X},
    "predict_batch": lambda: {"contexts": [X]},
    "feedback": lambda: {"correct": True},
    "explain": lambda: {"context": X},
    "import_rounds": lambda: {"source": "s", "offset": 0, "rounds": [{"context": X, "true_label": "red"}]},
    "put_shadow": lambda: {"learner": "uniform"},
    "change_model": lambda: {"window_seconds": 77.0},
    "roll_back": lambda: {"snapshot": "kept"},
    "promote": lambda: {"shadow": "rival"},
}
PATHS = {"name": "linked", "snapshot": "kept", "shadow": "rival"}


def value_of(expression: str, response: httpx2.Response, path: dict[str, str], body: Any) -> Any:
    """Return the value of a runtime expression (OpenAPI 3.1, section 4.8.20.4)."""
    where, _, name = expression.removeprefix("$").partition("#/")
    if where == "response.body":
        return response.json()[name]
    if where == "request.body":
        return body[name]
    if where.startswith("response.header."):
        return response.headers[where.removeprefix("response.header.")]
    assert where.startswith("request.path."), expression
    return path[where.removeprefix("request.path.")]


async def ask(
    client: httpx2.AsyncClient, operation: str, path: dict[str, str], headers: dict[str, str], body: Any
) -> httpx2.Response:
    """Request an operation."""
    method, template, described = OPERATIONS[operation]
    content = {"json": body} if "application/json" in described.get("requestBody", {}).get("content", {}) else {}
    return await client.request(method, template.format(**path), headers=headers, **content)


async def answered(client: httpx2.AsyncClient, source: str) -> tuple[httpx2.Response, Any]:
    """Request an operation that succeeds, after making the models that it needs; return its answer and its body."""
    for name in ("linked", "linked-copy", "linked-import"):
        await client.delete(f"/models/{name}")
    if source != "create_model":
        await ask(client, "create_model", {}, {}, BODIES["create_model"]())
        await ask(client, "take_snapshot", PATHS, {}, {"id": "kept"})
        if source != "put_shadow":
            await ask(client, "put_shadow", PATHS, {}, BODIES["put_shadow"]())
    if source == "import_model":
        file = (await client.get("/models/linked/export")).content
        headers = {"content-type": "application/octet-stream"}
        return await client.post("/models/linked-import/import", content=file, headers=headers), None
    body = BODIES.get(source, dict)()
    if source == "activate":
        made = {"model": "linked", "context": X, "activated": False}
        body = {"prediction_id": (await client.post("/predict", json=made)).json()["prediction_id"]}
    return await ask(client, source, PATHS, {"if-match": "*"}, body), body


def expected(source: str, link: dict[str, Any]) -> range:
    """Return the statuses of a request along a link."""
    if link["operationId"] in {"roll_back", "promote"}:
        if "header.if-match" not in link["parameters"]:
            return range(428, 429)  # the caller must add what the answer does not contain
        if source == "create_model":
            return range(404, 405)  # a new model has no snapshots and no shadows
    return range(200, 300)


@pytest.mark.parametrize("source", sorted({source for source, _, _ in LINKS}))
async def test_a_link_leads_to_what_it_names(client: httpx2.AsyncClient, source: str) -> None:
    """A request that is built from an answer and its link finds the model, prediction, snapshot or shadow."""
    for of_source, status, link in LINKS:
        if of_source == source:
            await check_link(client, source, status, link)


async def check_link(client: httpx2.AsyncClient, source: str, status: str, link: dict[str, Any]) -> None:
    """Get an answer and follow one of its links."""
    answer, body = await answered(client, source)
    assert str(answer.status_code) == status, answer.text
    path, headers = dict(PATHS), dict[str, str]()
    for name, expression in link.get("parameters", {}).items():
        place, _, parameter = name.partition(".")
        {"path": path, "header": headers}[place][parameter] = value_of(expression, answer, PATHS, body)
    target = link["operationId"]
    given = {key: value_of(expression, answer, PATHS, body) for key, expression in link.get("requestBody", {}).items()}
    response = await ask(client, target, path, headers, BODIES.get(target, dict)() | given)
    assert response.status_code in expected(source, link), (link, response.text)


def test_links_name_parameters_of_their_targets() -> None:
    """Each parameter of a link is one of its target, and every link is needed once only."""
    assert len(LINKS) == len({json.dumps(each) for each in LINKS}) > 30
    for _, _, link in LINKS:
        of_target = {
            f"{each['in']}.{each['name']}" for each in OPERATIONS[link["operationId"]][2].get("parameters", [])
        }
        assert set(link.get("parameters", {})) <= of_target
