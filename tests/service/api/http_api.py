"""A client of the HTTP interface for tests, and requests that begin and never continue."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.service.sample_models import definition, some_contexts

X = [0.6, 0.8, 0.0]
PROBLEM = "application/problem+json"


class Api:
    def __init__(self, client: httpx2.AsyncClient, prefix: str, name: str) -> None:
        self._client = client
        self.prefix = prefix
        self.name = name

    async def post(self, path: str, **body: Any) -> httpx2.Response:
        return await self._client.post(self.prefix + path, json=body)

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        return await self._client.get(self.prefix + path, params=query)

    async def patch(self, path: str, version: str = "*", **body: Any) -> httpx2.Response:
        return await self._client.patch(self.prefix + path, json=body, headers={"If-Match": version})

    async def delete(self, path: str) -> httpx2.Response:
        return await self._client.delete(self.prefix + path)

    async def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return await self._client.request(method, self.prefix + path, **options)

    async def change(self, tag: str | None, **body: Any) -> httpx2.Response:
        headers = {} if tag is None else {"If-Match": tag}
        return await self._client.patch(f"{self.prefix}/models/{self.name}", json=body, headers=headers)

    async def tag(self) -> str:
        tag: str = (await self.get(f"/models/{self.name}")).headers["etag"]
        return tag

    async def create(self, **fields: Any) -> httpx2.Response:
        return await self.post("/models", **definition(self.name, **fields))

    async def model(self) -> dict[str, Any]:
        return body_of(await self.get(f"/models/{self.name}"), 200)

    async def predict(self, context: list[float] = X, **fields: Any) -> httpx2.Response:
        return await self.post("/predict", model=self.name, context=context, **fields)

    async def judge(self, prediction_id: str, **feedback: Any) -> httpx2.Response:
        return await self.post("/feedback", prediction_id=prediction_id, **feedback)

    async def batch(self, n: int, top: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Request n predictions for X in a batch of items."""
        items, more = [{"context": X} | fields] * n, {} if top is None else {"top": top}
        found: list[dict[str, Any]] = body_of(
            await self.post("/predict/batch", model=self.name, items=items, **more), 200
        )["predictions"]
        return found

    async def learn(self, n: int = 3) -> None:
        """Add rounds of different contexts, every second one correct."""
        for i, context in enumerate(some_contexts(n, n)):
            made = body_of(await self.predict(context), 200)["prediction_id"]
            body_of(await self.judge(made, correct=i % 2 == 0), 200)

    async def distribution(self) -> dict[str, float]:
        """Return the probabilities of the labels for X."""
        found: dict[str, float] = body_of(await self.predict(include_distribution=True), 200)["distribution"]
        return found

    def named(self, name: str) -> "Api":
        return Api(self._client, self.prefix, name)

    async def exported(self) -> bytes:
        response = await self.get(f"/models/{self.name}/export")
        assert response.status_code == 200
        assert response.headers["content-disposition"] == f'attachment; filename="{self.name}.safetensors"'
        return response.content

    async def imported(self, content: bytes) -> httpx2.Response:
        """Import a file as the test's model."""
        headers = {"Content-Type": "application/octet-stream"}
        return await self.request("POST", f"/models/{self.name}/import", content=content, headers=headers)

    async def rounds(self, **query: Any) -> list[dict[str, Any]]:
        response = await self.get(f"/models/{self.name}/rounds", **query)
        assert response.headers["content-type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.text.splitlines()]


def body_of(response: httpx2.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def problem_of(response: httpx2.Response, status: int, slug: str, field: str | None = None) -> dict[str, Any]:
    assert response.headers["content-type"] == PROBLEM
    problem = body_of(response, status)
    found = (problem["type"], problem["status"], problem.get("field"))
    assert found == (f"urn:wager:problem:{slug}", status, field)
    return problem


def chi_square(drawn: Sequence[Any], expected: dict[Any, float]) -> float:
    """Return the chi-square statistic of answers against their probabilities; rare ones are one cell."""
    counts, n = Counter(drawn), len(drawn)
    assert set(counts) <= set(expected)
    usual = [each for each, p in expected.items() if n * p >= 5.0]
    rest = max(1.0 - sum(expected[each] for each in usual), 0.0)
    total = sum((counts[each] - n * expected[each]) ** 2 / (n * expected[each]) for each in usual)
    others = n - sum(counts[each] for each in usual)
    return total + ((others - n * rest) ** 2 / (n * rest) if n * rest > 1.0 else 0.0)


async def never_ending(begun: asyncio.Semaphore, first: bytes = b"{") -> AsyncIterator[bytes]:
    yield first
    begun.release()
    await asyncio.Event().wait()


@asynccontextmanager
async def held(
    client: httpx2.AsyncClient, path: str, n: int, headers: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[asyncio.Semaphore, list[asyncio.Task[httpx2.Response]]]]:
    """Send n requests that do not end; yield what counts those that have begun, and their tasks."""
    begun = asyncio.Semaphore(0)
    slow = [asyncio.create_task(client.post(path, content=never_ending(begun), headers=headers)) for _ in range(n)]
    yield begun, slow
    for task in slow:
        task.cancel()
    await asyncio.wait(slow)
