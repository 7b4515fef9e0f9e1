"""The laws of model statistics: what every store reports, and that it keeps no more than it needs."""

import asyncio

import pytest

from service.errors import ModelNotFoundError
from service.store.capabilities import Store
from service.store.stored_models import ModelKey
from service.store.values import Feedback, FeedbackStatus, PublishedStatistics, Snapshot
from tests.servers import keys_like, raw
from tests.service.store.samples import NOW, STRICT, WINDOW, id_of, sample_predictions


@pytest.fixture
def key(any_store: Store, name: str, runner: asyncio.Runner) -> ModelKey:
    """Create a model."""
    key = ModelKey(name, "first")
    assert runner.run(any_store.create_model(key, "{}", NOW))
    return key


async def test_every_feedback_status_is_counted(any_store: Store, key: ModelKey) -> None:
    """Each refused feedback counts once under its status."""
    await any_store.add_predictions(key, sample_predictions("a", "b"), WINDOW, None)
    given = [
        Feedback(id_of("a"), True, None),
        Feedback(id_of("a"), True, None),
        Feedback(id_of("a"), False, None),
        Feedback(id_of("x"), True, None),
    ]
    await any_store.add_feedback(key, given, STRICT, NOW)
    await any_store.add_feedback(key, given[1:], STRICT, NOW)
    figures = await any_store.read_model_stats(key.name)
    assert figures is not None
    assert (figures.round_count, figures.predictions, figures.correct) == (1, 2, 1)
    counts = {FeedbackStatus.DUPLICATE: 2, FeedbackStatus.CONFLICT: 2, FeedbackStatus.UNKNOWN: 2}
    assert figures.refused == counts


async def test_the_statistics_with_most_rounds_are_kept(any_store: Store, key: ModelKey) -> None:
    """A publication that counts fewer rounds changes nothing."""
    for rounds, statistics, kept in ((5, b"five", 5), (3, b"three", 5), (5, b"again", 5), (8, b"eight", 8)):
        assert await any_store.publish_statistics(key, PublishedStatistics(rounds, statistics, 1, 0, 2)) == kept
    figures = await any_store.read_model_stats(key.name)
    assert figures is not None
    assert (figures.statistics_rounds, figures.statistics) == (8, b"eight")


async def test_only_needed_slots_are_kept(any_store: Store, key: ModelKey) -> None:
    """The store keeps the slots of the window, and the newest older slot as their baseline."""
    for slot in range(100, 150):
        await any_store.add_predictions(key, sample_predictions(f"p{slot}"), WINDOW, None)
        for _ in range(2):
            await any_store.publish_statistics(key, PublishedStatistics(0, b"", slot, slot - 4, 2))
    figures = await any_store.read_model_stats(key.name)
    assert figures is not None
    assert figures.predictions_by == {slot: slot - 99 for slot in range(144, 150)}


async def test_snapshots_have_a_time(any_store: Store, key: ModelKey) -> None:
    """The time is the store's clock; a model without a snapshot has none."""
    figures = await any_store.read_model_stats(key.name)
    assert figures is not None
    assert (figures.snapshot_rounds, figures.snapshot_at) == (0, None)
    await any_store.save_snapshot(key, Snapshot(4, b"state", statistics=b"tally"), 10)
    figures = await any_store.read_model_stats(key.name)
    assert figures is not None
    assert figures.snapshot_rounds == 4
    assert figures.snapshot_at is not None
    assert figures.snapshot_at > 1.7e9
    assert await any_store.load_snapshot(key) == Snapshot(4, b"state", statistics=b"tally")


async def test_a_deleted_model_has_no_statistics(any_store: Store, any_store_url: str, key: ModelKey) -> None:
    """Deletion removes the statistics, and later publications are refused."""
    await any_store.publish_statistics(key, PublishedStatistics(1, b"tally", 1, 0, 2))
    await any_store.delete_model(key.name)
    assert keys_like(any_store_url, key.name) == []
    assert await any_store.read_model_stats(key.name) is None
    with pytest.raises(ModelNotFoundError):
        await any_store.publish_statistics(key, PublishedStatistics(2, b"tally", 1, 0, 2))
    assert keys_like(any_store_url, key.name) == []


async def test_the_load_has_memory_and_model_count(any_store: Store, any_store_url: str, key: ModelKey) -> None:
    """The memory limit is the store's, or else the machine's."""
    load = await any_store.read_load()
    assert 0 < load.memory < load.memory_limit
    assert key.name in await any_store.list_names(10_000)
    assert load.models == len(await any_store.list_names(10_000))
    assert len(await any_store.list_names(1)) == 1
    with raw(any_store_url) as client:
        client.config_set("maxmemory", "1gb")
        try:
            assert (await any_store.read_load()).memory_limit == 2**30
        finally:
            client.config_set("maxmemory", "0")
