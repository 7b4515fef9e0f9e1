"""The laws of the bytes of open predictions: no more than allowed, however they are counted, closed or lost."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service.errors import OpenPredictionsFullError
from service.prediction_id import SINGLE
from service.store import keys
from service.store.records.layout import KEY_BYTES
from service.store.records.new_predictions import released_at
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, StoredPolicies
from service.store.values import Block, Feedback, FeedbackStatus, Head, PublishedStatistics
from tests.servers import raw
from tests.service.store.samples import FORMAT, NOW, STRICT, id_of, sample_made, sample_predictions

LATER = 4_000_000_000
"""A moment that has not passed: in the year 2096."""


def blocks_of(*ids: str, at: int = LATER) -> list[Block]:
    """Return a prediction for each id, each in a separate block, released at a moment."""
    made, n = sample_made(len(ids))._replace(released_at=at), len(ids)
    return list(map(Block, ids, FORMAT.encode_blocks(made, range(n + 1), [SINGLE] * n, [bytes(16)] * n)))


EACH = len(sample_predictions("a")[0].record) + KEY_BYTES
"""Bytes of one such prediction."""


class Model:
    """A new model in a store with a maximum of open predictions.

    Args:
        url: URL of the store.
        name: name of the model.
        most: the maximum, in predictions; 0 for none.
    """

    def __init__(self, url: str, name: str, most: float) -> None:
        self.key, self._url = ModelKey(name, "first"), url
        self.store = RedisStore(url, 10.0, max_open_bytes=round(most * EACH))

    async def predict(self, *ids: str, at: int = LATER, seconds: float = 600.0) -> list[Head]:
        """Store predictions; return what became of each."""
        heads = await self.store.add_predictions(self.key, blocks_of(*ids, at=at), seconds, None)
        assert isinstance(heads, list)
        return heads

    async def judge(self, *ids: str) -> list[FeedbackStatus]:
        """Give feedback; return its statuses."""
        given = [Feedback(id_of(own), True, None) for own in ids]
        return [each.status for each in await self.store.add_feedback(self.key, given, STRICT, NOW)]

    async def publish(self) -> None:
        """Publish statistics, as workers do every few seconds."""
        await self.store.publish_statistics(self.key, PublishedStatistics(0, b"", 1, 0, 1))

    async def count(self) -> tuple[float, int]:
        """Return the counted open predictions, by their bytes, and the number of those refused."""
        stats = await self.store.read_model_stats(self.key.name)
        assert stats is not None
        return stats.open_bytes / EACH, stats.predictions_refused

    def fields(self) -> dict[bytes, bytes]:
        """Return the fields that count open bytes."""
        with raw(self._url) as client:
            found: Any = client.hgetall(keys.model(self.key.name))
        return {field: value for field, value in found.items() if field.startswith(b"open")}

    def damage(self, field: str, value: str) -> None:
        """Damage a field of the model."""
        with raw(self._url) as client:
            client.hset(keys.model(self.key.name), field, value)


@asynccontextmanager
async def model(url: str, name: str, most: float) -> AsyncIterator[Model]:
    """Create such a model."""
    made = Model(url, name, most)
    assert await made.store.create_model(made.key, "{}", NOW, "", StoredPolicies("", "", ""))
    yield made
    await made.store.close()


def refusals(heads: list[Head]) -> list[bool]:
    """Return which predictions were refused."""
    return [isinstance(head, OpenPredictionsFullError) for head in heads]


async def test_blocks_beyond_the_maximum_are_refused(any_store_url: str, name: str) -> None:
    """What fits is stored, what does not is refused and counted; a block that is already stored is returned."""
    async with model(any_store_url, name, 2.5) as made:
        assert refusals(await made.predict("a", "b", "c", "d")) == [False, False, True, True]
        assert await made.count() == (2, 2)
        assert await made.store.read_block(made.key, "c") is None
        (again, other) = await made.predict("a", "c")
        assert isinstance(again, bytes)
        assert isinstance(other, OpenPredictionsFullError)
        assert name in other.detail
        assert await made.count() == (2, 3)


async def test_closing_makes_room(any_store_url: str, name: str) -> None:
    """Feedback for the last open prediction of a block releases its bytes, once; a repetition releases nothing."""
    async with model(any_store_url, name, 2) as made:
        await made.predict("a", "b")
        for _ in range(2):
            await made.judge("a")
            assert await made.count() == (1, 0)
        assert refusals(await made.predict("c", "d")) == [False, True]
        await made.judge("b", "c")
        assert await made.count() == (0, 1)


async def test_passed_moments_make_room(any_store_url: str, name: str) -> None:
    """When a new block does not fit, what has expired is booked out; and whenever statistics are published."""
    async with model(any_store_url, name, 2) as made:
        passed = int(time.time()) - 1
        await made.predict("a", "b", at=passed, seconds=0.001)
        assert await made.count() == (2, 0)
        assert refusals(await made.predict("c")) == [False]
        assert await made.count() == (1, 0)
        await made.predict("d", at=passed, seconds=0.001)
        await made.publish()
        assert await made.count() == (1, 0)
        assert set(made.fields()) == {b"open_bytes", b"open:%d" % LATER}


@pytest.mark.parametrize("most", [0, 3])
@pytest.mark.parametrize("value", ["noise", "", "-7", "1e3", "nan", "1.5", "9" * 30])
@pytest.mark.parametrize("field", ["open_bytes", f"open:{LATER}", "open:noise", "open:1"])
async def test_a_damaged_counter_stops_nothing(store_url: str, name: str, field: str, value: str, most: float) -> None:
    """Predictions and feedback succeed; from the next publication on, the sum is that of the readable fields."""
    async with model(store_url, name, most) as made:
        await made.predict("a")
        made.damage(field, value)
        assert refusals(await made.predict("b")) == [False]
        assert await made.judge("a") == [FeedbackStatus.RECORDED]
        await made.count()
        await made.publish()
        counted = made.fields()
        bytes_by_moment = [int(counted[field]) for field in counted if field != b"open_bytes"]
        assert int(counted[b"open_bytes"]) == sum(bytes_by_moment)
        assert set(counted) <= {b"open_bytes", b"open:%d" % LATER}
        await made.predict("c")
        assert (await made.count())[0] == sum(bytes_by_moment) / EACH + 1


async def test_several_workers_never_exceed_the_maximum(any_store_url: str, name: str) -> None:
    """However many connections store predictions and close them at the same time, the sum is exact and bounded."""
    most, turns = 5, 40
    async with model(any_store_url, name, most) as made:
        others = [RedisStore(any_store_url, 10.0, max_open_bytes=most * EACH) for _ in range(4)]
        highest = 0

        async def work(number: int, store: RedisStore) -> int:
            nonlocal highest
            kept = list[str]()
            for turn in range(turns):
                ids = [f"{number}-{turn}-{i}" for i in range(3)]
                heads = await store.add_predictions(made.key, blocks_of(*ids), 600.0, None)
                assert isinstance(heads, list)
                kept += [own for own, head in zip(ids, heads, strict=True) if head is None]
                highest = max(highest, round((await made.count())[0]))
                if turn % 2 and kept:
                    await store.add_feedback(made.key, [Feedback(id_of(kept.pop()), True, None)], STRICT, NOW)
            return len(kept)

        kept = sum(await asyncio.gather(*(work(*each) for each in enumerate(others))))
        assert (await made.count())[0] == kept <= highest == most
        await asyncio.gather(*(store.close() for store in others))


async def test_nothing_remains_of_a_deleted_model(any_store_url: str, name: str) -> None:
    """A new model of the same name has no open bytes, although the predictions of the old one are still stored."""
    async with model(any_store_url, name, 2) as made:
        await made.predict("a", "b")
        await made.store.delete_model(name)
        again = ModelKey(name, "second")
        assert await made.store.create_model(again, "{}", NOW)
        assert await made.count() == (0, 0)


@pytest.mark.parametrize("keep", [0.5, 60.0, 64.0, 65.0, 7200.0, 8192.0, 690_000.0, 3e7])
def test_moments_are_few_and_never_early(keep: float) -> None:
    """A moment is not before the key has expired, and at most 1/32 of its time (and a second) later; 66 at a time."""
    nows = [NOW + keep * i / 5000 for i in range(5001)]
    moments = [released_at(now, keep) for now in nows]
    assert all(0 <= at - (now + keep) <= keep / 32 + 1 for at, now in zip(moments, nows, strict=True))
    assert len(set(moments)) <= 66
