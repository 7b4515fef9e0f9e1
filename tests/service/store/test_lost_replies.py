"""The laws of lost replies: each write is sent once, and no call is half done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from service.errors import StoreUnavailableError
from service.store.capabilities import Store
from service.store.embedded.server import EmbeddedServer
from service.store.redis.driver_errors import translated_error
from service.store.values import FeedbackStatus
from tests.servers import Proxy
from tests.service.store.calls import GIVEN, KEY, OTHERS, READS, WRITES, open_store
from tests.service.store.samples import NOW, STRICT
from tests.service.store.test_trouble import fill


@pytest.mark.parametrize("call", [*WRITES.values(), *READS.values(), *OTHERS.values()], ids=[*WRITES, *READS, *OTHERS])
async def test_a_missing_store_is_unavailable(call: Callable[[Store], Any], tmp_path: Path) -> None:
    async with open_store(f"unix://{tmp_path}/nothing.sock") as store:
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            await call(store)


@pytest.mark.parametrize("answers", [True, False])
def test_a_store_that_replies_with_an_error_is_not_called_silent(answers: bool) -> None:
    replies = (
        redis.ResponseError("ERR unknown command"),
        redis.AuthenticationError("WRONGPASS"),
        redis.BusyLoadingError(),
    )
    silence = (redis.ConnectionError("refused"), redis.TimeoutError("late"), OSError("no route"))
    start = "the store failed: " if answers else "the store does not answer: "
    for error in replies if answers else silence:
        found = translated_error(error)
        assert isinstance(found, StoreUnavailableError)
        assert str(found).startswith(start)


async def test_a_write_is_sent_once_though_its_reply_is_lost(tmp_path: Path) -> None:
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
