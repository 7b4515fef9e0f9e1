"""The laws of blocks: each prediction is closed separately, and bodies are dropped when no feedback can need them."""

import asyncio
import itertools

import numpy as np
import pytest

from service.errors import StoreUnavailableError
from service.prediction_id import SINGLE, PredictionId, tokens_of
from service.store import keys
from service.store.capabilities import Store
from service.store.records.layout import VERSION
from service.store.stored_models import ModelKey
from service.store.values import Feedback, FeedbackResult, FeedbackStatus, LogEntry
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
    """Create a model with a block of N predictions and a block of one."""
    key = ModelKey(name, "first")
    assert runner.run(any_store.create_model(key, "{}", NOW))
    blocks = [sample_block("b", N), *sample_predictions("alone")]
    assert runner.run(any_store.add_predictions(key, blocks, WINDOW, None)) == [None, None]
    return key


async def confirm(store: Store, key: ModelKey, *ids: PredictionId, now: float = NOW) -> list[FeedbackResult]:
    """Report that all of them were right."""
    return await store.add_feedback(key, [Feedback(own, True, None) for own in ids], STRICT, now)


async def test_each_prediction_of_a_block_is_counted(any_store: Store, key: ModelKey) -> None:
    """Every prediction of a block counts; reusing its id returns the block without bodies and counts nothing."""
    record = sample_block("b", N).record
    assert await any_store.add_predictions(key, [sample_block("b", 2)], WINDOW, None) == [without_bodies(record)]
    model = await any_store.get_model(key.name)
    assert model is not None
    assert model.predictions == N + 1


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
async def test_each_prediction_is_closed_separately(any_store: Store, key: ModelKey, order: tuple[int, ...]) -> None:
    """In any order, call by call: the round has its body, the others stay open, and outcomes are kept."""
    record = sample_block("b", N).record
    for number, i in enumerate(order, 1):
        assert await confirm(any_store, key, IDS[i], now=NOW + i) == [(RECORDED, (True, NOW + i, number, as_bytes(2)))]
        (entry,) = (await any_store.read_tail(key, number - 1, 1)).entries
        assert entry == LogEntry(number, "b", as_round(record, i, (True, NOW + i, number), as_bytes(2)))
        repeated = await confirm(any_store, key, *(IDS[j] for j in order[:number]), now=NOW + 9)
        assert repeated == [(DUPLICATE, (True, NOW + j, n, as_bytes(2))) for n, j in enumerate(order[:number], 1)]


async def test_rounds_of_one_call_and_block_are_one_entry(any_store: Store, key: ModelKey) -> None:
    """Results come in the order of the call, and each block's rounds form one entry, even if interleaved."""
    record, alone = sample_block("b", N).record, sample_predictions("alone")[0].record
    results = await confirm(any_store, key, IDS[3], ALONE, id_of("never"), IDS[1], IDS[3])
    assert [status for status, _ in results] == [RECORDED, RECORDED, FeedbackStatus.UNKNOWN, RECORDED, DUPLICATE]
    assert [each.outcome and each.outcome.round for each in results] == [1, 3, None, 2, 1]
    outcome, truth = (True, NOW), as_bytes(2)
    rounds = as_round(record, 3, (*outcome, 1), truth) + as_round(record, 1, (*outcome, 2), truth)
    tail = await any_store.read_tail(key, 0, 9)
    assert tail[:2] == (3, [LogEntry(2, "b", rounds), LogEntry(3, "alone", as_round(alone, 0, (*outcome, 3), truth))])
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
async def test_feedback_needs_the_predictions_exact_token(any_store: Store, key: ModelKey, own: PredictionId) -> None:
    """A block name alone, or a position with missing or wrong noise, is an unknown prediction."""
    assert await confirm(any_store, key, own) == [(FeedbackStatus.UNKNOWN, None)]
    assert (await any_store.read_tail(key, 0, 9)).round_count == 0


async def test_bodies_are_dropped_with_the_last_open_prediction(
    any_store: Store, any_store_url: str, key: ModelKey
) -> None:
    """A block keeps its bodies until all of its predictions are closed, and keeps its expiry."""
    record, named = sample_block("b", N).record, keys.block(*key, "b")
    with raw(any_store_url) as client:
        for i in range(N):
            assert client.strlen(named) == len(record)
            await confirm(any_store, key, IDS[i])
            assert WINDOW - 60 < client.pttl(named) / 1000 <= WINDOW
        assert client.strlen(named) == len(without_bodies(record))


async def test_racing_feedback_on_a_block_makes_one_round_each(any_store: Store, key: ModelKey) -> None:
    """Concurrent, contradicting feedback makes one round per prediction, numbered without a gap."""
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
async def test_reading_returns_whole_entries(
    any_store: Store, key: ModelKey, after: int, limit: int, expected: list[int]
) -> None:
    """The result holds every entry with a requested round, including rounds outside the range."""
    await confirm(any_store, key, *IDS[:3])
    await confirm(any_store, key, *IDS[3:])
    await confirm(any_store, key, ALONE)
    tail = await any_store.read_tail(key, after, limit)
    assert (tail.round_count, [entry.last_round for entry in tail.entries]) == (6, expected)


async def test_a_truth_of_another_length_is_refused(any_store: Store, key: ModelKey) -> None:
    """A truth of another length is refused, as it would shift the fields after it."""
    for truth in (b"\2", bytes(5)):
        with pytest.raises(StoreUnavailableError):
            await any_store.add_feedback(key, [Feedback(IDS[1], None, truth)], STRICT, NOW)
    assert await confirm(any_store, key, IDS[1]) == [(RECORDED, (True, NOW, 1, as_bytes(2)))]


async def test_a_broken_block_is_left_alone(any_store: Store, any_store_url: str, key: ModelKey) -> None:
    """A truncated record, or one of another format, is refused and stays unchanged."""
    record, named = sample_block("b", N).record, keys.block(*key, "b")
    cuts = [record[:size] for size in (0, 5, 45, 46, len(without_bodies(record)) - 1)]
    versions = [bytes([version]) + record[1:] for version in (0, VERSION + 1, 255)]
    statuses = [FeedbackStatus.BROKEN] * (len(cuts) + 1) + [FeedbackStatus.NEWER] * 2
    with raw(any_store_url) as client:
        for broken, status in zip([*cuts, *versions], statuses, strict=True):
            client.set(named, broken)
            assert await confirm(any_store, key, IDS[1]) == [(status, None)]
            assert client.get(named) == broken
    assert (await any_store.read_tail(key, 0, 9)).round_count == 0


def test_sample_blocks_agree_with_single_samples() -> None:
    """A sample block has the bodies of as many single samples, so the laws above compare with the truth."""
    together, alone = sample_block("b", N).record, sample_predictions(*"abcde")
    bodies = b"".join(block.record[len(without_bodies(block.record)) :] for block in alone)
    assert together[len(without_bodies(together)) :] == bodies
    assert len(np.unique([block.record for block in alone])) == N


def test_tokens_encode_the_position_and_noise() -> None:
    """Positions are unique in a block, noise differs by prediction and secret, and single predictions have none."""
    bounds = [0, 1, 200, 700]
    tokens, others = tokens_of(bounds, "secret"), tokens_of(bounds, "Secret")
    assert tokens[0] == others[0] == SINGLE
    assert [token % 65536 for token in tokens[1:]] == [*range(199), *range(500)]
    noise = [token // 65536 for token in (*tokens[1:], *others[1:])]
    assert len(set(noise)) == len(noise)
    assert max(noise) < 2**32
    assert tokens_of(range(4), "secret") == [SINGLE] * 3
