"""Every store call, grouped into writes, reads and others."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from service.store.capabilities import Store
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, digests_of
from service.store.values import (
    Counts,
    Damage,
    Due,
    Feedback,
    ImportBatch,
    ImportedSource,
    KeptNote,
    ModelCopy,
    PublishedStatistics,
    Snapshot,
    StoredShadow,
)
from tests.service.store.samples import NEW, NOW, STRICT, WINDOW, id_of, sample_predictions

KEY = ModelKey("forest", "first")


IMPORTED = ImportedSource("file", 2, NOW)
_AFTER = digests_of(["{}", '{"at":1}'])[-8:]
COPY = ModelCopy(
    "{}", ('{"at":1}',), "", Snapshot(3, b"state", change_count=1, digest=_AFTER), Counts(1), imports=(IMPORTED,)
)
SHADOW = StoredShadow("rival", "s1", 1, "{}", 0, 0, None)
GIVEN = Feedback(id_of("open"), True, None)


WRITES: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "create_model": lambda store: store.create_model(ModelKey("other", "first"), "{}", NOW),
    "change_model": lambda store: store.change_model(KEY, NEW, "{}", "{}"),
    "add_predictions": lambda store: store.add_predictions(KEY, sample_predictions("a", "b"), WINDOW, None),
    "add_feedback": lambda store: store.add_feedback(KEY, [GIVEN], STRICT, NOW),
    "save_snapshot": lambda store: store.save_snapshot(KEY, Snapshot(1, b"state"), 10),
    "publish_statistics": lambda store: store.publish_statistics(KEY, PublishedStatistics(1, b"tally", 5, 1, 2)),
    "record_damage": lambda store: store.record_damage(KEY, [Damage(1, 1, 1, "noise")]),
    "mark_snapshot": lambda store: store.mark_snapshot(KEY, 0, "noise"),
    "activate": lambda store: store.activate(id_of("open")._replace(model=KEY.name), KEY.incarnation, NOW),
    "watch_closing": lambda store: store.watch(Due.CLOSING, [KEY]),
    "put_off_closing": lambda store: store.put_off(Due.CLOSING, KEY, 0.0, 1.0),
    "import_rounds": lambda store: store.import_rounds(KEY, ImportBatch("file", 0, 0, [], NEW), NOW),
    "keep_snapshot": lambda store: store.keep_snapshot(KEY, KeptNote("mine", 1, 0, NOW), Snapshot(1, b"state")),
    "create_copy": lambda store: store.create_copy(ModelKey("copy", "first"), COPY, NOW),
    "put_shadow": lambda store: store.put_shadow(KEY, "rival", "s1", "{}"),
    "save_shadow": lambda store: store.save_shadow(KEY, SHADOW, Snapshot(1, b"state")),
    "hold_rounds": lambda store: store.hold_rounds(KEY, 1, 1),
    "watch_shadows": lambda store: store.watch(Due.SHADOWS, [KEY]),
    "put_off_shadows": lambda store: store.put_off(Due.SHADOWS, KEY, 0.0, 1.0),
    "note_backup": lambda store: store.note_backup(NOW),
    "count_traffic": lambda store: store.count_traffic({"forest": 1}),
    "keep_summary": lambda store: store.keep_summary(KEY, "{}"),
}


REFUSED_WHEN_FULL = frozenset(
    {
        *("create_model", "create_copy", "add_predictions", "import_rounds"),
        *("keep_snapshot", "put_shadow", "save_shadow", "hold_rounds"),
    }
)
"""Writes that a store without memory refuses. The others free memory, are bounded, or must never be lost."""

READS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "get_model": lambda store: store.get_model("forest"),
    "list_models": lambda store: store.list_models(["forest"]),
    "read_tail": lambda store: store.read_tail(KEY, 0, 10),
    "load_snapshot": lambda store: store.load_snapshot(KEY),
    "read_figures": lambda store: store.read_model_stats("forest"),
    "list_names": lambda store: store.list_names(10),
    "list_flags": lambda store: store.list_flags("", 10),
    "read_traffic": lambda store: store.read_traffic(),
    "list_busiest": lambda store: store.list_busiest(10),
    "measure": lambda store: store.measure("forest"),
    "read_damage": lambda store: store.read_damage(KEY),
    "has_damage": lambda store: store.has_damage(),
    "read_imports": lambda store: store.read_imports(KEY),
    "list_kept": lambda store: store.list_kept(KEY),
    "load_kept": lambda store: store.load_kept(KEY, "mine"),
    "read_shadows": lambda store: store.read_shadows(KEY),
    "load_shadow": lambda store: store.load_shadow(KEY, SHADOW),
    "read_comparison": lambda store: store.read_comparison(KEY, SHADOW),
    "list_model": lambda store: store.list_model("forest"),
    "sum_deleted_bytes": lambda store: store.sum_deleted_bytes(KEY.name.__eq__),
}


OTHERS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "drop_kept": lambda store: store.drop_kept(KEY, "mine", NEW, 0),
    "restart_shadow": lambda store: store.restart_shadow(KEY, SHADOW),
    "drop_shadow": lambda store: store.drop_shadow(KEY, "rival"),
    "claim_shadows": lambda store: store.claim(Due.SHADOWS, 0.0, 8, 2.0),
    "unwatch_shadows": lambda store: store.unwatch(Due.SHADOWS, KEY),
    "claim_due": lambda store: store.claim(Due.CLOSING, 0.0, 8, 2.0),
    "close_expired": lambda store: store.close_expired(KEY, 0.0, 8),
    "check": lambda store: store.check(),
    "read_load": lambda store: store.read_load(),
    "delete_model": lambda store: store.delete_model("forest"),
    "erase": lambda store: store.erase({KEY}, ""),
}


@asynccontextmanager
async def open_store(
    url: str, patience: float = 5.0, tls: TlsFiles = NO_FILES, **options: Any
) -> AsyncIterator[RedisStore]:
    """Connect to a store for the duration of the context."""
    store = RedisStore(url, patience, tls, **options)
    try:
        yield store
    finally:
        await store.close()
