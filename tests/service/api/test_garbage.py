"""A refused request leaves nothing for the garbage collector: cycles of errors and frames would keep its body alive."""

import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.service.sample_models import definition
from tests.service.workers import worker

MODEL = "litter"
MOST_BYTES = 100_000
"""Maximum bytes in cycles that a refused request may leave; each body below is larger."""

_MANY = 20_000
_UNKNOWN = {f"m{i}": 1 for i in range(200)}
WRONG: dict[str, tuple[str, Any]] = {
    "wrong numbers": ("/predict", {"model": MODEL, "context": ["x"] * _MANY}),
    "too many numbers": ("/predict", {"model": MODEL, "context": [1.5] * _MANY}),
    "a long name": ("/predict", {"model": MODEL, "context": [1, 2, 3], "x" * 200_000: 1}),
    "a small body": ("/predict", {"model": MODEL, "context": [1, 2, 3], "x" * 30_000: 1}),
    "small numbers": ("/predict", {"model": MODEL, "context": [1.5] * 6000}),
    "a missing model": ("/predict", {"model": "missing", "context": [1.5] * _MANY}),
    "a wrong type": ("/predict", [1.5] * _MANY),
    "unknown members of items": (
        "/predict/batch",
        {"model": MODEL, "contexts": [{f"m{i}": 1 for i in range(200)}] * 99},
    ),
    "wrong contexts": ("/predict/batch", {"model": MODEL, "contexts": [["x"] * 200] * 100}),
    "unknown members of feedback": ("/feedback/batch", {"feedback": [_UNKNOWN] * 99}),
    "wrong labels": ("/models", {"name": "other", "labels": [1] * _MANY, "features": {"kind": "dense", "size": 3}}),
}


@pytest.fixture
def saved_garbage() -> Iterator[list[object]]:
    """Make the collector save what it finds, and collect only on request."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.collect()


def size_of(objects: list[object]) -> int:
    """Return the bytes of some objects and of everything that only the collector knows they refer to directly."""
    found = {id(each): each for each in objects}
    for each in objects:
        found |= {id(other): other for other in gc.get_referents(each) if isinstance(other, (bytes, str, list, dict))}
    return sum(map(sys.getsizeof, found.values()))


async def refuse(client: httpx2.AsyncClient, path: str, body: Any) -> None:
    """Send a request that the service refuses, as a whole or each of its items."""
    response = await client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code in (200, 404, 422), response.text[:200]
    assert "urn:wager:problem:" in response.text


@pytest.mark.parametrize("case", WRONG)
async def test_a_refused_request_leaves_no_cycles(store_url: str, case: str, saved_garbage: list[object]) -> None:
    """The third request adds nothing to the garbage, which accumulates here; earlier ones may fill caches."""
    async with worker(store_url) as client:
        await client.post("/models", json=definition(MODEL))
        left = []
        for _ in range(3):
            saved_garbage.clear()
            await refuse(client, *WRONG[case])
            gc.collect()
            left.append(size_of(saved_garbage))
        await client.delete(f"/models/{MODEL}")
    assert left[2] - left[1] < MOST_BYTES
