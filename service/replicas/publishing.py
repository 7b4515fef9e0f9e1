"""Publishing the statistics of a worker's copy of a model, for those who watch."""

import math
from collections.abc import Callable

from service.replicas.replica import Replica
from service.replicas.statistics import SLOTS, STATISTICS_VERSION
from service.store.base import PublishedStatistics, Store

PUBLISH_EVERY = 5.0
"""Seconds from one published statistics of a model to the next."""


class StatisticsPublisher:
    """Publishes the statistics of one replica.

    Args:
        replica: whose rounds are counted.
        store: where they are published.
        now: seconds since the epoch.
    """

    def __init__(self, replica: Replica, store: Store, now: Callable[[], float]) -> None:
        self._replica = replica
        self._store = store
        self._now = now
        self._due = -math.inf  # the time
        self._rounds = 0  # in the published statistics
        self._batches = 0  # of predictions, by then

    async def publish_where_due(self, batches: int) -> None:
        """Publish, if something has happened since, and `PUBLISH_EVERY` seconds have passed.

        Args:
            batches: how many batches of predictions this worker has made.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreError: if the store does not do its part.
        """
        now, replica = self._now(), self._replica
        is_news = batches > self._batches or replica.round_count > self._rounds
        if not is_news or now < self._due or replica.state is None or not replica.statistics.known:
            return
        self._due, self._batches = now + PUBLISH_EVERY, batches
        rounds, counts = replica.round_count, replica.statistics.counts()
        slot = int(now // counts.slot_seconds)
        published = PublishedStatistics(rounds, counts.encode(), slot, slot - SLOTS, STATISTICS_VERSION)
        self._rounds = await self._store.publish_statistics(replica.model.key, published)
