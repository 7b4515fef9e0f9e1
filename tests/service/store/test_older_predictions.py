"""The laws of predictions that release 0.1.0 stored: they stay open and accept feedback like newer ones."""

from typing import Any

import numpy as np
import pytest

from service.prediction_id import SINGLE, PredictionId
from service.store import keys
from service.store.base import Block, Feedback, FeedbackStatus, Store
from service.store.log_entries import read_entries
from service.store.records import format_3, layout
from service.store.records.outcomes import Outcome
from service.store.stored_models import ModelKey
from tests.servers import raw
from tests.service.store.format_3 import encode_blocks_3
from tests.service.store.record_kinds import KINDS, Kind, made_of, record_of
from tests.service.store.samples import NOW, WINDOW, id_of, ids_in

RECORDED, DUPLICATE, CONFLICT = FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE, FeedbackStatus.CONFLICT
ALL_KINDS = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


async def with_blocks(store: Store, name: str, kind: Kind) -> tuple[ModelKey, list[PredictionId], list[PredictionId]]:
    """Create a model with one block of three predictions of each version; return the ids of the older and the newer."""
    key = ModelKey(name, "first")
    assert await store.create_model(key, "{}", NOW)
    (old, tokens), (new, _) = record_of(kind, False, format_3.VERSION), record_of(kind, alone=False)
    assert await store.add_predictions(key, [Block("old", old), Block("new", new)], WINDOW, None) == [None, None]
    return key, ids_in("old", tokens), ids_in("new", tokens)


@ALL_KINDS
async def test_one_call_accepts_feedback_on_both_versions(any_store: Store, name: str, kind: Kind) -> None:
    """Mixed and partly repeated feedback returns results in order and makes one round per prediction."""
    key, old, new = await with_blocks(any_store, name, kind)
    ids = [old[2], new[0], old[2], id_of("never"), new[1], old[0], old[1], new[0]]
    results = await any_store.add_feedback(key, [Feedback(own, True, None) for own in ids], kind.rules, NOW)
    recorded = [RECORDED, RECORDED, DUPLICATE, FeedbackStatus.UNKNOWN, RECORDED, RECORDED, RECORDED, DUPLICATE]
    assert [status for status, _ in results] == recorded
    assert results[0].outcome == results[2].outcome
    numbers = [outcome.round for status, outcome in results if status is RECORDED and outcome is not None]
    assert sorted(numbers) == [1, 2, 3, 4, 5]
    stretch = read_entries(kind.format, (await any_store.read_tail(key, 0, 100)).entries, 0)
    assert stretch.rows is not None
    assert stretch.rows[0]["round"].tolist() == [1, 2, 3, 4, 5]
    stats = await any_store.read_model_stats(name)
    assert stats is not None
    assert (stats.round_count, stats.correct) == (5, 5)
    assert stats.refused == {DUPLICATE: 2, FeedbackStatus.UNKNOWN: 1}


@ALL_KINDS
async def test_feedback_on_both_versions_gets_the_same_status(any_store: Store, name: str, kind: Kind) -> None:
    """The same feedback on the same predictions in blocks of either version has the same status."""
    key, old, new = await with_blocks(any_store, name, kind)
    first, second, third = kind.form.encode(made_of(kind).outputs)
    cases = [(0, None, second), (0, False, None), (0, None, third), (0, True, None), (0, True, second), (1, True, None)]
    cases += [(1, None, second), (1, None, first), (1, False, None), (2, False, None), (2, None, first)]
    outcomes: list[list[Outcome | None]] = []
    for i, correct, truth in cases:
        both = [Feedback(ids[i], correct, truth) for ids in (old, new)]
        results = [(await any_store.add_feedback(key, [one], kind.rules, NOW))[0] for one in both]
        assert results[0].status == results[1].status
        outcomes.append([each.outcome and each.outcome._replace(round=0) for each in results])
    assert all(old_outcome == new_outcome for old_outcome, new_outcome in outcomes)


@ALL_KINDS
async def test_an_old_prediction_takes_no_reward_between_0_and_1(any_store: Store, name: str, kind: Kind) -> None:
    """Its record has no place for one; rewards of 0 and 1 are bits, and it needs no activation."""
    key, old, new = await with_blocks(any_store, name, kind)
    rewards = [(old[0], 0.5), (new[0], 0.5), (old[1], 1.0), (old[0], 0.25), (old[2], 0.0)]
    given = [Feedback(own, None, None, reward) for own, reward in rewards]
    statuses = [
        status for status, _ in await any_store.add_feedback(key, given, kind.rules._replace(label_needed=False), NOW)
    ]
    too_old = FeedbackStatus.TOO_OLD
    assert statuses == [too_old, RECORDED, RECORDED, too_old, RECORDED]
    assert await any_store.activate(old[0]._replace(model=name), key.incarnation, NOW) is DUPLICATE
    assert await any_store.add_feedback(key, [Feedback(old[0], True, None)], kind.rules, NOW) != [(too_old, None)]


@ALL_KINDS
async def test_an_old_predictions_id_is_in_use(any_store: Store, name: str, kind: Kind) -> None:
    """Reuse of an old prediction's id returns the stored answer, before and after its feedback."""
    key = ModelKey(name, "first")
    assert await any_store.create_model(key, "{}", NOW)
    made, fingerprint = made_of(kind), b"0123456789abcdef"
    tokens, bounds, prints = np.full(3, SINGLE), range(4), [fingerprint] * 3
    old = encode_blocks_3(kind.form, kind.codec, made, bounds, tokens, prints)[0]
    new = kind.format.encode_blocks(made, bounds, tokens, prints)[0]
    assert await any_store.add_predictions(key, [Block("a", old)], WINDOW, None) == [None]
    expected = kind.format.decode_stored(new)
    assert expected is not None
    for _ in range(2):
        heads = await any_store.add_predictions(key, [Block("a", new)], WINDOW, None)
        assert isinstance(heads, list)
        assert heads[0] is not None
        found = kind.format.decode_stored(heads[0])
        assert found is not None
        assert found[:3] == expected[:3]
        assert [part.tobytes() for part in found[3:]] == [part.tobytes() for part in expected[3:]]
        await any_store.add_feedback(key, [Feedback(id_of("a"), True, None)], kind.rules, NOW)


async def test_entries_have_their_blocks_version(any_store: Store, any_store_url: str, name: str) -> None:
    """An entry of an older block is as release 0.1.0 wrote it; a newer one has type and version."""
    kind = KINDS["dense"]
    key, old, new = await with_blocks(any_store, name, kind)
    for ids in (old, new, old):
        await any_store.add_feedback(key, [Feedback(ids.pop(), True, None)], kind.rules, NOW)
    entries = (await any_store.read_tail(key, 0, 100)).entries
    assert [entry.version for entry in entries] == [format_3.VERSION, layout.VERSION, format_3.VERSION]
    with raw(any_store_url) as client:
        stream: Any = client.xrange(keys.log(*key))
    assert [(id_, list(fields)) for id_, fields in stream] == [
        (b"1-0", [b"p", b"r"]),
        (b"2-0", [b"t", b"v", b"p", b"d"]),
        (b"3-0", [b"p", b"r"]),
    ]
    assert [stream[1][1][field] for field in (b"t", b"v", b"p")] == [b"r", b"5", b"new"]
