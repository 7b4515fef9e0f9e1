"""The laws of places for requests in flight: slow bodies lose theirs to new requests."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.service.sample_models import definition
from tests.service.workers import worker

MOST = 10


async def never_ending(begun: asyncio.Semaphore) -> AsyncIterator[bytes]:
    """Yield a body that starts and never continues."""
    yield b"{"
    begun.release()
    await asyncio.Event().wait()


async def test_slow_bodies_lose_their_places(store_url: str, name: str) -> None:
    """If slow bodies hold all places, a complete request still gets one; the oldest slow body is answered with 408."""
    async with worker(store_url, max_requests_in_flight=MOST) as client:
        assert (await client.post("/models", json=definition(name))).status_code == 201
        begun = asyncio.Semaphore(0)
        slow = [asyncio.create_task(client.post("/predict", content=never_ending(begun))) for _ in range(MOST)]
        for _ in slow:
            await begun.acquire()
        for _ in range(3):
            answer = await client.post("/predict", json={"model": name, "context": [1.0, 0.0, 0.0]})
            assert answer.status_code == 200
        lost = [task for task in slow if task.done()]
        assert lost == slow[: len(lost)]
        assert [task.result().status_code for task in lost] == [408] * len(lost)
        assert 1 <= len(lost) <= 3
        assert all(task.result().json()["type"] == "urn:wager:problem:slow-body" for task in lost)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)


@pytest.mark.parametrize("path", ["/models", "/metrics"])
async def test_requests_without_a_body_keep_their_places(store_url: str, path: str) -> None:
    """A request without a body never counts as slow, even while it waits for its answer."""
    async with worker(store_url, max_requests_in_flight=1) as client:
        answers: list[httpx2.Response] = await asyncio.gather(*(client.get(path) for _ in range(5)))
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert 200 in {answer.status_code for answer in answers}


@pytest.mark.parametrize(("method", "path"), [("DELETE", ""), ("POST", "/reset"), ("POST", "/snapshots"), ("GET", "")])
async def test_what_loses_its_place_had_no_effect(store_url: str, name: str, method: str, path: str) -> None:
    """A request whose body still arrives has not begun, even if its operation reads no body."""
    async with worker(store_url, max_requests_in_flight=1) as client:
        created = await client.post("/models", json=definition(name))
        begun = asyncio.Semaphore(0)
        headers = {"if-match": created.headers["etag"], "content-type": "application/json"}
        slow = client.request(method, f"/models/{name}{path}", content=never_ending(begun), headers=headers)
        task = asyncio.create_task(slow)
        await begun.acquire()
        for _ in range(20):  # needs no place
            assert (await client.get("/readyz")).status_code == 200
        assert not task.done()
        seen = await client.get(f"/models/{name}")
        assert (await task).status_code == 408
        assert seen.status_code == 200
        assert seen.headers["etag"] == created.headers["etag"]
