"""The laws of files for import that arrive: slow ones keep nobody waiting, and all of them have limited memory."""

import asyncio
import contextlib
import random
import tracemalloc
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import httpx2
import numpy as np
import pytest

from service.access.key_admin import IssuedKey
from service.api.routes.copies import ArrivingFiles
from service.errors import OverloadedError
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.keyed import bearer, key_admin_at
from tests.service.sample_models import definition
from tests.service.workers import START, Clock, worker

FILE = {"content-type": "application/octet-stream"}
SLOW = 20


async def never_ending(begun: asyncio.Semaphore, first: bytes = b"x") -> AsyncIterator[bytes]:
    """Yield a file that starts and never continues."""
    yield first
    begun.release()
    await asyncio.Event().wait()


def importing(
    client: httpx2.AsyncClient, name: str, content: AsyncIterator[bytes] | bytes, key: IssuedKey | None
) -> Coroutine[Any, Any, httpx2.Response]:
    """Return a request that imports a model."""
    headers = FILE | ({} if key is None else bearer(key))
    return client.post(f"/models/{name}/import", content=content, headers=headers)


@pytest.mark.parametrize("who", ["another key", "the same key", "no key"])
async def test_slow_files_keep_nobody_waiting(store_url: str, store: RedisStore, name: str, who: str) -> None:
    """While twenty files have begun and do not end, another one is imported: by another key, the same, or without."""
    admin = key_admin_at(ApiKeyTable(store.command), Clock(START))
    one, two = [await admin.create("k", ["admin"]) for _ in range(2)]
    slow_key, other = {"another key": (one, two), "the same key": (one, one), "no key": (None, None)}[who]
    auth = "off" if other is None else "required"
    async with worker(store_url, auth=auth, body_grace_seconds=600.0, body_timeout_seconds=600.0) as client:
        headers = {} if other is None else bearer(other)
        assert (await client.post("/models", json=definition(name), headers=headers)).status_code == 201
        file = (await client.get(f"/models/{name}/export", headers=headers)).content
        begun = asyncio.Semaphore(0)
        slow = [
            asyncio.create_task(importing(client, f"{name}-slow-{i}", never_ending(begun), slow_key))
            for i in range(SLOW)
        ]
        async with asyncio.timeout(60.0):
            for _ in slow:
                await begun.acquire()
            assert (await importing(client, f"{name}-copy", file, other)).status_code == 201
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)


class Uploads:
    """Files that a test lets arrive part by part."""

    def __init__(self, most_bytes: int) -> None:
        self.clock = Clock()
        self.files = ArrivingFiles(most_bytes, self.clock)
        self.imported: list[tuple[str | None, bytes]] = []
        self._queues: dict[asyncio.Task[str], asyncio.Queue[bytes | None]] = {}
        self.may_end = asyncio.Event()
        self.may_end.set()

    def begin(self, owner: str | None) -> asyncio.Task[str]:
        """Begin a file."""
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        task = asyncio.create_task(self._arrive(owner, parts))
        self._queues[task] = parts
        return task

    async def send(self, task: asyncio.Task[str], *sizes: int, end: bool = False) -> None:
        """Let parts of a file arrive."""
        for size in sizes:
            self._queues[task].put_nowait(bytes(size))
        if end:
            self._queues[task].put_nowait(None)
        await settled()

    async def _arrive(self, owner: str | None, parts: asyncio.Queue[bytes | None]) -> str:
        async def arriving() -> AsyncIterator[bytes]:
            while (part := await parts.get()) is not None:
                yield part

        try:
            async with self.files.whole(owner, arriving()) as file:
                self.imported.append((owner, bytes(file)))
                await self.may_end.wait()
        except OverloadedError:
            return "lost"
        return "imported"


async def settled() -> None:
    """Let every task go on until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


def states(tasks: Sequence[asyncio.Task[str]]) -> list[str]:
    """Return what became of files."""
    return [task.result() if task.done() else "waits" for task in tasks]


async def ended(tasks: Sequence[asyncio.Task[str]]) -> None:
    """Cancel the tasks that have not ended."""
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_key_imports_one_file_at_a_time() -> None:
    """Whole files of one key wait for each other, in the order in which they are complete; those of another do not."""
    uploads = Uploads(1000)
    uploads.may_end.clear()
    tasks = [uploads.begin(owner) for owner in ("a", "a", "b", None, None)]
    for task, size in zip(reversed(tasks), range(1, 6), strict=True):
        await uploads.send(task, size, end=True)
    assert [(owner, len(file)) for owner, file in uploads.imported] == [(None, 1), ("b", 3), ("a", 4)]
    uploads.may_end.set()
    await settled()
    assert states(tasks) == ["imported"] * 5
    assert [len(file) for _, file in uploads.imported] == [1, 3, 4, 2, 5]


async def test_a_key_with_several_files_loses_one_first() -> None:
    """A key that fills the memory, with files that never end or wait, does not displace the file of another key."""
    for ends in (False, True):
        uploads = Uploads(100)
        uploads.may_end.clear()
        greedy = [uploads.begin("a") for _ in range(4)]
        for task in greedy:
            await uploads.send(task, 25, end=ends)
        assert states(greedy) == ["waits"] * 4
        other = uploads.begin("b")
        await uploads.send(other, 20, 20)
        uploads.may_end.set()
        if not ends:
            await uploads.send(greedy[0], 1)  # it has lost its bytes, and is answered when it goes on
            await uploads.send(greedy[1], 1)
        await uploads.send(other, 10, end=True)
        assert states([other]) == ["imported"]
        # The first one that is complete is imported, so it cannot lose.
        assert states(greedy) == (["imported", "lost", "lost", "imported"] if ends else ["lost"] * 2 + ["waits"] * 2)
        await ended(greedy)


async def test_a_file_that_is_lost_says_so_and_frees_its_bytes() -> None:
    """A file that alone exceeds what is left is lost itself; the bytes of ended files count no longer."""
    uploads = Uploads(100)
    uploads.may_end.clear()
    running = uploads.begin("a")
    await uploads.send(running, 80, end=True)
    alone = uploads.begin("b")
    await uploads.send(alone, 20)
    assert states([running, alone]) == ["waits"] * 2
    await uploads.send(alone, 1)
    assert states([running, alone]) == ["waits", "lost"]
    gone = uploads.begin("b")
    await uploads.send(gone, 15)
    await ended([gone])
    uploads.may_end.set()
    await settled()
    whole = uploads.begin("c")
    await uploads.send(whole, 60, 40, end=True)
    assert states([running, whole]) == ["imported"] * 2


@pytest.mark.parametrize("seed", range(20))
async def test_a_key_with_less_than_half_of_its_share_loses_nothing(seed: int) -> None:
    """However the files of others arrive, end and vanish, and however slow its own is."""
    rng, uploads, owners = random.Random(seed), Uploads(800), ("a", "b", "c")
    tasks: list[asyncio.Task[str]] = []
    modest = uploads.begin("modest")
    for _ in range(200):
        owner = rng.choice(owners)
        if rng.random() < 0.3:
            tasks.append(uploads.begin(owner))
        elif tasks:
            await uploads.send(rng.choice(tasks), rng.randrange(100), end=rng.random() < 0.1)
        uploads.clock.now += rng.random()
        if rng.random() < 0.3:
            await uploads.send(modest, 1)
    await uploads.send(modest, end=True)
    assert states([modest]) == ["imported"]
    await ended(tasks)
    whole = uploads.begin("modest")
    await uploads.send(whole, 800, end=True)
    assert states([whole]) == ["imported"]  # nothing else counts any more


@pytest.mark.parametrize("owners", ["a", "abcdef"])
async def test_files_that_arrive_side_by_side_are_completed(owners: str) -> None:
    """However many large files arrive at equal pace, each begun anew when it is lost: some are always completed."""
    uploads, size = Uploads(200), 95
    tasks = [uploads.begin(owners[i % len(owners)]) for i in range(6)]
    sent, completed = [16 * i for i in range(6)], list[int]()
    for task, n in zip(tasks, sent, strict=True):
        await uploads.send(task, n)
    for second in range(300):
        uploads.clock.now += 1.0
        for i in range(6):
            await uploads.send(tasks[i], 5, end=sent[i] + 5 >= size)
            sent[i] += 5
            if tasks[i].done():
                if tasks[i].result() == "imported":
                    completed.append(second)
                tasks[i], sent[i] = uploads.begin(owners[i % len(owners)]), 0
    assert len(completed) >= 15
    assert max(np.diff([0, *completed, 300])) <= 60
    await ended(tasks)


async def test_files_that_stand_still_give_way() -> None:
    """Keys that send more than half of the largest file and then nothing do not keep that of another key out."""
    uploads = Uploads(200)
    still = [uploads.begin(owner) for owner in "abd"]
    for task in still:
        await uploads.send(task, 60)
    uploads.clock.now += 30.0
    other = uploads.begin("c")
    for _ in range(19):
        uploads.clock.now += 0.5
        await uploads.send(other, 5)
    await uploads.send(other, 1, end=True)
    assert states([other]) == ["imported"]
    await ended(still)


async def test_files_have_limited_memory() -> None:
    """Files that lose their bytes hold no memory, although nothing more of them arrives."""
    mebibyte = 2**20
    uploads = Uploads(4 * mebibyte)
    tracemalloc.start()
    try:
        tasks = [uploads.begin(owner) for owner in "abcdefghij" * 4]
        for task in tasks:
            for _ in range(16):
                if not task.done():  # what a lost file does not read would stay in its queue
                    await uploads.send(task, mebibyte // 16)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 3 * mebibyte < held < 6 * mebibyte
    await ended(tasks)
