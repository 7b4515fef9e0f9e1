"""The store over the Redis protocol: Redis 7.0 or later, or Valkey 8 or later.

A model is changed by Lua scripts on its keys. Each script is atomic, and runs on a single server of a cluster. The
client never repeats a command that may have run. If the reply to a write is lost, the caller may repeat the write,
because the scripts are idempotent; only `count_traffic` then counts again.
"""

import asyncio
import json
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from redis import exceptions

from service.error_messages.values import quoted
from service.errors import (
    ModelNotFoundError,
    NewerVersionError,
    OpenPredictionsFullError,
    OtherHistoryError,
    SnapshotNotFoundError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    TooManyModelsError,
)
from service.prediction_id import PredictionId
from service.store import keys
from service.store.capabilities import Store
from service.store.connections.addresses import NO_FILES, TlsFiles, parse_store_url
from service.store.connections.connections import Confirmed, Connection, connect
from service.store.connections.pipeline import Word
from service.store.connections.readiness import read_readiness
from service.store.embedded.server import LOG_FOLDER, free_bytes
from service.store.redis import feedback_codec
from service.store.redis.driver_errors import translated_error, translating_errors
from service.store.redis.entry_codec import CHANGE_VERSION, decode_tail
from service.store.redis.feedback_codec import activation_status, decode_results, encoded_token
from service.store.redis.model_hash import count, read_listed, read_model
from service.store.redis.model_stats import read_load, read_model_stats
from service.store.redis.snapshot_parts import SNAPSHOT_VERSION, check_of, read_snapshot
from service.store.scripts import Script, record_script, script
from service.store.stored_models import (
    NO_POLICIES,
    ListedModel,
    ModelKey,
    StoredModel,
    StoredPolicies,
    UnreadModel,
    Version,
    digest_after,
    digests_of,
)
from service.store.values import (
    KEPT_FOR_SHADOWS,
    MOST_KEPT,
    MOST_SOURCES,
    Block,
    BlockPage,
    Closed,
    CopiedShadow,
    Damage,
    DamagedSnapshotError,
    DamageRecord,
    Due,
    Feedback,
    FeedbackResult,
    FeedbackRules,
    FeedbackStatus,
    Head,
    ImportBatch,
    Imported,
    ImportedSource,
    Keeping,
    KeptNote,
    ModelCopy,
    ModelMemory,
    ModelStats,
    NameQuota,
    PublishedStatistics,
    Seen,
    Snapshot,
    StoredShadow,
    StoreLoad,
    StoreReadiness,
    Tail,
    decode_damage,
)

_SNAPSHOT_IS_AHEAD = -1  # reply of record_damage.lua
_SCANNED_AT_ONCE = 1000  # keys that one SCAN examines for blocks of predictions
_ERASED_AT_ONCE = 200  # the same for what is erased, which takes about a millisecond
_ENTRIES_AT_ONCE = 2048
"""Maximum log entries to trim per call, which takes about a millisecond."""
_NOT_KEPT = 2  # reply of change_model.lua
_OTHERS_KEPT = 3  # reply of delete_model.lua
_PART_BYTES = 2**20
"""Bytes per part of a snapshot. The store takes one or two milliseconds to accept a part."""
_UNFINISHED_SECONDS = 3600
"""Seconds after which the parts of an unfinished snapshot expire."""
_BULK_PATIENCE = 30
"""Timeout for snapshots, which may have many megabytes, as a multiple of the timeout for other replies."""
_TRAFFIC_DECAY_SECONDS = 86_400 / math.log(2.0)
"""Time constant of the exponential decay of a prediction's weight in its model's traffic: a day halves the weight."""
_MOST_RANKED = 10_000
"""Maximum models in the ranking by traffic: the upper bound of WAGER_METRICS_MAX_MODELS."""
_COUNTED_AT_ONCE = 2_000
"""Maximum number of arguments, names and counts together, in one call of count_traffic.lua."""
_SUMMED_AT_ONCE = 64
"""Models whose open predictions are summed together."""
_MEASURED_SAMPLES = 100
"""Elements sampled per key to estimate its memory."""
_FULL = "the open predictions of model {0!r} would have more than {1:,} bytes; send feedback, or wait until some expire"

_ENLIST = script("enlist")
_ACTIVATE = record_script("counts", "book_open", "blocks", "activate")
_CLOSE_EXPIRED = record_script("counts", "book_open", "blocks", "close_expired")
_CLAIM_DUE = script("claim_due")
_PUT_OFF = script("put_off")
_RECORD_DAMAGE = script("snapshot_there", "record_damage")
_MARK_SNAPSHOT = script("snapshot_there", "mark_snapshot")
_IMPORT_ROUNDS = record_script("counts", "book_open", "blocks", "import_rounds")
_FORGET_OLD = record_script("read_entries", "snapshot_there", "forget_old")
_COUNT_TRAFFIC = script("count_traffic")
_MEASURE = script("measure")
_RESERVE_NAME = script("reserve_name")
_SUM_OPEN = script("counts", "open_bytes", "sum_open")
_CREATE_MODEL = script("create_model")
_LIST_MODEL = script("list_model")
_KEEP_SUMMARY = script("keep_summary")
_CHANGE_MODEL = script("counts", "change_model")
_DELETE_MODEL = script("counts", "open_bytes", "delete_model")
_ERASE_KEYS = script("erase_keys")
_PUT_SHADOW = record_script("read_entries", "log_begin", "put_shadow")
_DROP_SHADOW = script("drop_shadow")
_SAVE_SHADOW = record_script("read_entries", "snapshot_there", "save_shadow")
_RESTART_SHADOW = record_script("read_entries", "log_begin", "restart_shadow")
_HOLD_ROUNDS = script("hold_rounds")
_WRITE_PART = script("write_part")
_SAVE_SNAPSHOT = record_script("read_entries", "snapshot_there", "shadow_rounds", "save_snapshot")
_KEEP_SNAPSHOT = record_script("read_entries", "keep_snapshot")
_DROP_KEPT = script("drop_kept")
_CREATE_COPY = script("create_copy")
_ADD_PREDICTIONS = record_script(
    "book_open", "add_predictions", "counts", "open_bytes", "read_entries", "add_predictions_late"
)
_ADD_FEEDBACK = record_script("counts", "book_open", "blocks", "add_feedback")
_READ_TAIL = record_script("read_entries", "read_tail")
_PUBLISH_STATISTICS = script("counts", "open_bytes", "publish_statistics")


@translating_errors
class RedisStore(Store):
    """Implements `Store` for a server, a cluster, or servers watched by Sentinels, depending on the URL.

    Args:
        url: the URL of the store, in a form that `service.store.connections.addresses.parse_store_url` accepts.
        timeout: seconds to wait for a connection or reply; `_BULK_PATIENCE` times as long for replies about snapshots.
        tls: files for TLS, used if the URL selects TLS.
        replicas: number of replicas of the store's server that must confirm feedback before it is acknowledged.
        max_open_bytes: maximum bytes of a model's open predictions; 0 for no maximum.
    """

    def __init__(
        self, url: str, timeout: float, tls: TlsFiles = NO_FILES, replicas: int = 0, max_open_bytes: int = 0
    ) -> None:
        self._connection = connect(url, timeout, tls)
        self._confirmed = Confirmed(self._connection, replicas, timeout / 2)
        self._bulk = connect(url, timeout, tls, _BULK_PATIENCE)
        self._max_open_bytes = int(max_open_bytes)  # redis-py refuses subclasses of int
        socket = parse_store_url(url).path
        self._log_folder = Path(socket).parent / LOG_FOLDER if socket else None  # exists if the store is embedded

    async def reserve_name(self, name: str, quota: NameQuota) -> None:
        if not await self._run(_RESERVE_NAME, [keys.MODELS], [name, *quota]):
            detail = f"the API key may have at most {quota.most:,} models {quoted(quota.glob)}; delete one of them"
            raise TooManyModelsError(detail, "name")

    async def create_model(
        self, key: ModelKey, definition: str, now: float, summary: str = "", policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        # List the name before and after, because the deletion of an earlier model may remove it in between.
        await self._list(key, policies)
        rules = policies.closing, policies.retention, policies.bulk
        args = (key.incarnation, definition, repr(now), digests_of([definition]), summary, *rules)
        created = bool(await self._run(_CREATE_MODEL, [keys.model(key.name)], args))
        if created:
            await self._list(key, policies)
            await self._watch_policies(key, policies)
        return created

    async def create_copy(self, key: ModelKey, copy: ModelCopy, now: float) -> bool:
        snapshot, policies = copy.snapshot, copy.policies
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_snapshot(*key, check)
        parts = await self._write_parts(coming, snapshot.state)
        named = [keys.model(key.name), keys.log(*key), keys.snapshot(*key), coming, keys.imports(*key)]
        named.append(keys.shadows(*key))
        of_shadows = list[Word]()
        for slot, shadow in enumerate(copy.shadows, 1):
            shadow_coming, words = await self._write_copied(key, shadow)
            named += [shadow_coming, keys.shadow(*key, slot)]
            of_shadows += words
        args: list[Word] = [
            *(key.incarnation, copy.definition, repr(now), copy.summary, policies.closing, policies.retention),
            *("".join(f"{line}\n" for line in copy.history), snapshot.round_count, snapshot.change_count),
            *(copy.counts.correct, repr(copy.counts.partial), copy.counts.expired, CHANGE_VERSION, copy.history[-1]),
            *(SNAPSHOT_VERSION, parts, snapshot.statistics, check),
            *(digests_of((copy.definition, *copy.history)), snapshot.digest, copy.counts.abstained, policies.bulk),
            *(len(copy.shadows), *of_shadows),
            *(part for each in copy.imports for part in (each.source, f"{each.position} {each.at!r}")),
        ]
        await self._list(key, policies)  # before and after, as in `create_model`
        created = await self._run(_CREATE_COPY, named, args, self._bulk)
        if created < 0:
            raise StoreUnavailableError("the state of the new model was lost before it was complete; try again")
        if created:
            await self._list(key, policies)
            await self._watch_policies(key, policies)
            await self.watch(Due.SHADOWS, [key] if copy.shadows else [])
        return bool(created)

    async def _write_copied(self, key: ModelKey, shadow: CopiedShadow) -> tuple[str, list[Any]]:
        """Write the parts of a shadow's snapshot; return their temporary key, and the shadow as script arguments."""
        words, snapshot = [shadow.name, shadow.id, shadow.text, shadow.restarts], shadow.snapshot
        if snapshot is None:
            return keys.coming_snapshot(*key, shadow.id), [*words, "", "", ""]
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_snapshot(*key, f"{shadow.id}:{check}")
        parts = await self._write_parts(coming, snapshot.state)
        return coming, [*words, parts, snapshot.statistics, check]

    async def get_model(self, name: str) -> StoredModel | None:
        return read_model(name, await self._call("HGETALL", keys.model(name)))

    async def list_models(self, names: Sequence[str]) -> list[ListedModel | UnreadModel]:
        read = await asyncio.gather(*(self._list_entry(name) for name in names))
        found = [model for model in read if model is not None]
        errors = [model.error for model in found if isinstance(model, UnreadModel)]
        if errors and len(errors) == len(names) and all(isinstance(each, StoreUnavailableError) for each in errors):
            raise errors[0]
        return found

    async def list_model(self, name: str) -> ListedModel | None:
        return read_listed(name, await self._run(_LIST_MODEL, [keys.model(name)], ()))

    async def list_names(self, limit: int, prefix: str = "") -> list[str]:
        begin, end = f"[{prefix}", f"[{prefix}\x7f"  # which sorts after every character of a name
        names = await self._call("ZRANGE", keys.MODELS, begin, end, "BYLEX", "LIMIT", 0, limit)
        return [name.decode() for name in names if name.isascii()]

    async def sum_open_bytes(self, names: Sequence[str]) -> int:
        return await self._sum_open_bytes([keys.model(name) for name in names])

    async def sum_deleted_bytes(self, is_summed: Callable[[str], bool]) -> int:
        members = await self._call("ZRANGE", Due.ERASURE, 0, -1)
        listed = map(keys.of_member, members)
        return await self._sum_open_bytes([keys.deleted(*key) for key in listed if is_summed(key.name)])

    async def _sum_open_bytes(self, counting: Sequence[str]) -> int:
        sum_ = 0
        for start in range(0, len(counting), _SUMMED_AT_ONCE):
            sum_ += sum(await asyncio.gather(*map(self._open_bytes, counting[start : start + _SUMMED_AT_ONCE])))
        return sum_

    async def _open_bytes(self, counting: str) -> int:
        """Return the open bytes that a hash counts: 0 if it is missing or damaged."""
        try:
            return int(await self._run(_SUM_OPEN, [counting], ()))
        except exceptions.ResponseError as error:
            if not isinstance(translated_error(error), StoreCorruptError):
                raise
            return 0  # requests for this model get the error

    async def list_flags(self, after: str, limit: int) -> list[str]:
        start = f"({after}" if after else "-"
        names = await self._call("ZRANGE", keys.FLAGS, start, "+", "BYLEX", "LIMIT", 0, limit)
        return [name.decode() for name in names if name.isascii()]

    async def list_busiest(self, limit: int) -> list[str]:
        ranked = (await self._call("ZRANGE", keys.TRAFFIC, 0, limit, "REV"))[:limit]  # an end of -1 would mean all
        listed = await self._call("ZMSCORE", keys.MODELS, *ranked) if ranked else []
        gone = [name for name, there in zip(ranked, listed, strict=True) if there is None]
        if gone:  # models deleted while another worker counted their traffic
            await self._call("ZREM", keys.TRAFFIC, *gone)
        busy = [name.decode() for name in ranked if name not in gone]
        others = await self.list_names(limit) if len(busy) < limit else []
        return list(dict.fromkeys([*busy, *others]))[:limit]

    async def read_traffic(self) -> dict[str, float]:
        scored = await self._call("ZRANGE", keys.TRAFFIC, 0, -1, "WITHSCORES")
        return {name.decode(errors="replace"): float(score) for name, score in scored}

    async def count_traffic(self, predictions: Mapping[str, int]) -> None:
        counts = [word for pair in predictions.items() for word in pair]
        for start in range(0, len(counts), _COUNTED_AT_ONCE):
            some = counts[start : start + _COUNTED_AT_ONCE]
            await self._run(_COUNT_TRAFFIC, [keys.TRAFFIC], [_TRAFFIC_DECAY_SECONDS, _MOST_RANKED, *some])

    async def keep_summary(self, key: ModelKey, summary: str) -> bool:
        return bool(await self._run(_KEEP_SUMMARY, [keys.model(key.name)], (key.incarnation, summary)))

    async def change_model(
        self, key: ModelKey, digest: bytes, change: str, summary: str, policies: StoredPolicies = NO_POLICIES
    ) -> bool:
        if policies.bulk:  # before and after, as in `create_model`
            await self._call("ZADD", keys.FLAGS, 0, key.name)
        after = digest_after(digest, change.encode())
        args = (key.incarnation, digest, after, CHANGE_VERSION, change, summary, *policies)
        reply = await self._run(_CHANGE_MODEL, [keys.model(key.name), keys.log(*key), keys.kept(*key)], args)
        await self._relist_flag(key.name)
        if _unless_gone(key, reply) == _NOT_KEPT:
            raise SnapshotNotFoundError("the model does not have this snapshot", "snapshot")
        if reply:
            await self._watch_policies(key, policies)
        return bool(reply)

    async def delete_model(self, name: str, version: Version | None = None) -> bool:
        own, digest = version or (await self._incarnation(name) or b"", b"")
        key = ModelKey(name, own.decode(errors="replace"))
        await self.watch(Due.ERASURE, [key] if own else [])  # in case this worker ends before the next time
        deleted_at = await self._delete(key, own, digest)
        if version and not deleted_at:
            return False
        if own:  # due now, even if a worker has found the model there; those deleted before come first
            await self._enlist(Due.ERASURE, deleted_at, keys.member(key))
        await self._call("ZREM", keys.MODELS, name)
        await self._relist_flag(name)
        await self._call("ZREM", keys.DAMAGED, name)
        await self._call("ZREM", keys.TRAFFIC, name)
        for due in (Due.CLOSING, Due.RETENTION, Due.SHADOWS):
            await self.unwatch(due, key)
        if await self._incarnation(name) is not None:  # a new model has taken the name
            await self._call("ZADD", keys.MODELS, 0, name)
        return bool(deleted_at)

    async def claim_deleted(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        claimed = await self.claim(Due.ERASURE, offset, limit, seconds)
        found = [await self._incarnation(key.name) for key in claimed]
        return [key for key, own in zip(claimed, found, strict=True) if own != key.incarnation.encode()]

    async def erase(self, deleted: Collection[ModelKey], cursor: str) -> str | None:
        found, following = await self._scan("wager:{*", cursor, _ERASED_AT_ONCE)
        left = defaultdict[ModelKey, list[str]](list)
        for name in found:
            if (key := keys.of_incarnation(name)) and key in deleted:
                left[key].append(name)
        await asyncio.gather(*(self._erase_keys(key, names) for key, names in left.items()))
        if following is None:
            for key in deleted:
                await self._erase_keys(key, [keys.deleted(*key)])
                await self.unwatch(Due.ERASURE, key)
        return following

    async def _erase_keys(self, key: ModelKey, names: Sequence[str]) -> None:
        await self._run(_ERASE_KEYS, [keys.model(key.name), *names], [key.incarnation])

    async def add_predictions(
        self, key: ModelKey, blocks: Sequence[Block], keep_seconds: float, seen: Seen | None
    ) -> list[Head] | Tail:
        named = [*keys.of_blocks(*key), *[keys.block(*key, id_) for id_, _ in blocks]]
        rounds, limit, last_at, allow_newer, damage, changes, digest = seen or Seen(-1, 0)  # -1: no check
        most = self._max_open_bytes
        args: list[Word] = [key.incarnation, rounds, changes, last_at or b"", int(allow_newer), limit, damage]
        args += [round(keep_seconds * 1000), most, digest, *[record for _, record in blocks]]
        reply = await self._run(_ADD_PREDICTIONS, named, args)
        total, items, *version = _unless_gone(key, reply)
        if total is not None:
            return decode_tail(total, items, *version)
        return [OpenPredictionsFullError(_FULL.format(key.name, most)) if head == 1 else head for head in items]

    async def add_feedback(
        self, key: ModelKey, feedback: Sequence[Feedback], rules: FeedbackRules, now: float
    ) -> list[FeedbackResult]:
        order, encoded = feedback_codec.by_block(feedback)
        late, needed, changes, digest = rules
        fixed: list[Word] = [key.incarnation, repr(now), int(late), int(needed), changes, digest]
        named = [*keys.of_blocks(*key), *[keys.block(*key, block) for block in encoded]]
        parts: list[Word] = [part for block, each in encoded.items() for part in (block, b"".join(each))]
        reply = await self._run(_ADD_FEEDBACK, named, [*fixed, *parts], self._confirmed)
        if reply == 0:
            raise OtherHistoryError(f"the store has lost changes of model {key.name!r}; try again")
        *replies, deadline = _unless_gone(key, reply)
        if deadline:
            await self._enlist(Due.CLOSING, "LT", deadline, keys.member(key))
        results = {block: decode_results(*each) for block, each in zip(encoded, replies, strict=True)}
        return feedback_codec.in_order(order, results)

    async def activate(self, prediction: PredictionId, incarnation: str, now: float) -> FeedbackStatus:
        name, block, token = prediction
        named = [*keys.of_blocks(name, incarnation), keys.block(name, incarnation, block)]
        args: list[Word] = [incarnation, repr(now), encoded_token(token)]
        letter = await self._run(_ACTIVATE, named, args, self._confirmed)
        if letter is None:
            raise ModelNotFoundError(f"there is no model {name!r}", "prediction_id")
        return activation_status(letter)

    async def close_expired(self, key: ModelKey, offset: float, most_blocks: int) -> Closed:
        upcoming, newest, due, newer = b"", 0, list[bytes](), 0
        for _ in range(2):  # the first call returns the due blocks, the second closes them
            named = [*keys.of_blocks(*key), *(keys.block(*key, block.decode()) for block in due)]
            reply = await self._run(_CLOSE_EXPIRED, named, [key.incarnation, repr(offset), most_blocks, *due])
            if reply is None:
                break
            upcoming, number, due, met = reply
            newest, newer = max(newest, number), newer + met
            if not due:
                break
        # `upcoming` is still right: predictions made since the call expire at least one window after the call, and may
        # be closed half a second late.
        if reply is None or not upcoming:
            await self.unwatch(Due.CLOSING, key)
        elif due:  # the model is due again now, but after the other due models
            await self.put_off(Due.CLOSING, key, offset, 0.0)
        else:
            await self._enlist(Due.CLOSING, "XX", upcoming, keys.member(key))
        return Closed(newest, bool(due), newer > 0)

    async def read_block(self, key: ModelKey, id_: str) -> bytes | None:
        return await self._get(keys.block(*key, id_))

    async def scan_blocks(self, key: ModelKey, cursor: str) -> BlockPage:
        prefix = keys.block(*key, "")
        found, following = await self._scan(f"{prefix}*", cursor, _SCANNED_AT_ONCE)
        records = [(name.removeprefix(prefix), await self._get(name)) for name in found]
        return BlockPage([Block(id_, record) for id_, record in records if record is not None], following)

    async def read_tail(self, key: ModelKey, after: int, limit: int) -> Tail:
        reply = await self._run(_READ_TAIL, _model_and_log(key), [key.incarnation, after, limit])
        return decode_tail(*_unless_gone(key, reply))

    async def import_rounds(self, key: ModelKey, part: ImportBatch, now: float) -> Imported:
        named = [*keys.of_blocks(*key), keys.imports(*key)]
        args: list[Word] = [key.incarnation, repr(now), part.digest, part.source, part.place, part.size, MOST_SOURCES]
        reply = await self._run(
            _IMPORT_ROUNDS, named, [*args, *(each for block in part.blocks for each in block)], self._confirmed
        )
        if reply is None:
            raise ModelNotFoundError(f"there is no model {key.name!r}", "name")
        position, rounds, changes, appended = reply
        return Imported(int(position), int(rounds), int(changes), bool(appended))

    async def read_imports(self, key: ModelKey) -> list[ImportedSource]:
        fields: dict[bytes, bytes] = await self._call("HGETALL", keys.imports(*key))
        found = [_source(name, value) for name, value in fields.items()]
        return sorted(found, key=lambda each: (-each.at, each.source))

    async def forget_old(self, key: ModelKey, offset: float) -> bool:
        named = [keys.model(key.name), keys.log(*key), keys.snapshot(*key), keys.shadows(*key)]
        reply = await self._run(_FORGET_OLD, named, [key.incarnation, repr(offset), _ENTRIES_AT_ONCE])
        if reply is None:
            await self.unwatch(Due.RETENTION, key)
            return False
        upcoming, waits = reply
        await self._enlist(Due.RETENTION, "XX", upcoming, keys.member(key))
        return bool(waits)

    async def load_snapshot(self, key: ModelKey) -> Snapshot | None:
        return await self._load(keys.snapshot(*key))

    async def save_snapshot(self, key: ModelKey, snapshot: Snapshot, retain_rounds: int) -> int:
        # The name of the temporary key contains the check, so workers can write snapshots concurrently.
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_snapshot(*key, check)
        parts = await self._write_parts(coming, snapshot.state, beyond_limit=True)  # a snapshot lets the log be trimmed
        named = [keys.model(key.name), keys.log(*key), keys.snapshot(*key), coming, keys.shadows(*key)]
        args: list[Word] = [
            *(key.incarnation, SNAPSHOT_VERSION, snapshot.round_count, snapshot.change_count, snapshot.last_at or b""),
            *(parts, retain_rounds, snapshot.statistics, snapshot.damage, check, KEPT_FOR_SHADOWS, snapshot.digest),
        ]
        return int(_unless_gone(key, await self._run(_SAVE_SNAPSHOT, named, args, self._bulk)))

    async def publish_statistics(self, key: ModelKey, published: PublishedStatistics) -> int:
        named = [keys.model(key.name), keys.statistics(*key)]
        return int(_unless_gone(key, await self._run(_PUBLISH_STATISTICS, named, [key.incarnation, *published])))

    async def keep_snapshot(self, key: ModelKey, note: KeptNote, snapshot: Snapshot) -> Keeping:
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_kept(*key, note.id, check)
        parts = await self._write_parts(coming, snapshot.state)
        kept, list_ = keys.kept_snapshot(*key, note.id), keys.kept(*key)
        named = [keys.model(key.name), keys.log(*key), list_, coming, kept]
        args: list[Word] = [
            *(key.incarnation, SNAPSHOT_VERSION, snapshot.round_count, snapshot.change_count, snapshot.last_at or b""),
            *(parts, snapshot.statistics, snapshot.damage, check, note.id, _encoded(note), MOST_KEPT, snapshot.digest),
        ]
        return Keeping(_unless_gone(key, await self._run(_KEEP_SNAPSHOT, named, args, self._bulk)).decode())

    async def list_kept(self, key: ModelKey) -> Sequence[KeptNote]:
        found = await self._call("HGETALL", keys.kept(*key))
        return sorted((_decoded(key, id_, text) for id_, text in found.items()), key=lambda note: (note.at, note.id))

    async def load_kept(self, key: ModelKey, id_: str) -> Snapshot | None:
        return await self._load(keys.kept_snapshot(*key, id_))

    async def drop_kept(self, key: ModelKey, id_: str, digest: bytes, needed_by: int) -> Keeping:
        named = [keys.model(key.name), keys.log(*key), keys.kept(*key), keys.kept_snapshot(*key, id_)]
        reply = await self._run(_DROP_KEPT, named, [key.incarnation, id_, digest, needed_by])
        return Keeping(_unless_gone(key, reply).decode())

    async def record_damage(self, key: ModelKey, found: Sequence[Damage]) -> bool:
        ranges = [part for each in found for part in (each.first, each.last, each.entry, each.reason)]
        return await self._record(_RECORD_DAMAGE, key, ranges) != _SNAPSHOT_IS_AHEAD

    async def mark_snapshot(self, key: ModelKey, rounds: int, reason: str) -> None:
        await self._record(_MARK_SNAPSHOT, key, [rounds, reason])

    async def read_damage(self, key: ModelKey) -> DamageRecord:
        # Read the version first: damage recorded between the two reads then makes the caller read again.
        version = await self._call("HGET", keys.model(key.name), "damage")
        return DamageRecord(int(version or 0), decode_damage(await self._call("HGETALL", keys.damage(*key))))

    async def has_damage(self) -> bool:
        return bool(await self._call("ZCARD", keys.DAMAGED))

    async def put_shadow(self, key: ModelKey, name: str, id_: str, text: str) -> bool:
        named = [keys.model(key.name), keys.log(*key), *keys.of_shadows(*key)]
        put = bool(_unless_gone(key, await self._run(_PUT_SHADOW, named, [key.incarnation, name, id_, text])))
        await self._call("ZADD", Due.SHADOWS, "LT", 0, keys.member(key))
        return put

    async def read_shadows(self, key: ModelKey) -> list[StoredShadow]:
        fields = await self._call("HGETALL", keys.shadows(*key))
        names = sorted(field for field in fields if b":" not in field)
        return [_shadow(key, name, fields) for name in names]

    async def drop_shadow(self, key: ModelKey, name: str) -> bool:
        named = [keys.model(key.name), *keys.of_shadows(*key)]
        return bool(_unless_gone(key, await self._run(_DROP_SHADOW, named, [key.incarnation, name])))

    async def load_shadow(self, key: ModelKey, shadow: StoredShadow) -> Snapshot | None:
        return await self._load(keys.shadow(*key, shadow.slot))

    async def read_comparison(self, key: ModelKey, shadow: StoredShadow) -> bytes:
        return await self._call("HGET", keys.shadow(*key, shadow.slot), "tally") or b""

    async def save_shadow(self, key: ModelKey, shadow: StoredShadow, snapshot: Snapshot) -> int | None:
        check = await asyncio.to_thread(check_of, snapshot, SNAPSHOT_VERSION)
        coming = keys.coming_snapshot(*key, f"{shadow.id}:{check}")
        parts = await self._write_parts(coming, snapshot.state)
        named = [
            *(keys.model(key.name), keys.log(*key), keys.shadows(*key)),
            *(keys.shadow(*key, shadow.slot), coming),
        ]
        args: list[Word] = [
            *(key.incarnation, shadow.name, shadow.id, SNAPSHOT_VERSION, snapshot.round_count, snapshot.change_count),
            *(snapshot.last_at or b"", parts, snapshot.statistics, snapshot.damage, check, snapshot.digest),
        ]
        stored = int(_unless_gone(key, await self._run(_SAVE_SHADOW, named, args, self._bulk)))
        return None if stored < 0 else stored

    async def hold_rounds(self, key: ModelKey, rounds: int, change_count: int) -> None:
        named = [keys.model(key.name), keys.shadows(*key)]
        _unless_gone(key, await self._run(_HOLD_ROUNDS, named, [key.incarnation, f"{rounds}-0", change_count]))

    async def restart_shadow(self, key: ModelKey, shadow: StoredShadow) -> None:
        named = [keys.model(key.name), keys.log(*key), keys.shadows(*key), keys.shadow(*key, shadow.slot)]
        since = f"{shadow.since_rounds}-{shadow.since_changes}"
        in_snapshot = "" if shadow.rounds is None else shadow.rounds
        args: list[Word] = [key.incarnation, shadow.name, shadow.id, since, in_snapshot]
        _unless_gone(key, await self._run(_RESTART_SHADOW, named, args))

    async def watch(self, due: Due, models: Sequence[ModelKey]) -> None:
        if models:
            await self._enlist(due, "NX", *(word for key in models for word in (0, keys.member(key))))

    async def unwatch(self, due: Due, key: ModelKey) -> None:
        await self._call("ZREM", due, keys.member(key))

    async def claim(self, due: Due, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        members = await self._run(_CLAIM_DUE, [due], [repr(offset), limit, repr(seconds)])
        return [keys.of_member(member) for member in members]

    async def put_off(self, due: Due, key: ModelKey, offset: float, seconds: float) -> None:
        await self._run(_PUT_OFF, [due], [keys.member(key), repr(offset), repr(seconds)])

    async def _enlist(self, due: Due, *args: Word) -> None:
        """Run ZADD on a list of due models, even beyond the store's memory limit."""
        await self._run(_ENLIST, [due], args)

    async def read_model_stats(self, name: str) -> ModelStats | None:
        return await read_model_stats(self._call, name)

    async def measure(self, name: str) -> ModelMemory | None:
        own = await self._call("HGET", keys.model(name), "incarnation")
        if own is None:
            return None
        key = ModelKey(name, own.decode(errors="replace"))
        groups = {
            "log": [keys.log(*key)],
            "state": [keys.snapshot(*key)],
            "shadows": keys.of_shadows(*key),
            "kept": [keys.kept(*key), *(keys.kept_snapshot(*key, id_) for id_ in await self._kept_ids(key))],
        }
        named = {each: group for group, members in groups.items() for each in members}
        named |= {each: "other" for each in keys.lasting(*key) if each not in named}
        sizes = await self._run(_MEASURE, list(named), [_MEASURED_SAMPLES])
        total = Counter(open=await self._open_bytes(keys.model(name)))
        for group, size in zip(named.values(), sizes, strict=True):
            total[group] += size
        return ModelMemory(*(total[field] for field in ModelMemory._fields))

    async def read_load(self) -> StoreLoad:
        load = await read_load([server.call for server in await self._connection.primaries()], self._call)
        return load._replace(disk_free=free_bytes(self._log_folder)) if self._log_folder else load

    async def copy(self, receive: Callable[[bytes], object]) -> None:
        await self._connection.copy(receive)

    async def note_backup(self, at: float) -> None:
        await self._run(_ENLIST, [keys.BACKUP], [repr(at), "all"])

    async def check(self) -> StoreReadiness:
        servers = await self._connection.primaries()
        try:
            readiness = await read_readiness(servers, self._connection.kind, self._confirmed.way)
        except exceptions.ResponseError as error:
            if isinstance(refusal := translated_error(error), StoreFullError):
                raise StoreUnavailableError(refusal.detail) from error
            raise
        return self._confirmed.promised(readiness)

    async def command(self, *words: Word) -> Any:
        """Run one command for the tables in `service.store.access_tables`."""
        return await self._call(*words)

    async def close(self) -> None:
        await self._connection.close()
        await self._bulk.close()

    async def _list_entry(self, name: str) -> ListedModel | UnreadModel | None:
        try:
            return await self.list_model(name)
        except StoreError as error:
            return UnreadModel(name, error)

    async def _list(self, key: ModelKey, policies: StoredPolicies) -> None:
        await self._call("ZADD", keys.MODELS, 0, key.name)
        if policies.bulk:
            await self._call("ZADD", keys.FLAGS, 0, key.name)

    async def _relist_flag(self, name: str) -> None:
        """Add a model to the flags, or remove it, as its hash says now."""
        if not await self._is_flag(name):
            await self._call("ZREM", keys.FLAGS, name)
        if await self._is_flag(name):  # perhaps since the first look
            await self._call("ZADD", keys.FLAGS, 0, name)

    async def _is_flag(self, name: str) -> bool:
        return await self._call("HGET", keys.model(name), "bulk") is not None

    async def _watch_policies(self, key: ModelKey, policies: StoredPolicies) -> None:
        """Make a model due now for the work of each of its policies, because a change may have shortened its window."""
        for due, wanted in ((Due.CLOSING, policies.closing), (Due.RETENTION, policies.retention)):
            if wanted:
                await self._enlist(due, "LT", 0, keys.member(key))

    async def _delete(self, key: ModelKey, own: bytes, digest: bytes) -> Any:
        """Delete the lasting keys and kept snapshots of an incarnation. Repeat this if others were kept in between."""
        reply: Any = _OTHERS_KEPT
        while reply == _OTHERS_KEPT:
            ids = await self._kept_ids(key)
            named = [*keys.lasting(*key), *(keys.kept_snapshot(*key, id_) for id_ in ids), keys.deleted(*key)]
            reply = await self._run(_DELETE_MODEL, named, [own, digest, *ids])
        return reply

    async def _kept_ids(self, key: ModelKey) -> list[str]:
        try:
            return [id_.decode(errors="replace") for id_ in await self._call("HKEYS", keys.kept(*key))]
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return []

    async def _incarnation(self, name: str) -> bytes | None:
        """Return the incarnation of the model with a name; None if its key is missing or does not contain a model."""
        try:
            found: bytes | None = await self._call("HGET", keys.model(name), "incarnation")
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return None
        return found

    async def _record(self, script: Script, key: ModelKey, args: Sequence[Word]) -> int:
        named = [keys.model(key.name), keys.snapshot(*key), keys.damage(*key)]
        reply = await self._run(script, named, [key.incarnation, *args])
        if await self._call("EXISTS", keys.damage(*key)):
            await self._run(_ENLIST, [keys.DAMAGED], [0, key.name])
        if await self._call("HGET", keys.model(key.name), "incarnation") != key.incarnation.encode():  # deleted since
            await self._call("ZREM", keys.DAMAGED, key.name)
            raise ModelNotFoundError(f"there is no model {key.name!r}", "model")
        return int(reply)

    async def _scan(self, pattern: str, cursor: str, count: int) -> tuple[list[str], str | None]:
        """Examine about `count` keys; return those that match, and the next cursor, or None after the last page.

        A cursor is the index of a server, a dot, and that server's cursor; "" for the first page.
        """
        servers = list(await self._connection.primaries())
        number, _, place = (cursor or "0.0").partition(".")
        if int(number) >= len(servers):  # the store has fewer servers than before
            return [], None
        words = "SCAN", int(place), "MATCH", pattern, "COUNT", count
        following, found = await servers[int(number)].call(*words)
        if isinstance(following, dict):  # the cluster client returns cursors by server
            (following,) = following.values()
        names = [key.decode(errors="replace") for key in found]
        if int(following):
            return names, f"{number}.{int(following)}"
        return names, f"{int(number) + 1}.0" if int(number) + 1 < len(servers) else None

    async def _get(self, key: str) -> bytes | None:
        """Return the string at a key, or None; b"", which is not a valid block, if the value has another type."""
        try:
            record: bytes | None = await self._call("GET", key)
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return b""
        return record

    async def _write_parts(self, coming: str, state: bytes | memoryview, *, beyond_limit: bool = False) -> int:
        """Write a state in parts to a temporary key; return their number. One large command would block the store."""
        starts = range(0, max(len(state), 1), _PART_BYTES)
        for number, start in enumerate(starts):
            field, part = f"{number:06d}", state[start : start + _PART_BYTES]
            if beyond_limit:
                await self._run(_WRITE_PART, [coming], [field, part, _UNFINISHED_SECONDS], self._bulk)
            else:
                await self._call("HSET", coming, field, part, connection=self._bulk)
                await self._call("EXPIRE", coming, _UNFINISHED_SECONDS, connection=self._bulk)
        return len(starts)

    async def _load(self, name: str) -> Snapshot | None:
        try:
            fields = await self._call("HGETALL", name, connection=self._bulk)
        except exceptions.ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            raise DamagedSnapshotError("its key holds another type of value") from error
        return await read_snapshot(fields) if fields else None

    async def _run(
        self,
        script: Script,
        named: Sequence[str],
        args: Sequence[Word],
        connection: Connection | Confirmed | None = None,
    ) -> Any:
        call = (connection or self._connection).call
        try:
            return await call("EVALSHA", script.sha, len(named), *named, *args)
        except exceptions.NoScriptError:
            return await call("EVAL", script.source, len(named), *named, *args)

    def _call(self, *command: Word, connection: Connection | Confirmed | None = None) -> Awaitable[Any]:
        return (connection or self._connection).call(*command)


def _source(name: bytes, value: bytes) -> ImportedSource:
    position, _, at = value.partition(b" ")
    if not position.isdigit():
        raise StoreCorruptError(f"the position of the import {name.decode(errors='replace')!r} is damaged")
    return ImportedSource(name.decode(), int(position), float(at))


def _shadow(key: ModelKey, name: bytes, fields: Mapping[bytes, bytes]) -> StoredShadow:
    """Decode a shadow from the hash of its model's shadows."""

    def number(what: str, absent: bytes | None = None) -> int:
        return count(key.name, f"shadow's {what}", fields.get(name + b":" + what.encode(), absent))

    rounds, _, changes = fields.get(name + b":since", b"").partition(b"-")
    since_rounds, since_changes = (count(key.name, "shadow's since", each) for each in (rounds, changes))
    slot, id_ = number("slot"), fields.get(name + b":id", b"")
    if not id_ or not 1 <= slot <= keys.SHADOW_SLOTS:
        raise StoreCorruptError(f"a shadow of model {key.name!r} cannot be read")
    text = fields[name].decode(errors="replace")
    folded = number("rounds") if name + b":rounds" in fields else None
    restarts = number("restarts", b"0")
    return StoredShadow(name.decode(), id_.decode(), slot, text, since_rounds, since_changes, folded, restarts)


def _unless_gone(key: ModelKey, reply: object) -> Any:
    if reply is None:
        raise ModelNotFoundError(f"there is no model {key.name!r}", "model")
    return reply


def _encoded(note: KeptNote) -> str:
    return json.dumps(note._asdict(), separators=(",", ":"))


def _decoded(key: ModelKey, id_: bytes, text: bytes) -> KeptNote:
    """Decode the note of a kept snapshot.

    Raises:
        NewerVersionError: if it has fields that this version does not support.
        StoreCorruptError: if it cannot be read.
    """
    try:
        fields = dict(json.loads(text))
        if unknown := sorted(set(fields) - set(KeptNote._fields)):
            raise NewerVersionError(
                f"a kept snapshot has the field {unknown[0]!r}, which this version does not support"
            )
        note = KeptNote(**fields)
        if (type(note.round_count), type(note.change_count)) != (int, int) or note.id.encode() != id_:
            raise ValueError(note.id)
        return note._replace(at=float(note.at))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StoreCorruptError(f"the kept snapshots of model {key.name!r} cannot be read: {error}") from error


def _model_and_log(key: ModelKey) -> list[str]:
    return [keys.model(key.name), keys.log(*key)]
