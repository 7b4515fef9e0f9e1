"""The store over the Redis protocol: Redis 7.0 or later, or Valkey 8 or later.

Every change is one Lua script on the keys of one model, so it is atomic and runs on one shard. The client never
repeats a command that may have run. If the reply to a write is lost, the caller may repeat the write; the scripts are
idempotent.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, TypeAlias

from redis import exceptions

from service.errors import (
    ModelNotFoundError,
    OpenPredictionsFullError,
    OtherHistoryError,
    StoreFullError,
    StoreUnavailableError,
)
from service.store import keys
from service.store.base import (
    Block,
    Feedback,
    FeedbackResult,
    FeedbackRules,
    Head,
    ModelStats,
    PublishedStatistics,
    Seen,
    StoreLoad,
    StoreReadiness,
    Tail,
)
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.connections.connections import Connection, connect
from service.store.connections.readiness import read_readiness
from service.store.connections.replication import Confirmed
from service.store.redis.closing_commands import ClosingCommands
from service.store.redis.codecs import feedback_codec
from service.store.redis.codecs.entry_codec import decode_tail
from service.store.redis.codecs.feedback_codec import decode_results
from service.store.redis.codecs.model_stats import read_load, read_model_stats
from service.store.redis.damage_commands import DamageCommands
from service.store.redis.driver_errors import translated_error, translating_errors
from service.store.redis.log_commands import LogCommands
from service.store.redis.model_commands import ModelCommands
from service.store.redis.shadow_commands import ShadowCommands
from service.store.redis.snapshot_commands import SnapshotCommands
from service.store.scripts import Script, record_script, script
from service.store.stored_models import (
    ModelKey,
)

_BULK_PATIENCE = 30
"""Factor by which the timeout for snapshots exceeds that for other replies. A snapshot may have many megabytes."""

_FULL = "the open predictions of model {0!r} would have more than {1:,} bytes; send feedback, or wait until some expire"

_Connection: TypeAlias = Connection | Confirmed

_ADD_PREDICTIONS = record_script(
    "book_open", "add_predictions", "counts", "open_bytes", "read_entries", "add_predictions_late"
)
_ADD_FEEDBACK = record_script("counts", "book_open", "blocks", "add_feedback")
_READ_TAIL = record_script("read_entries", "read_tail")
_PUBLISH_STATISTICS = script("counts", "open_bytes", "publish_statistics")


class RedisStore(DamageCommands, ClosingCommands, LogCommands, ModelCommands, SnapshotCommands, ShadowCommands):
    """Implements `service.store.base.Store`.

    Args:
        url: as for `service.store.connections.addresses.parse_store_url`.
        timeout: seconds to wait for a connection, and for each reply.
        tls: files for TLS, if the URL selects it.
        replicas: number of replicas that must have a feedback before it is acknowledged.
        max_open_bytes: maximum bytes of the open predictions of a model; 0 for any.
    """

    def __init__(
        self, url: str, timeout: float, tls: TlsFiles = NO_FILES, replicas: int = 0, max_open_bytes: int = 0
    ) -> None:
        self._connection = connect(url, timeout, tls)
        self._confirmed = Confirmed(self._connection, replicas, timeout / 2)
        self._bulk = connect(url, timeout, tls, _BULK_PATIENCE)
        self._max_open_bytes = int(max_open_bytes)  # the driver refuses subclasses

    @translating_errors
    async def add_predictions(
        self, key: ModelKey, blocks: Sequence[Block], keep_seconds: float, seen: Seen | None
    ) -> list[Head] | Tail:
        """See `Store.add_predictions`."""
        named = [*keys.of_blocks(*key), *[keys.block(*key, id_) for id_, _ in blocks]]
        rounds, limit, last_at, newer, damage, changes, digest = seen or Seen(-1, 0)
        kept, most = round(keep_seconds * 1000), self._max_open_bytes
        args = [key.incarnation, rounds, changes, last_at or b"", int(newer), limit, damage, kept, most, digest]
        reply = await self._run(_ADD_PREDICTIONS, named, [*args, *[record for _, record in blocks]])
        total, items, *version = _unless_gone(key, reply)
        if total is not None:
            return decode_tail(total, items, *version)
        return [OpenPredictionsFullError(_FULL.format(key.name, most)) if head == 1 else head for head in items]

    @translating_errors
    async def add_feedback(
        self, key: ModelKey, feedback: Sequence[Feedback], rules: FeedbackRules, now: float
    ) -> list[FeedbackResult]:
        """See `Store.add_feedback`."""
        order, encoded = feedback_codec.by_block(feedback)
        late, needed, *history = rules
        fixed = [key.incarnation, repr(now), int(late), int(needed), *history]
        named = [*keys.of_blocks(*key), *[keys.block(*key, block) for block in encoded]]
        parts = [part for block, each in encoded.items() for part in (block, b"".join(each))]
        reply = await self._run(_ADD_FEEDBACK, named, [*fixed, *parts], self._confirmed)
        if reply == 0:
            raise OtherHistoryError(f"the store has lost changes of model {key.name!r}; try again")
        replies: list[tuple[bytes, bytes]] = _unless_gone(key, reply)
        results = {block: decode_results(*each) for block, each in zip(encoded, replies, strict=True)}
        return feedback_codec.in_order(order, results)

    @translating_errors
    async def read_tail(self, key: ModelKey, after: int, limit: int) -> Tail:
        """See `Store.read_tail`."""
        reply = await self._run(_READ_TAIL, _model_and_log(key), [key.incarnation, after, limit])
        return decode_tail(*_unless_gone(key, reply))

    @translating_errors
    async def publish_statistics(self, key: ModelKey, published: PublishedStatistics) -> int:
        """See `Store.publish_statistics`."""
        named = [keys.model(key.name), keys.statistics(*key)]
        return int(_unless_gone(key, await self._run(_PUBLISH_STATISTICS, named, [key.incarnation, *published])))

    @translating_errors
    async def read_model_stats(self, name: str) -> ModelStats | None:
        """See `Store.read_model_stats`."""
        return await read_model_stats(self._call, name)

    @translating_errors
    async def list_names(self, limit: int) -> list[str]:
        """See `Store.list_names`."""
        names = await self._call("ZRANGE", keys.MODELS, "-", "+", "BYLEX", "LIMIT", 0, limit)
        return [name.decode() for name in names if name.isascii()]

    @translating_errors
    async def read_load(self) -> StoreLoad:
        """See `Store.read_load`."""
        return await read_load([server.call for server in await self._connection.primaries()], self._call)

    @translating_errors
    async def check(self) -> StoreReadiness:
        """See `Store.check`."""
        servers = await self._connection.primaries()
        try:
            readiness = await read_readiness(servers, self._connection.kind, self._confirmed.way)
        except exceptions.ResponseError as error:
            if isinstance(refusal := translated_error(error), StoreFullError):
                raise StoreUnavailableError(refusal.detail) from error
            raise
        return self._confirmed.promised(readiness)

    @translating_errors
    async def command(self, *words: Any) -> Any:
        """Run one command for tables other than models, such as `service.store.access.api_keys`."""
        return await self._call(*words)

    async def close(self) -> None:
        """See `Store.close`."""
        await self._connection.close()
        await self._bulk.close()

    async def _run(
        self, script: Script, named: Sequence[str], args: Sequence[Any], connection: _Connection | None = None
    ) -> Any:
        call = (connection or self._connection).call
        try:
            return await call("EVALSHA", script.sha, len(named), *named, *args)
        except exceptions.NoScriptError:
            return await call("EVAL", script.source, len(named), *named, *args)

    def _call(self, *command: Any, connection: _Connection | None = None) -> Awaitable[Any]:
        return (connection or self._connection).call(*command)


def _model_and_log(key: ModelKey) -> list[str]:
    return [keys.model(key.name), keys.log(*key)]


def _unless_gone(key: ModelKey, reply: Any) -> Any:
    if reply is None:
        raise ModelNotFoundError(f"there is no model {key.name!r}", "model")
    return reply
