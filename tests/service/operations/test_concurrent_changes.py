"""The law of repeated changes: a call that an earlier, unanswered call of the same change overtakes has its result."""

import asyncio
from typing import Any

import httpx2
import pytest

from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, worker

CHANGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "labels": ("PATCH", "", {"labels": {"add": ["new"], "retire": []}}),
    "reset": ("POST", "/reset", {}),
    "promote": ("POST", "/promote", {"shadow": "rival"}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_call_overtaken_by_the_same_change_has_its_result(
    store_url: str, name: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two equal calls with one version have both read the model before either changes it: one change, and no 412."""
    method, path, body = CHANGES[change]
    both, write = asyncio.Barrier(2), RedisStore.change_model

    async def together(self: RedisStore, *args: Any, **options: Any) -> bool:
        await asyncio.wait_for(both.wait(), 5.0)
        return await write(self, *args, **options)

    async with worker(store_url, Clock(), 1) as one, worker(store_url, Clock(START + 1.0), 2) as other:
        await one.post("/models", json=definition(name))
        await one.put(f"/models/{name}/shadows/rival", json={"learner": "gaptron"})
        headers = {"If-Match": (await one.get(f"/models/{name}")).headers["ETag"]}
        monkeypatch.setattr(RedisStore, "change_model", together)

        def call(client: httpx2.AsyncClient) -> Any:
            return client.request(method, f"/models/{name}{path}", json=body, headers=headers)

        answers = await asyncio.gather(call(one), call(other))
        assert [each.status_code for each in answers] == [200, 200], [each.text for each in answers]
        assert (await one.get(f"/models/{name}")).json()["changes"]["count"] == 1
