"""Plays chapters: sequences of requests to a worker of their own, whose answers are recorded."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx2
import numpy as np

from service.background.due_models import retention
from service.background.shadow_folds import shadow_folds
from service.environment import Environment
from service.store.redis.redis_store import RedisStore
from tests.recordings.exchanges import Recorded, recorded
from tests.service.api.test_statistics import publish
from tests.service.rounds.clicks import close_expired
from tests.service.rounds.sessions import session_cache
from tests.service.sample_models import COMPUTE
from tests.service.workers import Clock, numbered, worker

JSON_TYPE = "application/json"
_PATIENCE = 60.0  # seconds for work in the background: a thread may be compiling a kernel


class Play:
    """One performance of a chapter: a worker, its clock and store, and the exchanges so far.

    Args:
        title: the title of the chapter, which its models' names begin with.
        client: sends requests to the worker.
        clock: the worker's clock.
        store: the worker's store.
    """

    def __init__(self, title: str, client: httpx2.AsyncClient, clock: Clock, store: RedisStore) -> None:
        self.client, self.clock, self.store = client, clock, store
        self.exchanges: list[Recorded] = []
        self._title = title
        self._own = asyncio.all_tasks()

    def name(self, of: str) -> str:
        return f"recorded-{self._title}-{of}"

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        **more_headers: str,
    ) -> httpx2.Response:
        if body is not None:
            content = json.dumps(body).encode()
        given = {"x_request_id": f"{self._title}-{len(self.exchanges)}"}
        given |= {} if content is None else {"content_type": JSON_TYPE}
        named = {name.replace("_", "-"): value for name, value in (given | dict(headers or {}) | more_headers).items()}
        response = await self.client.request(method, path, content=content, headers=named)
        sent = content if isinstance(content, bytes) else b""
        self.exchanges.append(recorded(len(self.exchanges), method, path, sent, response))
        await self._settled()
        return response

    async def get(self, path: str, **headers: str) -> Any:
        return parsed(await self.send("GET", path, headers=headers))

    async def post(self, path: str, body: Any, **headers: str) -> Any:
        return parsed(await self.send("POST", path, body, headers=headers))

    async def change(self, name: str, body: Any, version: str = "*") -> Any:
        return parsed(await self.send("PATCH", f"/models/{name}", body, if_match=version))

    async def create(self, of: str, **definition: Any) -> str:
        name = self.name(of)
        await self.post("/models", {"name": name, **definition})
        return name

    async def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        await close_expired(self.store, self.clock)

    async def publish(self, name: str) -> None:
        await publish(self.store, name)

    async def fold_shadows(self) -> None:
        self.clock.now += 5.0  # a model rests between two visits
        await shadow_folds(self._environment()).run()

    async def trim(self, name: str) -> None:
        sessions = session_cache(self.store, self.clock)
        await sessions.write_snapshot(name)
        await retention(self._environment(), sessions).run()

    def _environment(self) -> Environment:
        rng, clock = np.random.default_rng(1), self.clock
        offset = lambda: clock.now - time.time()  # noqa: E731
        return Environment(self.store, COMPUTE, clock, rng, numbered("aside"), store_offset=offset)

    async def _settled(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            while left := asyncio.all_tasks() - self._own - {asyncio.current_task()}:
                await asyncio.wait(left)


class Chapter(NamedTuple):
    title: str
    play: Callable[[Play], Awaitable[None]]
    settings: Mapping[str, Any] = MappingProxyType({})


def parsed(response: httpx2.Response) -> Any:
    return response.json() if "json" in response.headers.get("content-type", "").split("+")[-1] else None


@asynccontextmanager
async def performance(chapter: Chapter, store_url: str) -> AsyncIterator[Play]:
    clock, store, others = Clock(), RedisStore(store_url, timeout=10.0), asyncio.all_tasks()
    try:
        async with worker(store_url, clock, ids="rec", **chapter.settings) as client:
            client.event_hooks = {}  # whose laws would hide how an answer differs
            for task in asyncio.all_tasks() - others:
                task.cancel()
            await asyncio.sleep(0)
            yield Play(chapter.title, client, clock, store)
    finally:
        await store.close()


async def played(chapter: Chapter, store_url: str) -> tuple[Sequence[Recorded], Exception | None]:
    async with performance(chapter, store_url) as play:
        try:
            await chapter.play(play)
        except Exception as error:  # noqa: BLE001  the exchanges before it tell more
            return play.exchanges, error
        return play.exchanges, None
