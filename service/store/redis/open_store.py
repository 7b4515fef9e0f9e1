"""Opens the store: what is kept of models, of API keys, and of their requests, over one set of connections."""

from typing import NamedTuple

from service.store.access_tables import KeyTable, RequestCounter
from service.store.base import Store
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.redis.api_keys import ApiKeyTable
from service.store.redis.rate_limits import RateLimits
from service.store.redis.redis_store import RedisStore
from service.store.redis.traced import traced


class OpenStore(NamedTuple):
    """An open store; closing `store` closes all of it."""

    store: Store
    api_keys: KeyTable
    request_counter: RequestCounter


def open_store(
    url: str, timeout: float, tls: TlsFiles = NO_FILES, replicas: int = 0, *, tracing: bool = False
) -> OpenStore:
    """Open the store at a URL. Connections are made when they are first used.

    Args:
        url: as `service.store.connections.addresses.parse_store_url` takes it.
        timeout: seconds to wait for a connection, and for each reply.
        tls: files for TLS, where the URL asks for it.
        replicas: how many must have a feedback before it is acknowledged.
        tracing: whether calls about models are spans.
    """
    redis = RedisStore(url, timeout, tls, replicas)
    store = traced(redis) if tracing else redis
    return OpenStore(store, ApiKeyTable(redis.command), RateLimits(redis.command))
