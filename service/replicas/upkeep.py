"""The upkeep of a replica: folds the rounds this worker recorded, writes snapshots, and publishes statistics."""

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
"""Recorded rounds that start a fold in the background. The number is small because other requests wait while the
store reads the rounds and the worker folds them. The rounds of one batch are still folded together."""

FOLD_EVERY_IF_LATE = 512
"""The same, if predictions may lag: the rounds that are folded together cost less each."""

_READ_AFTER = 0.75
"""Share of the allowed lag after which a prediction starts a fold in the background. Predictions wait for it only if it
ends after the lag."""

_LONGEST_PAUSE = 1.0
"""Maximum seconds between two folds of a model that makes predictions. A longer pause saves little."""


class Upkeep:
    """The upkeep of one replica. Runs in the background when much work is waiting.

    Args:
        replica: the replica to maintain.
        store: receives the statistics.
        now: returns seconds since the epoch.
    """

    def __init__(self, replica: Replica, store: Store, now: Callable[[], float]) -> None:
        self._replica = replica
        self._snapshots = SnapshotPolicy(replica, now)
        self._statistics = StatisticsPublisher(replica, store, now)
        self._newest_round = 0  # recorded by this worker
        self._batches = 0  # prediction batches of this worker
        self._task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether no background task is running."""
        return self._task is None or self._task.done()

    @property
    def rounds_waiting(self) -> int:
        """The number of rounds up to the last one that this worker recorded and has not folded."""
        return max(0, self._newest_round - self._replica.round_count)

    def note_predictions(self) -> None:
        """Note a new batch of predictions."""
        self._batches += 1
        self._start_if_due()

    def note_rounds(self, newest: int) -> None:
        """Note the number of the newest recorded round; 0 if none was recorded."""
        self._newest_round = max(self._newest_round, newest)
        self._start_if_due()

    async def run(self) -> None:
        """Fold the rounds this worker recorded; write a snapshot and publish statistics if due.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreError: if the store fails.
        """
        if self.rounds_waiting:
            await self._replica.catch_up()
        await self._write_if_due()

    def _start_if_due(self) -> None:
        lag, waiting = self._lag, self._newest_round - self._replica.round_count
        many = FOLD_EVERY_IF_LATE if lag else FOLD_EVERY
        if (waiting >= many or (lag and self._is_late) or self._snapshots.has_many_rounds) and self.idle:
            self._task = asyncio.create_task(self._run_quietly())

    @property
    def _lag(self) -> float:
        return self._replica.model.definition.freshness.max_lag_seconds

    @property
    def _is_late(self) -> bool:
        """Whether predictions may lag, and soon the state is too old for them. A model without requests may be late."""
        return self._lag > 0 and not self._replica.is_newer_than(min(_READ_AFTER * self._lag, _LONGEST_PAUSE))

    async def _write_if_due(self) -> None:
        if self._snapshots.is_due:
            self._snapshots.begin()
            await self._replica.snapshot()
        await self._statistics.publish_if_due(self._batches)

    async def _run_quietly(self) -> None:
        try:
            if self.rounds_waiting or self._is_late:
                await self._replica.catch_up()
            await self._write_if_due()
        except WagerError as error:  # no caller waits for this; the next request gets the same error
            _log.warning("upkeep of model %s: %s", self._replica.model.name, error.detail)
