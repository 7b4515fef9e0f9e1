"""The upkeep of a worker's copy of a model: it folds what this worker has recorded, and writes snapshots."""

import asyncio
import logging
from collections.abc import Callable

from service.errors import WagerError
from service.replicas.publishing import StatisticsPublisher
from service.replicas.replica import Replica
from service.replicas.snapshot_policy import SnapshotPolicy
from service.store.base import Store

_log = logging.getLogger(__name__)

FOLD_EVERY = 64
"""Recorded rounds that a worker lets wait before it folds them, asked for or not. Few, for every other request waits
while the store reads them and the worker folds them; those of a batch come together and are folded together."""


class Upkeep:
    """The upkeep of one replica, in the background where much is waiting for it.

    Args:
        replica: is kept up.
        store: where statistics are published.
        now: seconds since the epoch.
    """

    def __init__(self, replica: Replica, store: Store, now: Callable[[], float]) -> None:
        self._replica = replica
        self._snapshots = SnapshotPolicy(replica, now)
        self._statistics = StatisticsPublisher(replica, store, now)
        self._newest_round = 0  # that this worker has heard of
        self._batches = 0  # of predictions that this worker has made
        self._task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is under way in the background."""
        return self._task is None or self._task.done()

    def note_predictions(self) -> None:
        """Note that a batch of predictions was made."""
        self._batches += 1
        self._start_where_due()

    def note_rounds(self, newest: int) -> None:
        """Note the number of the newest round that was recorded; 0 where none was."""
        self._newest_round = max(self._newest_round, newest)
        self._start_where_due()

    async def run(self) -> None:
        """Fold what this worker has recorded, write a snapshot and publish statistics where these are due.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreError: if the store does not do its part.
        """
        if self._newest_round > self._replica.round_count:
            await self._replica.catch_up()
        if self._snapshots.is_due:
            self._snapshots.begin()
            await self._replica.snapshot()
        await self._statistics.publish_where_due(self._batches)

    def _start_where_due(self) -> None:
        waiting = self._newest_round - self._replica.round_count
        if (waiting >= FOLD_EVERY or self._snapshots.has_many_rounds) and self.idle:
            self._task = asyncio.create_task(self._run_quietly())

    async def _run_quietly(self) -> None:
        try:
            await self.run()
        except WagerError as error:  # nobody waits for this; the next request will meet the same error
            _log.warning("upkeep of model %s: %s", self._replica.model.name, error.detail)
