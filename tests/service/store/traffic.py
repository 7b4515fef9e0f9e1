"""Concurrent rounds against a store, to run while something happens to it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from service.errors import StoreError
from service.store.capabilities import Store
from service.store.stored_models import ModelKey
from service.store.values import Feedback, FeedbackStatus
from tests.service.store.samples import NOW, STRICT, WINDOW, id_of, sample_predictions

KEY = ModelKey("forest", "first")
PLAYERS = 6

_T = TypeVar("_T")


class Traffic:
    """The players' rounds, errors and acknowledgments."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.acknowledged: set[str] = set()
        self.errors: Counter[str] = Counter()
        self.over = False

    async def play(self, player: int) -> None:
        """Play rounds until the end; repeat each request until it is answered."""
        number = 0
        while not self.over:
            number += 1
            own = f"{player}-{number}"
            given = Feedback(id_of(own), True, None)
            await self._insist(lambda own=own: self._predict(own))  # type: ignore[misc]
            status = await self._insist(lambda given=given: self._judge(given))  # type: ignore[misc]
            if status in {FeedbackStatus.RECORDED, FeedbackStatus.DUPLICATE}:
                self.acknowledged.add(own)
            await asyncio.sleep(0.002)

    async def has_grown(self, by: int = 50) -> None:
        """Wait for `by` more acknowledgments."""
        enough = len(self.acknowledged) + by
        async with asyncio.timeout(60.0):
            while len(self.acknowledged) < enough:  # noqa: ASYNC110  six players would each need to set an event
                await asyncio.sleep(0.01)

    async def logged(self) -> list[str]:
        """Return the prediction ids of the logged rounds; check that these are numbered without a gap."""
        tail = await self._insist(lambda: self.store.read_tail(KEY, 0, 1_000_000))
        assert [entry.last_round for entry in tail.entries] == list(range(1, tail.round_count + 1))
        return [entry.block for entry in tail.entries]

    async def _predict(self, own: str) -> object:
        return await self.store.add_predictions(KEY, sample_predictions(own), WINDOW, None)

    async def _judge(self, given: Feedback) -> FeedbackStatus:
        (result,) = await self.store.add_feedback(KEY, [given], STRICT, NOW)
        return result.status

    async def _insist(self, request: Callable[[], Awaitable[_T]]) -> _T:
        async with asyncio.timeout(60.0):
            while True:
                try:
                    return await request()
                except StoreError as error:
                    self.errors[str(error)] += 1
                    await asyncio.sleep(0.01)


@asynccontextmanager
async def traffic(store: Store) -> AsyncIterator[Traffic]:
    """Run traffic on a new model until the end of the context."""
    await store.create_model(KEY, "{}", NOW)
    made = Traffic(store)
    async with asyncio.TaskGroup() as players:
        for player in range(PLAYERS):
            players.create_task(made.play(player))
        try:
            await made.has_grown()
            yield made
            await made.has_grown()
        finally:
            made.over = True
