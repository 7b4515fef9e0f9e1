"""The laws of predictions that are kept together: each is closed by itself, and what nobody needs any more goes."""

import asyncio
import itertools

import numpy as np
import pytest

from service.errors import StoreUnavailableError
from service.prediction_id import SINGLE, PredictionId, tokens_of
from service.store import keys
from service.store.base import Feedback, FeedbackResult, FeedbackStatus, LogEntry, Store
from service.store.stored_models import ModelKey
from tests.servers import raw
from tests.service.store.samples import (
    FORMAT,
    NOW,
    STRICT,
    WINDOW,
    as_bytes,
    as_round,
    feedback_for,
    id_of,
    sample_block,
    sample_ids,
    sample_predictions,
    without_bodies,
)

N = 5
IDS = sample_ids("b", N)
ALONE = id_of("alone")
GUESSED, OTHER = (id_of("b", int(tokens_of([0, N], secret)[0]) + more) for secret, more in (("b", 1), ("other", 0)))
RECORDED, DUPLICATE = FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE


@pytest.fixture
def key(any_store: Store, name: str, runner: asyncio.Runner) -> ModelKey:
    """A new model with a block of N predictions, and one beside it that has a block to itself."""
    key = ModelKey(name, "first")
    assert runner.run(any_store.create_model(key, "{}", NOW))
    blocks = [sample_block("b", N), *sample_predictions("alone")]
    assert runner.run(any_store.add_predictions(key, blocks, WINDOW, None)) == [None, None]
    return key


async def give(store: Store, key: ModelKey, *ids: PredictionId, now: float = NOW) -> list[FeedbackResult]:
    """All of them were right."""
    return await store.add_feedback(key, [Feedback(own, True, None) for own in ids], STRICT, now)


async def test_each_prediction_of_a_block_is_counted(any_store: Store, key: ModelKey) -> None:
    """However many a block has; whoever uses its id again is told all of it but the bodies, and counts nothing."""
    record = sample_block("b", N).record
    assert await any_store.add_predictions(key, [sample_block("b", 2)], WINDOW, None) == [without_bodies(record)]
    model = await any_store.get_model(key.name)
    assert model is not None
    assert model.predictions == N + 1


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
async def test_each_prediction_is_closed_by_itself(any_store: Store, key: ModelKey, order: tuple[int, ...]) -> None:
    """Call by call, in any order: the round has its body, the others stay open, all are remembered."""
    record = sample_block("b", N).record
    for number, i in enumerate(order, 1):
        assert await give(any_store, key, IDS[i], now=NOW + i) == [(RECORDED, (True, NOW + i, number, as_bytes(2)))]
        (entry,) = (await any_store.read_tail(key, number - 1, 1)).entries
        assert entry == LogEntry(number, "b", as_round(record, i, (True, NOW + i, number), as_bytes(2)))
        told = await give(any_store, key, *(IDS[j] for j in order[:number]), now=NOW + 9)
        assert told == [(DUPLICATE, (True, NOW + j, n, as_bytes(2))) for n, j in enumerate(order[:number], 1)]


async def test_rounds_of_one_call_and_block_are_one_entry(any_store: Store, key: ModelKey) -> None:
    """Whatever stands between them in the call, results come in its order, and each block has its own entry."""
    record, alone = sample_block("b", N).record, sample_predictions("alone")[0].record
    results = await give(any_store, key, IDS[3], ALONE, id_of("never"), IDS[1], IDS[3])
    assert [status for status, _ in results] == [RECORDED, RECORDED, FeedbackStatus.UNKNOWN, RECORDED, DUPLICATE]
    assert [outcome and outcome.round for _, outcome in results] == [1, 3, None, 2, 1]
    told, truth = (True, NOW), as_bytes(2)
    rounds = as_round(record, 3, (*told, 1), truth) + as_round(record, 1, (*told, 2), truth)
    tail = await any_store.read_tail(key, 0, 9)
    assert tail[:2] == (3, [LogEntry(2, "b", rounds), LogEntry(3, "alone", as_round(alone, 0, (*told, 3), truth))])
    model = await any_store.get_model(key.name)
    assert model is not None
    assert (model.round_count, model.correct) == (3, 3)


@pytest.mark.parametrize(
    "own",
    [
        id_of("b"),
        *(id_of("b", token) for token in (-2, 0, 1, N, 65535, IDS[0].token * 10, IDS[0].token // 10, 10**15 - 1)),
        GUESSED,
        OTHER,
        id_of("alone", 0),
        id_of("never", 0),
    ],
    ids=str,
)
async def test_only_who_was_told_the_token_is_heard(any_store: Store, key: ModelKey, own: PredictionId) -> None:
    """A block is no prediction, and a place in it is none without its noise, or with another's."""
    assert await give(any_store, key, own) == [(FeedbackStatus.UNKNOWN, None)]
    assert (await any_store.read_tail(key, 0, 9)).round_count == 0


async def test_the_bodies_go_with_the_last_open_prediction(any_store: Store, any_store_url: str, key: ModelKey) -> None:
    """A block is as long as it was until all of its predictions are closed, and is forgotten when it was to be."""
    record, named = sample_block("b", N).record, keys.block(*key, "b")
    with raw(any_store_url) as client:
        for i in range(N):
            assert client.strlen(named) == len(record)
            await give(any_store, key, IDS[i])
            assert WINDOW - 60 < client.pttl(named) / 1000 <= WINDOW
        assert client.strlen(named) == len(without_bodies(record))


async def test_racing_feedback_on_a_block_makes_one_round_each(any_store: Store, key: ModelKey) -> None:
    """Many calls at once for the same predictions, contradicting: one round for each, numbers without a gap."""
    await any_store.add_predictions(key, [sample_block("large", 60)], WINDOW, None)
    ids = sample_ids("large", 60)
    calls = [any_store.add_feedback(key, feedback_for(ids, seed)[:20], STRICT, NOW) for seed in range(12)]
    results = list(itertools.chain(*await asyncio.gather(*calls)))
    table = FORMAT.table([entry.payload for entry in (await any_store.read_tail(key, 0, 100)).entries])
    assert table["round"].tolist() == list(range(1, len(table) + 1))
    assert len(set(table["token"].tolist())) == len(table) == sum(status is RECORDED for status, _ in results)


@pytest.mark.parametrize(
    ("after", "limit", "expected"), [(0, 1, [3]), (1, 2, [3]), (2, 1, [3]), (3, 1, [5]), (0, 4, [3, 5])]
)
async def test_reading_gives_whole_entries(
    any_store: Store, key: ModelKey, after: int, limit: int, expected: list[int]
) -> None:
    """Those that hold the rounds asked for, though the first begins before them and the last ends behind."""
    await give(any_store, key, *IDS[:3])
    await give(any_store, key, *IDS[3:])
    await give(any_store, key, ALONE)
    tail = await any_store.read_tail(key, after, limit)
    assert (tail.round_count, [entry.last_round for entry in tail.entries]) == (6, expected)


async def test_a_truth_of_another_length_is_refused(any_store: Store, key: ModelKey) -> None:
    """It would move all that stands behind it."""
    for truth in (b"\2", bytes(5)):
        with pytest.raises(StoreUnavailableError):
            await any_store.add_feedback(key, [Feedback(IDS[1], None, truth)], STRICT, NOW)
    assert await give(any_store, key, IDS[1]) == [(RECORDED, (True, NOW, 1, as_bytes(2)))]


async def test_a_broken_block_is_left_alone(any_store: Store, any_store_url: str, key: ModelKey) -> None:
    """A record that is cut anywhere, or of another format, is refused, and nothing of it is recorded."""
    record, named = sample_block("b", N).record, keys.block(*key, "b")
    cuts = [record[:size] for size in (0, 5, 45, 46, len(without_bodies(record)) - 1)]
    versions = [b"\2" + record[1:], b"\3" + record[1:], b"\5" + record[1:]]
    # Taken for version 3, whose numbers begin the same, it has no such token.
    statuses = [FeedbackStatus.BROKEN] * (len(cuts) + 1) + [FeedbackStatus.UNKNOWN, FeedbackStatus.NEWER]
    with raw(any_store_url) as client:
        for broken, status in zip([*cuts, *versions], statuses, strict=True):
            client.set(named, broken)
            assert await give(any_store, key, IDS[1]) == [(status, None)]
            assert client.get(named) == broken
    assert (await any_store.read_tail(key, 0, 9)).round_count == 0


def test_samples_are_as_they_are_said_to_be() -> None:
    """A block of some has the bodies of as many alone, so that the laws above compare with the truth."""
    apply_to_valid, alone = sample_block("b", N).record, sample_predictions(*"abcde")
    bodies = b"".join(block.record[len(without_bodies(block.record)) :] for block in alone)
    assert apply_to_valid[len(without_bodies(apply_to_valid)) :] == bodies
    assert len(np.unique([block.record for block in alone])) == N


def test_tokens_tell_the_place_and_are_noise_besides() -> None:
    """Each place of a block once, another noise for each prediction and each secret, and none for one that is alone."""
    bounds = [0, 1, 200, 700]
    tokens, others = tokens_of(bounds, "secret"), tokens_of(bounds, "Secret")
    assert tokens[0] == others[0] == SINGLE
    assert (tokens[1:] % 65536).tolist() == [*range(199), *range(500)]
    noise = [*(tokens[1:] // 65536).tolist(), *(others[1:] // 65536).tolist()]
    assert len(set(noise)) == len(noise)
    assert max(noise) < 2**32
    assert tokens_of(range(4), "secret").tolist() == [SINGLE] * 3
