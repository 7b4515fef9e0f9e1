"""How many requests each API key has made, counted in the store.

Fixed windows: the first request of a key opens one, and the next opens when it has passed. One round trip for each
request. Around the edge of two windows twice the limit may pass. The library `limits` reads the limits and names their
counters; its storages know neither Sentinels nor certificates as the store's own connection does.
"""

import math
from collections.abc import Awaitable, Callable
from functools import lru_cache
from importlib import resources
from typing import Any

from limits import RateLimitItem, parse

from service.store import keys
from service.store.access_tables import RequestCount

_COUNT = (resources.files("service.store") / "lua" / "count_request.lua").read_text()


class RateLimits:
    """Implements `service.store.access_tables.RequestCounter`.

    Args:
        command: sends one command to the store, and raises `StoreError`.
    """

    def __init__(self, command: Callable[..., Awaitable[Any]]) -> None:
        self._command = command

    async def count(self, key_id: str, limit: str) -> RequestCount:
        """Counts a request of a key, whose limit is such as `100/second`.

        Raises:
            StoreUnavailableError: if the store gives no answer.
            StoreFullError: if it has no memory left.
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
