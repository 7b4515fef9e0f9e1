"""The upkeep of a replica: folds the rounds that this worker recorded, writes snapshots, and publishes statistics."""

import asyncio
import dataclasses
import json
import logging
import math
from collections.abc import Callable

from service import kernels
from service.analytics.overviews import overview_of
from service.errors import WagerError
from service.models.costs import budget_warnings
from service.replicas.replica import Replica
from service.replicas.statistics import SLOTS, STATISTICS_VERSION
from service.store.capabilities import Snapshots
from service.store.values import PublishedStatistics

SNAPSHOT_EVERY = 1_000
"""New rounds and changes after which a snapshot is written; more if the state has more bytes than these rounds."""

SNAPSHOT_PAUSE = 1.0
"""Minimum seconds between two snapshots. Folding one second's rounds again takes less than a second."""

SNAPSHOT_AGE = 30.0
"""Seconds after which a snapshot is written even if there are few new rounds; more for a large state."""

_BYTES_PER_SECOND = 2_000_000  # bytes of the state for each second that is added to `SNAPSHOT_AGE`


class SnapshotPolicy:
    """Decides when one replica writes a snapshot.

    Args:
        replica: the replica whose state is written.
        now: returns seconds since the epoch.
    """

    def __init__(self, replica: Replica, now: Callable[[], float]) -> None:
        self._replica = replica
        self._now = now
        self._begun_at = now()

    def begin(self) -> None:
        """Record that a snapshot is being written."""
        self._begun_at = self._now()

    @property
    def has_many_rounds(self) -> bool:
        """Whether enough new rounds and changes exist to write a snapshot without waiting for the next upkeep."""
        new = self._new
        if new < SNAPSHOT_EVERY or self._now() - self._begun_at < SNAPSHOT_PAUSE:
            return False
        return new >= self._replica.bytes // self._replica.model.choice.records.round_bytes

    @property
    def is_due(self) -> bool:
        """Whether the next upkeep must write a snapshot."""
        aged = self._now() - self._begun_at >= SNAPSHOT_AGE + self._replica.bytes / _BYTES_PER_SECOND
        return self.has_many_rounds or (aged and self._new > 0)

    @property
    def _new(self) -> int:
        """The number of rounds and changes that the latest snapshot lacks."""
        replica = self._replica
        return replica.round_count - replica.snapshot_rounds + replica.change_count - replica.snapshot_changes


_log = logging.getLogger(__name__)

PUBLISH_EVERY = 5.0
"""Minimum seconds between two publications of a model's statistics by one worker."""


class StatisticsPublisher:
    """Publishes the statistics of one replica.

    Args:
        replica: the replica whose statistics are published.
        store: receives the statistics.
        now: returns seconds since the epoch.
    """

    def __init__(self, replica: Replica, store: Snapshots, now: Callable[[], float]) -> None:
        self._replica = replica
        self._store = store
        self._now = now
        self._due = -math.inf  # earliest time of the next publication
        self._rounds = 0  # rounds in the published statistics
        self._batches = 0  # batches of predictions made by the last publication
        self._warned = False

    async def publish_if_due(self, batches: int, *, is_last: bool = False) -> None:
        """Publish new counts if `PUBLISH_EVERY` seconds have passed since the last publication, or if it is the last.

        Args:
            batches: number of batches of predictions that this worker has made for the model.
            is_last: whether the worker ends.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreError: if the store fails.
        """
        now, replica = self._now(), self._replica
        is_news = batches > self._batches or replica.round_count > self._rounds
        is_due = is_last or now >= self._due
        if not is_news or not is_due or replica.state is None or not replica.statistics.known:
            return
        self._due, self._batches = now + PUBLISH_EVERY, batches
        model, rounds, counts = replica.model, replica.round_count, replica.statistics.counts()
        found, weight = model.learner.warnings(replica.state), model.choice.cost_weight(replica.state)
        if model.definition.budget is not None:
            counts = dataclasses.replace(counts, cost_weight=weight)
            found = [*found, *budget_warnings(model.definition, weight, counts.costs.latest)]
        slot = int(now // counts.slot_seconds)
        warnings = json.dumps(self._warn(found))
        overview = overview_of(model, counts, rounds).model_dump_json(exclude_defaults=True)
        published = PublishedStatistics(
            rounds, counts.encode(), slot, slot - SLOTS, STATISTICS_VERSION, warnings, overview
        )
        self._rounds = await self._store.publish_statistics(model.key, published)

    def _warn(self, warnings: list[str]) -> list[str]:
        """Log the learner's warnings if none were logged before; return the warnings."""
        if warnings and not self._warned:
            _log.warning("model %s: %s", self._replica.model.name, " ".join(warnings))
            self._warned = True
        return warnings


FOLD_EVERY = 64
"""Unfolded rounds at which a background fold starts: few, because requests wait while the store reads the rounds and
the worker folds them. The rounds of a larger batch are still folded together."""

FOLD_EVERY_IF_LATE = 512
"""Unfolded rounds at which a background fold starts if predictions may lag: a larger fold costs less per round."""

_READ_AFTER = 0.75
"""Fraction of the allowed lag after which a request starts a background fold. Predictions wait only if the fold takes
longer than the rest of the lag."""

_SILENCE_SECONDS = 60.0
"""Seconds for which an error of upkeep that comes again is not logged."""

_LONGEST_PAUSE = 1.0
"""Maximum seconds between two folds while requests arrive, whatever the allowed lag. A longer pause saves little."""


class Upkeep:
    """Maintains one replica: whenever `run` is called, and in the background as soon as much work is waiting.

    Args:
        replica: the replica to maintain.
        store: receives the statistics.
        now: returns seconds since the epoch.
    """

    def __init__(self, replica: Replica, store: Snapshots, now: Callable[[], float]) -> None:
        self._replica = replica
        self._snapshots = SnapshotPolicy(replica, now)
        self._statistics = StatisticsPublisher(replica, store, now)
        self._newest_round = 0  # number of the newest round recorded by this worker
        self._batches = 0  # batches of predictions made by this worker
        self.traffic = 0  # predictions that this worker made and has not yet counted as traffic
        self._task: asyncio.Task[None] | None = None
        self._now = now
        self._warned = "", -math.inf  # the last error that was logged, and when

    @property
    def idle(self) -> bool:
        """Whether no background task is running."""
        return self._task is None or self._task.done()

    @property
    def rounds_waiting(self) -> int:
        """The number of unfolded rounds, up to the last one that this worker recorded."""
        return max(0, self._newest_round - self._replica.round_count)

    def note_predictions(self, n: int) -> None:
        """Count a batch of n new predictions."""
        self._batches += 1
        self.traffic += n
        self._start_if_due()

    def note_rounds(self, newest: int) -> None:
        """Note the number of the newest round that this worker has recorded; 0 if it has recorded none."""
        self._newest_round = max(self._newest_round, newest)
        self._start_if_due()

    def fold_soon(self) -> None:
        """Fold the log in the background, once, even if this worker has recorded none of its rounds."""
        if self.idle:
            self._task = asyncio.create_task(self._run_quietly(folds=True))

    async def run(self, *, is_last: bool = False) -> None:
        """Fold the rounds that this worker recorded. Write a snapshot, and publish statistics, if they are due.

        The last publication before a worker ends is always due.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreError: if the store fails.
        """
        if self.rounds_waiting and kernels.are_ready(self._replica.model):
            await self._replica.catch_up()
        await self._write_if_due(is_last=is_last)

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
        """Whether predictions may lag, and the state is almost too old for them."""
        return self._lag > 0 and not self._replica.is_newer_than(min(_READ_AFTER * self._lag, _LONGEST_PAUSE))

    async def _write_if_due(self, *, is_last: bool = False) -> None:
        if self._snapshots.is_due:
            self._snapshots.begin()
            await self._replica.snapshot()
        await self._statistics.publish_if_due(self._batches, is_last=is_last)

    async def _run_quietly(self, *, folds: bool = False) -> None:
        try:
            if (folds or self.rounds_waiting or self._is_late) and kernels.are_ready(self._replica.model):
                await self._replica.catch_up()
            await self._write_if_due()
        except WagerError as error:  # no caller waits for this; the next request probably gets the same error
            self.warn(error.detail)

    def warn(self, detail: str) -> None:
        """Log an error that upkeep met: the same one again only after a minute."""
        if detail != self._warned[0] or self._now() - self._warned[1] >= _SILENCE_SECONDS:
            self._warned = detail, self._now()
            _log.warning("upkeep of model %s: %s", self._replica.model.name, detail)
