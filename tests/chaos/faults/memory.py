"""Full memory: a limit that is lifted again, and one below which only the expiry of predictions brings the store."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

import httpx2
import redis

from tests.chaos.clients import connect
from tests.chaos.faults.clocks import HOUR, FakeClock, refused_clocks
from tests.chaos.faults.fault import Fault, MissedError
from tests.service.sample_models import definition
from tests.store_servers import Server

MODEL = "flood"
WINDOW = 2.0
AHEAD = 2 * HOUR
"""Seconds that the store's clock jumps: an expired prediction is kept for an hour, to tell late feedback apart."""

EXPIRY: dict[str, Any] = {"hz": "100", "active-expire-effort": "10"}
"""Options with which a store removes expired keys within seconds, even if few of all keys have expired."""

_ROOM = 2**22  # bytes that the flood may take
_SIZE = 256  # features of a prediction
_BATCH = 32  # predictions of a request
_AT_ONCE = 4  # requests
_PATIENCE = 60.0  # seconds until the flood must have reached the limit, and until its expiry must have freed memory


def brief_fullness(store: Server, seconds: float) -> dict[str, Fault]:
    """Return the fault that lets the store reach its memory limit and then removes the limit, by name."""

    async def fill() -> None:
        for limit in (1, 0):
            await _set_limit(store, limit)
            await asyncio.sleep(seconds / 2)

    return {"full memory": fill}


async def _set_limit(store: Server, limit: int) -> None:
    with contextlib.suppress(redis.RedisError):
        await asyncio.to_thread(store.send, "CONFIG", "SET", "maxmemory", limit)


class Flood:
    """Predictions of one model without feedback, which fill the memory until they expire.

    Args:
        url: URL of the service.
        store: store of the service, started with the options `EXPIRY`.
        clock: clock of the store.
        wrong: list to which violations are appended, as sentences.
    """

    def __init__(self, url: str, store: Server, clock: FakeClock, wrong: list[str]) -> None:
        self._url = url
        self._store = store
        self._clock = clock
        self._wrong = wrong

    def faults(self) -> dict[str, Fault]:
        """Return the fault by name; none if the store's clock cannot jump over the hour that predictions are kept."""
        return {} if refused_clocks() else {"flood": self.rise_and_expire}

    async def rise_and_expire(self) -> None:
        """Predict until the memory is full, and let the predictions expire: the limit stays, the store recovers."""
        async with connect(self._url) as client:
            await self._create_model(client)
            used = await asyncio.to_thread(self._store.send, "INFO", "memory")
            try:
                await _set_limit(self._store, used["used_memory"] + _ROOM)
                if not await _predict_until(client, 507):
                    raise MissedError
                self._clock.turn(AHEAD)
                if not await _predict_until(client, 200):
                    self._wrong.append("the memory was not freed when predictions expired")
            finally:
                self._clock.turn(0)
                await _set_limit(self._store, 0)

    async def _create_model(self, client: httpx2.AsyncClient) -> None:
        features = {"kind": "dense", "size": _SIZE, "norm": "unit", "intercept": False}
        body = definition(MODEL, features=features, window_seconds=WINDOW, learner={"algorithm": "uniform"})
        while (await _status(client, "/models", body)) not in {201, 409}:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.1)


async def _predict_until(client: httpx2.AsyncClient, status: int) -> bool:
    """Predict until a request has a status; return whether one had it in time."""
    end, body = time.monotonic() + _PATIENCE, {"model": MODEL, "contexts": [[1.0] * _SIZE] * _BATCH}
    while time.monotonic() < end:
        if status in await asyncio.gather(*(_status(client, "/predict/batch", body) for _ in range(_AT_ONCE))):
            return True
        await asyncio.sleep(0.0 if status == 507 else 0.1)
    return False


async def _status(client: httpx2.AsyncClient, path: str, body: Mapping[str, object]) -> int:
    try:
        return (await client.post(path, json=body)).status_code
    except httpx2.TransportError:
        return 0
