"""Counts the requests of each API key in the store.

Windows are fixed: a key's first request opens a window, and its first request after that window opens the next. Each
request takes one round trip. Around the boundary of two windows, up to twice the limit may pass. The library `limits`
parses limits and names their counters. Its storage classes are not used, because they do not support Sentinels and
certificates as the store's connection does.
"""

import math
from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib import resources
from typing import Any

from limits import RateLimitItem, parse

from service.store import keys
from service.store.access.tables import RequestCount

_COUNT = (resources.files("service.store") / "lua" / "count_request.lua").read_text()


class RateLimits:
    """Implements `service.store.access.tables.RequestCounter`.

    Args:
        command: sends one command to the store; raises `StoreError`.
    """

    def __init__(self, command: Callable[..., Awaitable[Any]]) -> None:
        self._command = command

    async def count(self, key_id: str, limit: str) -> RequestCount:
        """Count a request of a key against a limit such as `100/second`.

        Raises:
            StoreUnavailableError: if the store does not answer.
            StoreFullError: if the store is out of memory or cannot write to its disk.
        """
        item = _parse(limit)
        counter, window = f"{keys.RATE_LIMITS}:{item.key_for(key_id)}", item.get_expiry()
        made, left_of_it = await self._command("EVAL", _COUNT, 1, counter, window)
        if made < item.amount:
            return RequestCount(item.amount, window, item.amount - made, None)
        return RequestCount(item.amount, window, max(item.amount - made, -1), max(1, math.ceil(left_of_it / 1000)))


@lru_cache(maxsize=1024)
def _parse(limit: str) -> RateLimitItem:
    return parse(limit)
