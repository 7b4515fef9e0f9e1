"""The laws of lost replies: each write is sent once, and no call is half done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.errors import StoreUnavailableError
from service.store.capabilities import Store
from service.store.embedded.server import EmbeddedServer
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
