"""The laws of blocks that a later version wrote: intact but unknown content is refused as newer and left alone."""

import struct
from typing import Any

import pytest

from service.errors import NewerVersionError
from service.store import keys
from service.store.records.layout import CHECK, HEAD, OUTCOME, PREDICTION
from service.store.redis.redis_store import RedisStore
from service.store.values import Block, Feedback, FeedbackStatus
from tests.service.store.record_kinds import KINDS, Kind, new_model, record_of
from tests.service.store.samples import NOW, WINDOW, block_offsets, check_bytes, ids_in

NEWER, RECORDED, DUPLICATE = FeedbackStatus.NEWER, FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE
ALL_KINDS = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def with_flags(record: bytes, flags: int) -> bytes:
    """Return a block with these flags and a matching checksum."""
    at, offsets = HEAD.place("flags"), block_offsets(record)
    checked = record[:at] + bytes([flags]) + record[at + 1 : offsets.check]
    return checked + check_bytes(checked) + record[offsets.open :]


@ALL_KINDS
@pytest.mark.parametrize("flags", [1, 0x80])
async def test_a_block_with_unknown_flags_is_newer(store: RedisStore, name: str, kind: Kind, flags: int) -> None:
    """A block with unknown flags accepts no feedback, returns no answer, and stays unchanged."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=True)
    flagged = with_flags(record, flags)
    await store.command("SET", keys.block(*key, "b"), flagged)
    (result,) = await store.add_feedback(key, [Feedback(ids_in("b", tokens)[0], True, None)], kind.rules, NOW)
    assert result == (NEWER, None)
    heads = await store.add_predictions(key, [Block("b", record)], WINDOW, None)
    assert isinstance(heads, list)
    assert isinstance(heads[0], bytes)
    for refuse in (kind.format.decode_stored, kind.format.waiting):
        with pytest.raises(NewerVersionError):
            refuse(heads[0])
    assert await store.command("GET", keys.block(*key, "b")) == flagged
    kind.format.waiting(with_flags(flagged, 0))


@ALL_KINDS
@pytest.mark.parametrize("change", [{"kind": 9}, {"reward": 1.5}, {"reward": -1.0}])
async def test_an_outcome_of_a_newer_version_is_not_answered(
    store: RedisStore, name: str, kind: Kind, change: dict[str, Any]
) -> None:
    """An intact outcome of another kind or reward is newer; the block's other outcomes are duplicates."""
    key, (record, tokens) = await new_model(store, name), record_of(kind, alone=False)
    named, feedback = keys.block(*key, "b"), [Feedback(own, True, None) for own in ids_in("b", tokens)]
    await store.command("SET", named, record)
    results = await store.add_feedback(key, feedback, kind.rules, NOW)
    assert {status for status, _ in results} == {RECORDED}
    closed, offsets = await store.command("GET", named), block_offsets(record)
    begin, end = offsets.outcome(1), offsets.outcome(2)
    ((field, value),) = change.items()
    at = begin + OUTCOME.place(field)
    new = struct.pack("<d", value) if field == "reward" else bytes([value])
    changed = closed[:at] + new + closed[at + len(new) :]
    head = offsets.prediction(1) + PREDICTION.place("token")
    check = check_bytes(changed[begin + CHECK.size : end] + changed[head : head + 8 + CHECK.size])
    await store.command("SET", named, changed[:begin] + check + changed[begin + CHECK.size :])
    again = await store.add_feedback(key, feedback, kind.rules, NOW)
    assert [status for status, _ in again] == [DUPLICATE, NEWER, DUPLICATE]
