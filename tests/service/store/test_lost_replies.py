"""The laws of lost replies: each write is sent once, and no call is half done."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.errors import StoreUnavailableError
from service.store import keys
from service.store.capabilities import Store
from service.store.embedded.server import EmbeddedServer
from service.store.redis import redis_store
from service.store.stored_models import ModelKey
from service.store.values import Feedback, FeedbackStatus, Snapshot
from tests.servers import Proxy, raw
from tests.service.store.calls import GIVEN, KEY, OTHERS, READS, WRITES, open_store
from tests.service.store.samples import NOW, STRICT, WINDOW, id_of, sample_predictions
from tests.service.store.test_trouble import fill


@pytest.mark.parametrize("call", [*WRITES.values(), *READS.values(), *OTHERS.values()], ids=[*WRITES, *READS, *OTHERS])
async def test_a_missing_store_is_unavailable(call: Callable[[Store], Any], tmp_path: Path) -> None:
    """Without a server every call raises StoreUnavailableError."""
    async with open_store(f"unix://{tmp_path}/nothing.sock") as store:
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            await call(store)


async def test_a_connection_survives_a_restart(tmp_path: Path) -> None:
    """After a restart the same connection object works again, and nothing is lost."""
    first = EmbeddedServer(tmp_path)
    async with open_store(first.url) as store:
        with first:
            await fill(store)
        with pytest.raises(StoreUnavailableError):
            await store.get_model("forest")
        with EmbeddedServer(tmp_path):
            (result,) = await store.add_feedback(KEY, [GIVEN], STRICT, NOW)
    assert result.status is FeedbackStatus.RECORDED


async def test_a_hanging_store_is_unavailable_after_the_timeout(tmp_path: Path) -> None:
    """A stopped server times out; a write that it executes later still counts once."""
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
    """If the connection breaks before the reply, the write is not resent; the caller repeats it safely."""
    with EmbeddedServer(tmp_path) as server:
        async with Proxy(str(tmp_path / "valkey.sock")) as proxy, open_store(proxy.url) as store:
            await fill(store)
            await store.add_feedback(KEY, [], STRICT, NOW)  # loads the script into the server
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


async def test_a_broken_record_fails_only_its_item(store_url: str, name: str) -> None:
    """Feedback on an unreadable record of any Redis type fails; the other items are recorded."""
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


async def test_an_aborted_call_keeps_earlier_items(store_url: str, name: str) -> None:
    """Items recorded before the error are kept, and later calls continue from them."""
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


async def test_a_snapshot_is_written_completely_or_not_at_all(
    store_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expired parts make no snapshot, and a complete snapshot does not expire."""
    monkeypatch.setattr(redis_store, "_PART_BYTES", 4)
    key = ModelKey(name, "first")
    async with open_store(store_url) as store:
        assert await store.create_model(key, "{}", NOW)
        assert await store.save_snapshot(key, Snapshot(1, b"whole state"), 10) == 1
        with raw(store_url) as client:
            assert client.ttl(keys.snapshot(*key)) == -1
        call = store._bulk.call

        async def forgetful(*command: Any) -> Any:
            return None if "000001" in command else await call(*command)

        monkeypatch.setattr(store._bulk, "call", forgetful)
        assert await store.save_snapshot(key, Snapshot(2, b"other state"), 10) == 1
        assert await store.load_snapshot(key) == Snapshot(1, b"whole state")
