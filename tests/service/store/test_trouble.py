"""The laws of stores in trouble: full, stopped, silent, or cut off in the middle of a reply."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.errors import StoreFullError, StoreUnavailableError
from service.store import keys
from service.store.base import Feedback, FeedbackStatus, PublishedStatistics, Snapshot, Store
from service.store.damage import Damage
from service.store.embedded.server import EmbeddedServer
from service.store.redis import redis_store
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.fleets import Cluster
from tests.servers import REDIS_SERVER, Proxy, raw, redis_server
from tests.service.store.samples import NOW, STRICT, WINDOW, id_of, sample_predictions
from tests.service.store.troubles import TROUBLES, Trouble, in_trouble

KEY = ModelKey("forest", "first")
GIVEN = Feedback(id_of("open"), True, None)
WRITES: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "create_model": lambda store: store.create_model(ModelKey("other", "first"), "{}", NOW),
    "add_predictions": lambda store: store.add_predictions(KEY, sample_predictions("a", "b"), WINDOW, None),
    "add_feedback": lambda store: store.add_feedback(KEY, [GIVEN], STRICT, NOW),
    "save_snapshot": lambda store: store.save_snapshot(KEY, Snapshot(1, b"state"), 10),
    "publish_statistics": lambda store: store.publish_statistics(KEY, PublishedStatistics(1, b"tally", 5, 1, 2)),
    "record_damage": lambda store: store.record_damage(KEY, [Damage(1, 1, 1, "noise")]),
    "mark_snapshot": lambda store: store.mark_snapshot(KEY, 0, "noise"),
    "keep_summary": lambda store: store.keep_summary(KEY, "{}"),
}
READS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "get_model": lambda store: store.get_model("forest"),
    "list_models": lambda store: store.list_models("", 10),
    "read_tail": lambda store: store.read_tail(KEY, 0, 10),
    "load_snapshot": lambda store: store.load_snapshot(KEY),
    "read_figures": lambda store: store.read_model_stats("forest"),
    "list_names": lambda store: store.list_names(10),
    "read_damage": lambda store: store.read_damage(KEY),
    "list_damaged": lambda store: store.list_damaged(10),
    "list_model": lambda store: store.list_model("forest"),
}
OTHERS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "delete_model": lambda store: store.delete_model("forest"),
    "check": lambda store: store.check(),
    "read_load": lambda store: store.read_load(),
}


@pytest.fixture(params=["embedded-valkey", "redis-server"])
def private_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of this test's own, of each kind."""
    if request.param == "embedded-valkey":
        with EmbeddedServer(tmp_path) as server:
            yield server.url
    elif REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    else:
        with redis_server(tmp_path) as url:
            yield url


@asynccontextmanager
async def open_store(url: str, patience: float = 5.0) -> AsyncIterator[RedisStore]:
    """A connection for one conversation."""
    store = RedisStore(url, patience)
    try:
        yield store
    finally:
        await store.close()


async def fill(store: Store) -> None:
    """A model with an open prediction."""
    await store.create_model(KEY, "{}", NOW)
    await store.add_predictions(KEY, sample_predictions("open"), WINDOW, None)


def everything(url: str) -> dict[Any, Any]:
    """The value of each key."""
    with raw(url) as client:
        return {key: client.dump(key) for key in client.scan_iter()}


async def test_a_full_store_refuses_writes_and_changes_nothing(private_url: str) -> None:
    """Out of memory, every writing call raises StoreFullError, nothing is written, and reading goes on."""
    async with open_store(private_url) as store:
        await fill(store)
        with raw(private_url) as client:
            client.config_set("maxmemory", 1)
        before = everything(private_url)
        for write in WRITES.values():
            with pytest.raises(StoreFullError):
                await write(store)
        assert everything(private_url) == before
        for read in READS.values():
            await read(store)
        assert await store.delete_model("forest")


async def test_a_store_with_room_again_takes_the_same_feedback(private_url: str) -> None:
    """What a full store refused is recorded, once, when it is repeated with memory left."""
    async with open_store(private_url) as store:
        await fill(store)
        with raw(private_url) as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreFullError):
                await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
            client.config_set("maxmemory", 0)
        (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        assert result.status is FeedbackStatus.RECORDED


async def test_a_full_store_still_confirms_what_it_has(private_url: str) -> None:
    """Feedback that changes nothing is answered as ever, though it cannot be counted."""
    async with open_store(private_url) as store:
        await fill(store)
        await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        with raw(private_url) as client:
            client.config_set("maxmemory", 1)
        (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        assert result.status is FeedbackStatus.DUPLICATE


async def until(readiness: Callable[[], Coroutine[Any, Any, Any]], good: bool) -> str:
    """Asks until the store is ready, or is not; what it says then."""
    async with asyncio.timeout(30.0):
        while True:
            try:
                said = str(await readiness())
                if good:
                    return said
            except StoreUnavailableError as error:
                if not good:
                    return error.detail
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
async def test_a_store_is_ready_when_it_takes_writes(private_url: str, trouble: Trouble) -> None:
    """In each trouble it is not, though nobody else writes, and says why, as each write does; reading goes on."""
    async with open_store(private_url) as store:
        await fill(store)
        await store.check()
        with in_trouble(private_url, trouble):
            assert re.search(trouble.says, await until(store.check, good=False))
            for write in WRITES.values():
                with pytest.raises((StoreUnavailableError, StoreFullError), match=trouble.says):
                    await write(store)
            for read in READS.values():
                await read(store)
        await until(store.check, good=True)
        (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
        assert result.status is FeedbackStatus.RECORDED


async def test_readiness_leaves_nothing(private_url: str) -> None:
    """What it writes is one key, which is soon forgotten."""
    async with open_store(private_url) as store:
        for _ in range(3):
            await store.check()
        with raw(private_url) as client:
            (key,) = client.scan_iter()
            assert key == keys.probe("").encode()
            assert 0 < client.ttl(key) <= 10


async def test_one_primary_that_takes_no_writes_is_enough(small_cluster: Cluster) -> None:
    """A cluster is ready when each primary takes writes; each has its own key, in a slot that it has."""
    async with open_store(small_cluster.url) as store:
        primaries = await store._connection.primaries()
        probes = [primary.probe for primary in primaries if primary.probe is not None]
        owners = [small_cluster.owner(small_cluster.slot(probe)) for probe in probes]
        assert len(set(owners)) == len(primaries) == 3
        for server in owners:
            await store.check()
            server.send("CONFIG", "SET", "min-replicas-to-write", 5)
            try:
                with pytest.raises(StoreUnavailableError, match="refuses writes: NOREPLICAS"):
                    await store.check()
            finally:
                server.send("CONFIG", "SET", "min-replicas-to-write", 0)
        await store.check()


@pytest.mark.parametrize("call", [*WRITES.values(), *READS.values(), *OTHERS.values()], ids=[*WRITES, *READS, *OTHERS])
async def test_a_store_that_is_not_there_is_unavailable(call: Callable[[Store], Any], tmp_path: Path) -> None:
    """Without a server every call raises StoreUnavailableError."""
    async with open_store(f"unix://{tmp_path}/nothing.sock") as store:
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            await call(store)


async def test_a_store_comes_back(tmp_path: Path) -> None:
    """The same connection object serves again when the server is started again, with nothing lost."""
    first = EmbeddedServer(tmp_path)
    async with open_store(first.url) as store:
        with first:
            await fill(store)
        with pytest.raises(StoreUnavailableError):
            await store.get_model("forest")
        with EmbeddedServer(tmp_path):
            (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
    assert result.status is FeedbackStatus.RECORDED


async def test_a_silent_store_is_given_up_on(tmp_path: Path) -> None:
    """A server that is stopped in its tracks is unavailable after the timeout; what it does later is done once."""
    with EmbeddedServer(tmp_path) as server:
        async with open_store(server.url, patience=0.2) as store:
            await fill(store)
            assert server.pid is not None
            os.kill(server.pid, signal.SIGSTOP)
            try:
                with pytest.raises(StoreUnavailableError):
                    await asyncio.wait_for(store.add_feedback(KEY, [GIVEN], STRICT, NOW), 5.0)
            finally:
                os.kill(server.pid, signal.SIGCONT)
            (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
            assert result.status in {FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE}
            assert (await store.read_tail(KEY, 0, 10)).round_count == 1


async def test_a_write_is_sent_once_though_its_reply_is_lost(tmp_path: Path) -> None:
    """When the connection breaks before the reply, the write is not sent again; the caller repeats it safely."""
    with EmbeddedServer(tmp_path) as server:
        async with Proxy(str(tmp_path / "valkey.sock")) as proxy, open_store(proxy.url) as store:
            await fill(store)
            await store.add_feedback(KEY, [], STRICT, NOW)  # the script is known to the server from here on
            proxy.commands.clear()
            proxy.lose_replies_to = b"EVALSHA"
            with pytest.raises(StoreUnavailableError):
                await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
            assert sum(b"EVALSHA" in command for command in proxy.commands) == 1
            proxy.lose_replies_to = None
            (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW + 1)
        assert result.status is FeedbackStatus.DUPLICATE
        assert result.outcome is not None
        assert result.outcome.feedback_at == NOW
        assert server.pid is not None


async def test_a_store_that_may_evict_is_not_ready(private_url: str) -> None:
    """With a memory limit and an eviction policy, models could vanish: the store is not ready, and says why."""
    async with open_store(private_url) as store:
        with raw(private_url) as client:
            client.config_set("maxmemory", "1gb")
            client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(StoreUnavailableError, match=r"allkeys-lru.*noeviction"):
            await store.check()


async def test_a_store_without_its_file_warns(private_url: str) -> None:
    """Without an append-only file the store is ready, but says that a stop loses everything."""
    async with open_store(private_url) as store:
        with raw(private_url) as client:
            client.config_set("appendonly", "no")
        facts = await store.check()
        assert facts.warnings == [facts.persistence]
        assert "lost when the store stops" in facts.persistence


async def test_a_broken_record_is_no_other_items_trouble(store_url: str, name: str) -> None:
    """Feedback for a record that cannot be read fails alone, whatever type of value it is; its neighbours count."""
    key = ModelKey(name, "first")
    async with open_store(store_url) as store:
        assert await store.create_model(key, "{}", NOW)
        made = sample_predictions("good", "broken", "list", "late")
        assert await store.add_predictions(key, made, WINDOW, None) == [None] * 4
        with raw(store_url) as client:
            client.set(keys.block(name, "first", "broken"), b"nonsense")
            client.delete(keys.block(name, "first", "list"))
            client.lpush(keys.block(name, "first", "list"), b"nonsense")
        batch = [Feedback(id_of(own), True, None) for own in ("good", "broken", "list", "late")]
        results = await store.add_feedback(key, batch, STRICT, NOW)
        recorded, broken = FeedbackStatus.RECORDED, FeedbackStatus.BROKEN
        assert [result.status for result in results] == [recorded, broken, broken, recorded]
        figures = await store.read_model_stats(name)
        assert figures is not None
        assert (figures.round_count, figures.correct, figures.refused) == (2, 2, {broken: 2})


async def test_a_call_that_is_stopped_spoils_nothing(store_url: str, name: str) -> None:
    """Where a call is stopped, what was recorded before is counted, and what comes later goes on from it."""
    key = ModelKey(name, "first")
    async with open_store(store_url) as store:
        assert await store.create_model(key, "{}", NOW)
        assert await store.add_predictions(key, sample_predictions("good", "late"), WINDOW, None) == [None] * 2
        with pytest.raises(StoreUnavailableError):
            await store.add_feedback(
                key, [Feedback(id_of("good"), True, None), Feedback(id_of("late"), None, b"1")], STRICT, NOW
            )
        model = await store.get_model(name)
        assert model is not None
        assert (model.round_count, model.correct) == (1, 1)
        assert [entry.block for entry in (await store.read_tail(key, 0, 10)).entries] == ["good"]
        (late,) = await store.add_feedback(key, [Feedback(id_of("late"), True, None)], STRICT, NOW)
        assert (late.status, late.outcome and late.outcome.round) == (FeedbackStatus.RECORDED, 2)


async def test_a_snapshot_is_whole_or_not_there(store_url: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that the store has forgotten meanwhile make no snapshot; what is there is not forgotten like its parts."""
    monkeypatch.setattr(redis_store, "_PART_BYTES", 4)
    key = ModelKey(name, "first")
    async with open_store(store_url) as store:
        assert await store.create_model(key, "{}", NOW)
        assert await store.save_snapshot(key, Snapshot(1, b"whole state"), 10) == 1
        with raw(store_url) as client:
            assert client.ttl(keys.snapshot(*key)) == -1
        call = store._call

        async def forgetful(*command: Any, **options: Any) -> Any:
            return None if command[0] == "HSET" and command[2] == "000001" else await call(*command, **options)

        monkeypatch.setattr(store, "_call", forgetful)
        assert await store.save_snapshot(key, Snapshot(2, b"other state"), 10) == 1
        assert await store.load_snapshot(key) == Snapshot(1, b"whole state")
