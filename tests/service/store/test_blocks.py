"""The laws of blocks: each prediction is closed separately, and bodies are dropped when no feedback can need them."""

import pytest

from service.errors import StoreUnavailableError
from service.prediction_id import SINGLE, PredictionId, tokens_of
from service.store import keys
from service.store.records.layout import VERSION
from service.store.values import Feedback, FeedbackResult, FeedbackStatus, LogEntry
from tests.servers import raw
from tests.service.store.samples import (
    NOW,
    STRICT,
    WINDOW,
    as_bytes,
    as_round,
    id_of,
    sample_block,
    sample_ids,
    sample_predictions,
    without_bodies,
)
from tests.service.store.scenario import DUPLICATE, RECORDED, Scenario, right

N = 5
IDS = sample_ids("b", N)
ALONE = id_of("alone")
GUESSED, OTHER = (id_of("b", int(tokens_of([0, N], secret)[0]) + more) for secret, more in (("b", 1), ("other", 0)))
RECORD, RECORD_ALONE = sample_block("b", N).record, sample_predictions("alone")[0].record


async def store_blocks(scenario: Scenario) -> None:
    blocks = [sample_block("b", N), *sample_predictions("alone")]
    assert await scenario.store.add_predictions(scenario.key, blocks, WINDOW, None) == [None, None]


async def confirm(scenario: Scenario, *ids: PredictionId, now: float = NOW) -> list[FeedbackResult]:
    return await scenario.store.add_feedback(scenario.key, [Feedback(own, True, None) for own in ids], STRICT, now)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 2, 0, 3, 1)])
async def test_each_prediction_is_closed_separately(scenario: Scenario, order: tuple[int, ...]) -> None:
    await store_blocks(scenario)
    for number, i in enumerate(order, 1):
        assert await confirm(scenario, IDS[i], now=NOW + i) == [(RECORDED, (True, NOW + i, number, as_bytes(2)))]
        (entry,) = (await scenario.store.read_tail(scenario.key, number - 1, 1)).entries
        assert entry == LogEntry(number, "b", as_round(RECORD, i, (True, NOW + i, number), as_bytes(2)))
        repeated = await confirm(scenario, *(IDS[j] for j in order[:number]), now=NOW + 9)
        assert repeated == [(DUPLICATE, (True, NOW + j, n, as_bytes(2))) for n, j in enumerate(order[:number], 1)]
    assert await scenario.counters() == (N, N + 1, N)


async def test_rounds_of_one_call_and_block_are_one_entry(scenario: Scenario) -> None:
    await store_blocks(scenario)
    results = await confirm(scenario, IDS[3], ALONE, id_of("never"), IDS[1], IDS[3])
    assert [status for status, _ in results] == [RECORDED, RECORDED, FeedbackStatus.UNKNOWN, RECORDED, DUPLICATE]
    assert [each.outcome and each.outcome.round for each in results] == [1, 3, None, 2, 1]
    truth = as_bytes(2)
    rounds = as_round(RECORD, 3, (True, NOW, 1), truth) + as_round(RECORD, 1, (True, NOW, 2), truth)
    alone = LogEntry(3, "alone", as_round(RECORD_ALONE, 0, (True, NOW, 3), truth))
    assert (await scenario.store.read_tail(scenario.key, 0, 9))[:2] == (3, [LogEntry(2, "b", rounds), alone])
    assert await scenario.counters() == (3, N + 1, 3)


async def test_feedback_needs_the_predictions_exact_token(scenario: Scenario) -> None:
    await store_blocks(scenario)
    near = (-2, 0, 1, N, 65535, IDS[0].token * 10, IDS[0].token // 10, 10**15 - 1)
    wrong = [id_of("b"), *(id_of("b", token) for token in near), GUESSED, OTHER, id_of("alone", 0), id_of("never", 0)]
    assert await confirm(scenario, *wrong) == [(FeedbackStatus.UNKNOWN, None)] * len(wrong)
    assert await scenario.entries() == []


async def test_bodies_are_dropped_with_the_last_open_prediction(scenario: Scenario, any_store_url: str) -> None:
    await store_blocks(scenario)
    named = keys.block(*scenario.key, "b")
    with raw(any_store_url) as client:
        for i in range(N):
            assert client.strlen(named) == len(RECORD)
            assert WINDOW - 60 < client.pttl(named) / 1000 <= WINDOW
            await confirm(scenario, IDS[i])
        assert client.strlen(named) == len(without_bodies(RECORD))
        assert WINDOW - 60 < client.pttl(named) / 1000 <= WINDOW


@pytest.mark.parametrize(
    ("after", "limit", "expected"), [(0, 1, [3]), (1, 2, [3]), (2, 1, [3]), (3, 1, [5]), (0, 4, [3, 5])]
)
async def test_reading_returns_whole_entries(scenario: Scenario, after: int, limit: int, expected: list[int]) -> None:
    await store_blocks(scenario)
    for some in (IDS[:3], IDS[3:], [ALONE]):
        await confirm(scenario, *some)
    tail = await scenario.store.read_tail(scenario.key, after, limit)
    assert (tail.round_count, [entry.last_round for entry in tail.entries]) == (6, expected)


async def test_an_aborted_call_keeps_earlier_items(scenario: Scenario) -> None:
    """A truth of another length is refused, as it would shift the fields after it."""
    await store_blocks(scenario)
    for truth in (b"\2", bytes(5)):
        with pytest.raises(StoreUnavailableError):
            await scenario.judge(right("alone"), Feedback(IDS[4], None, truth))
        assert await scenario.counters() == (1, N + 1, 1)
    assert await confirm(scenario, IDS[4]) == [(RECORDED, (True, NOW, 2, as_bytes(2)))]


async def test_a_broken_block_fails_alone_and_is_left_as_it_is(scenario: Scenario, any_store_url: str) -> None:
    await store_blocks(scenario)
    named = keys.block(*scenario.key, "b")
    cuts = [RECORD[:size] for size in (0, 5, 45, 46, len(without_bodies(RECORD)) - 1)]
    versions = [bytes([version]) + RECORD[1:] for version in (0, VERSION + 1, 255)]
    statuses = [FeedbackStatus.BROKEN] * (len(cuts) + 1) + [FeedbackStatus.NEWER] * 2
    with raw(any_store_url) as client:
        for broken, status in zip([*cuts, *versions], statuses, strict=True):
            client.set(named, broken)
            assert await confirm(scenario, IDS[1]) == [(status, None)]
            assert client.get(named) == broken
        client.delete(named)
        client.lpush(named, b"nonsense")
    assert [status for status, _ in await confirm(scenario, IDS[1], ALONE)] == [FeedbackStatus.BROKEN, RECORDED]
    figures = await scenario.figures()
    assert (figures.round_count, figures.refused[FeedbackStatus.BROKEN]) == (1, len(cuts) + 2)


def test_tokens_encode_the_position_and_noise() -> None:
    bounds = [0, 1, 200, 700]
    tokens, others = tokens_of(bounds, "secret"), tokens_of(bounds, "Secret")
    assert tokens[0] == others[0] == SINGLE
    assert [token % 65536 for token in tokens[1:]] == [*range(199), *range(500)]
    noise = [token // 65536 for token in (*tokens[1:], *others[1:])]
    assert len(set(noise)) == len(noise)
    assert max(noise) < 2**32
    assert tokens_of(range(4), "secret") == [SINGLE] * 3
