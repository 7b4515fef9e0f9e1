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
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, StoredPolicies
from service.store.values import Block, Feedback, FeedbackStatus, Head, PublishedStatistics
from tests.servers import raw
from tests.service.store.samples import FORMAT, NOW, STRICT, id_of, sample_made, sample_predictions
from tests.service.store.scenario import Scenario

LATER = 4_000_000_000
"""A moment that has not passed: in the year 2096."""


def blocks_of(*ids: str, at: int = LATER) -> list[Block]:
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
        heads = await self.store.add_predictions(self.key, blocks_of(*ids, at=at), seconds, None)
        assert isinstance(heads, list)
        return heads

    async def judge(self, *ids: str) -> list[FeedbackStatus]:
        return await Scenario(self.store, self.key).confirm(*ids)

    async def publish(self) -> None:
        await self.store.publish_statistics(self.key, PublishedStatistics(0, b"", 1, 0, 1))

    async def count(self) -> tuple[float, int]:
        stats = await Scenario(self.store, self.key).figures()
        return await self.store.sum_open_bytes([self.key.name]) / EACH, stats.predictions_refused

    def fields(self) -> dict[bytes, bytes]:
        with raw(self._url) as client:
            found: Any = client.hgetall(keys.model(self.key.name))
        return {field: value for field, value in found.items() if field.startswith(b"open")}

    def damage(self, field: str, value: str) -> None:
        with raw(self._url) as client:
            client.hset(keys.model(self.key.name), field, value)


@asynccontextmanager
async def model(url: str, name: str, most: float) -> AsyncIterator[Model]:
    made = Model(url, name, most)
    assert await made.store.create_model(made.key, "{}", NOW, "", StoredPolicies("", "", ""))
    yield made
    await made.store.close()


def refusals(heads: list[Head]) -> list[bool]:
    return [isinstance(head, OpenPredictionsFullError) for head in heads]


async def test_blocks_beyond_the_maximum_are_refused(any_store_url: str, name: str) -> None:
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
    async with model(any_store_url, name, 2) as made:
        await made.predict("a", "b")
        for _ in range(2):
            await made.judge("a")
            assert await made.count() == (1, 0)
        assert refusals(await made.predict("c", "d")) == [False, True]
        await made.judge("b", "c")
        assert await made.count() == (0, 1)


async def test_passed_moments_make_room(any_store_url: str, name: str) -> None:
    async with model(any_store_url, name, 2) as made:
        passed = int(time.time()) - 1
        await made.predict("a", "b", at=passed, seconds=0.001)
        assert await made.count() == (0, 0)  # also if nothing is asked after
        memory = await made.store.measure(name)
        assert memory is not None
        assert memory.open == 0
        assert refusals(await made.predict("c")) == [False]
        assert await made.count() == (1, 0)
        await made.predict("d", at=passed, seconds=0.001)
        assert made.fields()[b"open:%d" % passed]
        await made.publish()
        assert await made.count() == (1, 0)
        assert set(made.fields()) == {b"open_bytes", b"open:%d" % LATER}


@pytest.mark.parametrize("most", [0, 3])
@pytest.mark.parametrize("field", ["open_bytes", f"open:{LATER}", "open:noise", "open:1"])
async def test_a_damaged_counter_stops_nothing(store_url: str, name: str, field: str, most: float) -> None:
    for i, value in enumerate(["noise", "", "-7", "1e3", "nan", "1.5", "9" * 30]):
        async with model(store_url, f"{name}-{i}", most) as made:
            await made.predict("a")
            made.damage(field, value)
            assert refusals(await made.predict("b")) == [False]
            assert await made.judge("a") == [FeedbackStatus.RECORDED]
            await made.count()
            await made.publish()  # from now on, the sum is that of the readable fields
            counted = made.fields()
            bytes_by_moment = [int(counted[field]) for field in counted if field != b"open_bytes"]
            assert int(counted[b"open_bytes"]) == sum(bytes_by_moment)
            assert set(counted) <= {b"open_bytes", b"open:%d" % LATER}
            await made.predict("c")
            assert (await made.count())[0] == sum(bytes_by_moment) / EACH + 1


async def test_several_workers_never_exceed_the_maximum(any_store_url: str, name: str) -> None:
    most, turns = 5, 15
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
    async with model(any_store_url, name, 2) as made:
        await made.predict("a", "b")
        await made.store.delete_model(name)
        again = ModelKey(name, "second")
        assert await made.store.create_model(again, "{}", NOW)
        assert await made.count() == (0, 0)
