"""How many requests each API key has made, counted in the store by the library `limits`.

Fixed windows: the first request of a key opens one, and the next opens when it has passed. One round trip for each
request, and a second one for a request that is refused. Around the edge of two windows twice the limit may pass.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

from limits import RateLimitItem, parse
from limits.aio.storage import RedisStorage
from redis import exceptions
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from service.errors import StoreFullError, StoreUnavailableError
from service.store import keys


class Count(NamedTuple):
    """Where a key stands in its window."""

    most: int  # requests in a window
    window: int  # seconds
    left: int  # requests; -1 if this one was too many
    resets_in: int | None  # seconds, at least 1; told only where none is left


class RateLimits:
    """Implements `service.api.access.Limiter`, over connections of its own.

    Args:
        url: the store's.
        timeout: seconds to wait for a connection, and for each reply.
    """

    def __init__(self, url: str, timeout: float) -> None:
        never = Retry(NoBackoff(), 0)  # a request whose count was lost is refused, not counted twice
        self._pool = ConnectionPool.from_url(url, retry=never, socket_timeout=timeout, socket_connect_timeout=timeout)
        self._redis = Redis(connection_pool=self._pool)
        options: dict[str, Any] = {"connection_pool": self._pool}  # which the library's types leave out
        self._counters = RedisStorage(
            "async+redis://", implementation="redispy", key_prefix=keys.RATE_LIMITS, **options
        )

    async def count(self, key_id: str, limit: str) -> Count:
        """Counts a request of a key, whose limit is such as `100/second`.

        Raises:
            StoreUnavailableError: if the store gives no answer.
            StoreFullError: if it has no memory left.
        """
        item = _parse(limit)
        counter, window = item.key_for(key_id), item.get_expiry()
        try:
            made = await self._counters.incr(counter, window)
            if made < item.amount:
                return Count(item.amount, window, item.amount - made, None)
            seconds = await self._redis.ttl(f"{keys.RATE_LIMITS}:{counter}")
        except exceptions.OutOfMemoryError as error:
            raise StoreFullError("the store has reached its memory limit") from error
        except (exceptions.RedisError, OSError) as error:
            raise StoreUnavailableError(f"the store does not answer: {error or type(error).__name__}") from error
        return Count(item.amount, window, max(item.amount - made, -1), max(1, math.ceil(seconds)))

    async def close(self) -> None:
        """Closes connections."""
        await self._pool.disconnect()


@lru_cache(maxsize=1024)
def _parse(limit: str) -> RateLimitItem:
    return parse(limit)
