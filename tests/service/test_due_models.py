"""The laws of workers of two versions that visit the same due models."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from service.background.due_models import DueModels
from service.errors import NewerVersionError
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from service.store.values import Due
from tests.service.rounds.sessions import environment
from tests.service.store.scenario import until
from tests.service.workers import Clock

BEGIN = 1_800_000_000.0
EVERY = 7.0
"""Seconds between a visit to a model and the moment when it is due again."""


class Fleet:
    """Workers that look for due models each second, one after another.

    Args:
        store: of all workers.
        versions: of each worker, which cannot read models of a newer version.
        models: versions by model.
    """

    def __init__(self, store: RedisStore, versions: Sequence[int], models: dict[ModelKey, int]) -> None:
        self._store, self._models, self._clock = store, models, Clock(BEGIN)
        self._workers = [self._worker(version) for version in versions]
        self._due_at = dict.fromkeys(models, BEGIN)
        self.lateness: dict[ModelKey, list[float]] = {key: [] for key in models}
        self.failed = 0

    def _worker(self, version: int) -> DueModels:
        def offset() -> float:
            return until(self._clock.now)

        own = environment(self._store, self._clock, monotonic=lambda: self._clock.now, store_offset=offset)
        return DueModels(own, Due.RETENTION, "work", self._visit(version), at_once=8, lease=1.5)

    def _visit(self, version: int) -> Callable[[ModelKey], Awaitable[bool]]:
        async def visit(key: ModelKey) -> bool:
            if self._models[key] > version:
                self.failed += 1
                raise NewerVersionError("a newer version made it")
            self.lateness[key].append(self._clock.now - self._due_at[key])
            self._due_at[key] = self._clock.now + EVERY
            await self._store.put_off(Due.RETENTION, key, until(self._clock.now), EVERY)
            return False

        return visit

    async def run(self, seconds: int) -> None:
        await self._store.command("DEL", Due.RETENTION)
        await self._store.watch(Due.RETENTION, list(self._models))
        for _ in range(seconds):
            for number, worker in enumerate(self._workers):
                self._clock.now = int(self._clock.now) + 0.9 * number / len(self._workers)
                await worker.run()
            self._clock.now = int(self._clock.now) + 1.0


OLD, NEW = ModelKey("old", "i"), ModelKey("new", "i")


@pytest.mark.parametrize("newer_comes", ["first", "last"])
@pytest.mark.parametrize("older", [1, 2, 4])
async def test_a_lone_newer_worker_is_in_time(store: RedisStore, older: int, newer_comes: str) -> None:
    """Each older worker that comes first is wrong once, then leaves the models to others for a while."""
    versions = [2, *[1] * older] if newer_comes == "first" else [*[1] * older, 2]
    fleet = Fleet(store, versions, {OLD: 1, NEW: 2})
    await fleet.run(600)
    for key in (OLD, NEW):
        late = sorted(fleet.lateness[key])
        assert len(late) > 600 / EVERY / 1.6
        assert late[-1] <= 2.5 * older + 2.0
        assert late[len(late) // 2] <= 3.0


async def test_older_workers_alone_visit_what_they_can_read(store: RedisStore) -> None:
    """After a return to an older version, what the newer one has made does not keep the others waiting for long."""
    models = {ModelKey(f"m{i}", "i"): 2 for i in range(20)}
    fleet = Fleet(store, [1, 1], {OLD: 1, **models})
    await fleet.run(600)
    assert len(fleet.lateness[OLD]) > 600 / (EVERY + 20.0)
    assert max(fleet.lateness[OLD]) <= 21.0
    assert fleet.failed <= 20 * 2 * 600 / 20  # each worker meets each of them once in 20 s
