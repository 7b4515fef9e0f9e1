"""A store that records every call as a span of the request that caused it.

Coalesced requests share one call. Its span belongs to the first of these requests.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.trace import SpanKind

from service.store.base import Store
from service.store.stored_models import ModelKey

_UNTRACED = {"claim_due"}
"""Every worker calls it each second, for no request."""

_tracer = trace.get_tracer("wager.store")


def traced(store: Store) -> Store:
    """Return the store with tracing added."""
    return cast("Store", _Traced(store))


class _Traced:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        wrapped = method if name in _UNTRACED else _spanned(name, method)
        setattr(self, name, wrapped)  # later look-ups bypass __getattr__
        return wrapped


def _spanned(name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Wrap a method in a span with its model and its number of items, but no content, which may be private."""

    @functools.wraps(method)
    async def call(*args: Any) -> Any:
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
