"""The laws of a pipeline: each reply reaches its caller, and no caller waits without a limit."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis import exceptions
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode

from service.store.connections import connections
from service.store.connections.addresses import TlsFiles, parse_store_url
from service.store.connections.connections import connect
from service.store.connections.pipeline import Pipeline

ECHO = "return ARGV[1]"


@asynccontextmanager
async def opened(url: str, patience: float = 5.0) -> AsyncIterator[Pipeline]:
    line = Pipeline(parse_store_url(url), patience, {})
    try:
        yield line
    finally:
        await line.close()


async def test_replies_reach_their_callers(store_url: str) -> None:
    async with opened(store_url) as line:
        accepted = [asyncio.ensure_future(line.call("EVAL", ECHO, 0, str(i) * 100)) for i in range(100)]
        refused = [asyncio.ensure_future(line.call(*command)) for command in (("EVALSHA", "0" * 40, 0), ("NOTHING",))]
        more = [asyncio.ensure_future(line.call("EVAL", ECHO, 0, str(i) * 100)) for i in range(100, 200)]
        await asyncio.sleep(0)
        for i in range(0, 100, 3):
            accepted[i].cancel()
        replies = await asyncio.gather(*accepted, *more, return_exceptions=True)
        wanted = [(str(i) * 100).encode() for i in range(200)]
        assert all(reply == wanted[i] for i, reply in enumerate(replies) if i >= 100 or i % 3)
        no_script, unknown = await asyncio.gather(*refused, return_exceptions=True)
        assert isinstance(no_script, exceptions.NoScriptError)
        assert isinstance(unknown, exceptions.ResponseError)


async def test_a_late_reply_ends_the_connection_and_the_next_call_opens_another(store_url: str) -> None:
    async with opened(store_url, patience=0.2) as line:
        with pytest.raises(exceptions.TimeoutError, match=r"no reply within 0\.2 s"):
            await line.call("BLPOP", "wager:test:never", 1)
        assert await line.call("EVAL", ECHO, 0, "again") == b"again"


async def test_a_server_that_answers_is_not_late(store_url: str) -> None:
    async with opened(store_url, patience=0.5) as line:
        slow = [asyncio.ensure_future(line.call("BLPOP", "wager:test:never", 0.2)) for _ in range(4)]
        assert await asyncio.gather(*slow) == [None] * 4


async def test_a_lost_connection_fails_every_waiting_call(store_url: str) -> None:
    async with opened(store_url) as line:
        number = await line.call("CLIENT", "ID")
        waiting = [asyncio.ensure_future(line.call("BLPOP", "wager:test:never", 0)) for _ in range(3)]
        async with opened(store_url) as other:
            await other.call("CLIENT", "KILL", "ID", number)
        lost = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(error, exceptions.ConnectionError) for error in lost)
        assert await line.call("EVAL", ECHO, 0, "again") == b"again"


async def test_opening_a_connection_has_a_shorter_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        line = Pipeline(parse_store_url(f"redis://:password@{host}:{port}"), 600.0, {}, opening=0.1)
        with pytest.raises(exceptions.TimeoutError, match=r"no connection within 0\.1 s"):
            await line.call("PING")
        await line.close()


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
@pytest.mark.parametrize("error", [RuntimeError("the handler is closed"), AttributeError("NoneType")])
async def test_a_connection_that_closes_while_it_is_used_is_lost(
    monkeypatch: pytest.MonkeyPatch, scheme: str, error: Exception
) -> None:
    async def closes(*_: Any, **__: Any) -> None:
        raise error

    async def opens(_: RedisCluster) -> None:
        pass

    for client in (Redis, RedisCluster):
        monkeypatch.setattr(client, "execute_command", closes)
    monkeypatch.setattr(RedisCluster, "initialize", opens)
    monkeypatch.setattr(RedisCluster, "get_primaries", lambda _: [ClusterNode("127.0.0.1", 1)])
    line = connect(f"{scheme}://127.0.0.1:1", 1.0, TlsFiles())
    try:
        (primary,) = await line.primaries()
        for call in (line.call, primary.call):
            with pytest.raises(exceptions.ConnectionError):
                await call("GET", "key")
    finally:
        await line.close()


async def test_commands_that_wait_for_replicas_have_few_connections_and_delay_no_others(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_MOST_CONNECTIONS", 2)
    line = connect(store_url, 10.0, TlsFiles())
    try:
        waiting = [asyncio.ensure_future(line.call_and_wait(1, 0.2, "TIME")) for _ in range(6)]
        await asyncio.sleep(0.05)
        await line.call("TIME")
        assert not any(each.done() for each in waiting)
        assert [confirmed for _, confirmed in await asyncio.gather(*waiting)] == [0] * 6
        assert len(line._redis.connection_pool._available_connections) <= 3  # type: ignore[attr-defined]
    finally:
        await line.close()
