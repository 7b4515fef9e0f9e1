"""The HTTP interface as a test uses it: one model, under a prefix."""

import json
from typing import Any

import httpx2

from tests.service.sample_models import definition

X = [0.6, 0.8, 0.0]


PROBLEM = "application/problem+json"


class Api:
    """The routes under a prefix, with the model of this test."""

    def __init__(self, client: httpx2.AsyncClient, prefix: str, name: str) -> None:
        self._client = client
        self._prefix = prefix
        self.name = name

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        """Posts an object as JSON."""
        return await self._client.post(self._prefix + path, json=body)

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        """Gets a resource."""
        return await self._client.get(self._prefix + path, params=query)

    async def delete(self, path: str) -> httpx2.Response:
        """Deletes a resource."""
        return await self._client.delete(self._prefix + path)

    async def create(self, **fields: Any) -> httpx2.Response:
        """Creates the model of this test."""
        return await self.post("/models", **definition(self.name, **fields))

    async def model(self) -> dict[str, Any]:
        """The model as it is now."""
        return body_of(await self.get(f"/models/{self.name}"), 200)

    async def predict(self, context: list[float] = X, **fields: Any) -> httpx2.Response:
        """Asks the model of this test for a label."""
        return await self.post("/predict", model=self.name, context=context, **fields)

    async def judge(self, prediction_id: str, **said: Any) -> httpx2.Response:
        """Gives feedback."""
        return await self.post("/feedback", prediction_id=prediction_id, **said)

    async def rounds(self, **query: Any) -> list[dict[str, Any]]:
        """Lines of the log."""
        response = await self.get(f"/models/{self.name}/rounds", **query)
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.text.splitlines()]


def body_of(response: httpx2.Response, status: int) -> dict[str, Any]:
    """The JSON object of an answer that has this status."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def problem_of(response: httpx2.Response, status: int, slug: str, field: str | None = None) -> dict[str, Any]:
    """The problem of an answer, which must be this one."""
    assert response.headers["content-type"] == PROBLEM
    problem = body_of(response, status)
    told = (problem["type"], problem["status"], problem.get("field"))
    assert told == (f"urn:wager:problem:{slug}", status, field)
    return problem
