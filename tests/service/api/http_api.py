"""A client of the HTTP interface for tests: the routes under a prefix, with one model."""

import json
from typing import Any

import httpx2

from tests.service.sample_models import definition

X = [0.6, 0.8, 0.0]


PROBLEM = "application/problem+json"


class Api:
    """The routes under a prefix, with one model per test."""

    def __init__(self, client: httpx2.AsyncClient, prefix: str, name: str) -> None:
        self._client = client
        self._prefix = prefix
        self.name = name

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        """Post an object as JSON."""
        return await self._client.post(self._prefix + path, json=body)

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        """Get a resource."""
        return await self._client.get(self._prefix + path, params=query)

    async def patch(self, path: str, version: str = "*", **body: Any) -> httpx2.Response:
        """Change a resource of this version."""
        return await self._client.patch(self._prefix + path, json=body, headers={"If-Match": version})

    async def delete(self, path: str) -> httpx2.Response:
        """Delete a resource."""
        return await self._client.delete(self._prefix + path)

    async def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send any request."""
        return await self._client.request(method, self._prefix + path, **options)

    async def change(self, tag: str | None, **body: Any) -> httpx2.Response:
        """Change the test's model, if its ETag is this one."""
        headers = {} if tag is None else {"If-Match": tag}
        return await self._client.patch(f"{self._prefix}/models/{self.name}", json=body, headers=headers)

    async def tag(self) -> str:
        """Return the ETag of the test's model."""
        tag: str = (await self.get(f"/models/{self.name}")).headers["etag"]
        return tag

    async def create(self, **fields: Any) -> httpx2.Response:
        """Create the test's model."""
        return await self.post("/models", **definition(self.name, **fields))

    async def model(self) -> dict[str, Any]:
        """Return the current model."""
        return body_of(await self.get(f"/models/{self.name}"), 200)

    async def predict(self, context: list[float] = X, **fields: Any) -> httpx2.Response:
        """Request a prediction of the test's model."""
        return await self.post("/predict", model=self.name, context=context, **fields)

    async def judge(self, prediction_id: str, **feedback: Any) -> httpx2.Response:
        """Send feedback."""
        return await self.post("/feedback", prediction_id=prediction_id, **feedback)

    async def rounds(self, **query: Any) -> list[dict[str, Any]]:
        """Return lines of the log."""
        response = await self.get(f"/models/{self.name}/rounds", **query)
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.text.splitlines()]


def body_of(response: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the JSON object of an answer, after checking its status."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def problem_of(response: httpx2.Response, status: int, slug: str, field: str | None = None) -> dict[str, Any]:
    """Return the problem of an answer, after checking its status, type and field."""
    assert response.headers["content-type"] == PROBLEM
    problem = body_of(response, status)
    found = (problem["type"], problem["status"], problem.get("field"))
    assert found == (f"urn:wager:problem:{slug}", status, field)
    return problem
