"""Publishes the statistics of a worker's replica for monitoring."""

import json
import logging
import math
from collections.abc import Callable

from service.replicas.replica import Replica
from service.replicas.statistics import SLOTS, STATISTICS_VERSION
from service.store.base import PublishedStatistics, Store

_log = logging.getLogger(__name__)

PUBLISH_EVERY = 5.0
"""Minimum seconds between two publications of a model's statistics."""


class StatisticsPublisher:
    """Publishes the statistics of one replica.

    Args:
        replica: the replica whose statistics are published.
        store: receives the statistics.
        now: returns seconds since the epoch.
    """

    def __init__(self, replica: Replica, store: Store, now: Callable[[], float]) -> None:
        self._replica = replica
        self._store = store
        self._now = now
        self._due = -math.inf  # earliest time of the next publication
        self._rounds = 0  # in the published statistics
        self._batches = 0  # prediction batches at the last publication
        self._warned = False

    async def publish_if_due(self, batches: int) -> None:
        """Publish new counts if `PUBLISH_EVERY` seconds have passed since the last publication.

        Args:
            batches: number of prediction batches this worker has made.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreError: if the store fails.
        """
        now, replica = self._now(), self._replica
        is_news = batches > self._batches or replica.round_count > self._rounds
        if not is_news or now < self._due or replica.state is None or not replica.statistics.known:
            return
        self._due, self._batches = now + PUBLISH_EVERY, batches
        rounds, counts = replica.round_count, replica.statistics.counts()
        slot = int(now // counts.slot_seconds)
        warnings = json.dumps(self._warn(replica.model.learner.warnings(replica.state)))
        published = PublishedStatistics(rounds, counts.encode(), slot, slot - SLOTS, STATISTICS_VERSION, warnings)
        self._rounds = await self._store.publish_statistics(replica.model.key, published)

    def _warn(self, warnings: list[str]) -> list[str]:
        """Log the learner's first warnings, once in this worker; return them."""
        if warnings and not self._warned:
            _log.warning("model %s: %s", self._replica.model.name, " ".join(warnings))
            self._warned = True
        return warnings
