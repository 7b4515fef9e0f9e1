"""Opens the store of models, API keys and counts of their usage, which share their connections."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar, cast

from opentelemetry import trace
from opentelemetry.trace import SpanKind

from service.store.access_tables import ApiKeyTable, KeyTable, UsageCounter, UsageCounters
from service.store.capabilities import Store
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey

_T = TypeVar("_T")

_UNTRACED = {"claim", "count_traffic"}
"""Methods that every worker calls about once a second, independently of requests."""

_tracer = trace.get_tracer("wager.store")


def traced(store: Store) -> Store:
    """Return the store, with a span for each call of a method that is not in `_UNTRACED`."""
    return cast("Store", _Traced(store))


class _Traced:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        wrapped = method if name in _UNTRACED else _spanned(name, method)
        setattr(self, name, wrapped)  # later look-ups bypass __getattr__
        return wrapped


def _spanned(name: str, method: Callable[..., Awaitable[_T]]) -> Callable[..., Awaitable[_T]]:
    """Wrap a method in a span that shows its model and number of items, but no content, which may be private."""

    @functools.wraps(method)
    async def call(*args: object) -> _T:
        attributes: dict[str, str | int] = {"db.system.name": "redis", "db.operation.name": name}
        if args and isinstance(args[0], ModelKey):
            attributes["wager.model"] = args[0].name
        if len(args) > 1 and isinstance(args[1], list):
            attributes["db.operation.batch.size"] = len(args[1])
        with _tracer.start_as_current_span(
            f"store {name}", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
        ):
            return await method(*args)

    return call


class OpenStore(NamedTuple):
    """The parts of an open store. Closing `store` closes all three."""

    store: Store
    api_keys: KeyTable
    usage_counter: UsageCounter


def open_store(
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
        url: the URL of the store, in a form that `service.store.connections.addresses.parse_store_url` accepts.
        timeout: seconds to wait for a connection or a reply; 30 times as long for replies about snapshots.
        tls: files for TLS, used if the URL selects TLS.
        replicas: number of replicas of the store's server that must confirm feedback before it is acknowledged.
        max_open_bytes: maximum bytes of a model's open predictions; 0 for no maximum.
        tracing: whether to record the calls of `store` as spans.
    """
    redis = RedisStore(url, timeout, tls, replicas, max_open_bytes)
    store = traced(redis) if tracing else redis
    return OpenStore(store, ApiKeyTable(redis.command), UsageCounters(redis.command))
