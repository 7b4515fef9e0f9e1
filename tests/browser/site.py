"""A running service with API keys and models, as the tests of the dashboard see it."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from service.access.key_admin import IssuedKey, KeyAdmin
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.servers import wait_until
from tests.service.keyed import noise

ALL = ["predict", "feedback", "read", "admin"]


class Site:
    """The service, a key for everything, and a client with this key.

    Attributes:
        url: the service's origin.
        key: a key with all scopes for all models.
        api: sends requests with this key.
    """

    def __init__(self, url: str, store_url: str) -> None:
        self.url = url
        self._store_url = store_url
        self.key = self.new_key(ALL).text
        self.api = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60.0, verify=False
        )

    def new_key(self, scopes: list[str], models: str = "*") -> IssuedKey:
        issued: IssuedKey = self._with_keys(lambda admin: admin.create("browser", scopes, models))
        return issued

    def revoke(self, key: IssuedKey) -> None:
        self._with_keys(lambda admin: admin.revoke(key.id))

    def _with_keys(self, use: Callable[[KeyAdmin], Any]) -> Any:
        async def used() -> Any:
            store = RedisStore(self._store_url, timeout=30.0)
            try:
                return await use(KeyAdmin(ApiKeyTable(store.command), time.time, noise))
            finally:
                await store.close()

        with ThreadPoolExecutor(1) as pool:  # playwright runs an event loop in this thread
            return pool.submit(lambda: asyncio.run(used())).result()

    def ask(self, path: str) -> Any:
        return self.api.get(path).raise_for_status().json()

    def send(self, path: str, body: Any) -> Any:
        return self.api.post(path, json=body).raise_for_status().json()

    def create(self, name: str, labels: Sequence[str] = ("a", "b"), **more: Any) -> str:
        """Create a model; return its name."""
        self.send("/models", {"name": name, "labels": list(labels)} | more)
        return name

    def patch(self, name: str, body: Any) -> None:
        self.api.patch(f"/models/{name}", json=body, headers={"If-Match": "*"}).raise_for_status()

    def teach(self, name: str, rounds: int, means: dict[str, float]) -> None:
        """Give a model rounds, whose feedback is correct as often as `means` says for each label."""
        rng = random.Random(1)
        for size in [500] * (rounds // 500) + [rounds % 500] * (rounds % 500 > 0):
            made = self.send("/predict/batch", {"model": name, "contexts": [{}] * size})["predictions"]
            given = [{"prediction_id": p["prediction_id"], "correct": rng.random() < means[p["label"]]} for p in made]
            self.send("/feedback/batch", {"feedback": given})

    def wait_for_fold(self, name: str) -> Any:
        """Return a model's statistics as soon as they count all of its rounds."""
        wait_until(lambda: self.ask(f"/models/{name}/statistics")["fold_lag"] == 0)
        return self.ask(f"/models/{name}/statistics")
