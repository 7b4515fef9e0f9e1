"""Opens the store of models, API keys and request counts over one set of connections."""

from typing import NamedTuple

from service.store.access.api_keys import ApiKeyTable
from service.store.access.rate_limits import RateLimits
from service.store.access.tables import KeyTable, RequestCounter
from service.store.base import Store
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.redis.redis_store import RedisStore
from service.store.redis.traced import traced


class OpenStore(NamedTuple):
    """An open store. Closing `store` closes all three."""

    store: Store
    api_keys: KeyTable
    request_counter: RequestCounter


def open_store(  # noqa: PLR0913 - each is a setting
    url: str,
    timeout: float,
    tls: TlsFiles = NO_FILES,
    replicas: int = 0,
    max_open_bytes: int = 0,
    *,
    tracing: bool = False,
) -> OpenStore:
    """Open the store at a URL. Connections open on first use.

    Args:
        url: as for `service.store.connections.addresses.parse_store_url`.
        timeout: seconds to wait for a connection, and for each reply.
        tls: files for TLS, if the URL selects it.
        replicas: number of replicas that must have a feedback before it is acknowledged.
        max_open_bytes: maximum bytes of the open predictions of a model; 0 for any.
        tracing: whether to record store calls about models as spans.
    """
    redis = RedisStore(url, timeout, tls, replicas, max_open_bytes)
    store = traced(redis) if tracing else redis
    return OpenStore(store, ApiKeyTable(redis.command), RateLimits(redis.command))
