"""A worker's copy of a model's state: a cache of the fold. The log is the source of truth."""

import math
from collections.abc import Callable

from learners.base import InvalidStateError, State
from learners.codec import encode_state
from service import costs, kernels
from service.compute import Compute
from service.errors import NewerVersionError, StoreCorruptError
from service.models.model import Model
from service.replicas.log_fold import LogFold
from service.replicas.other_folds import KeptFold, is_promotion
from service.replicas.starts import read_state, reject_snapshot
from service.replicas.states import keeps_state, state_after
from service.replicas.statistics import StatisticsAccumulator, counted_rounds
from service.store.capabilities import Store
from service.store.records.optional_fields import LogRows
from service.store.values import ChangeEntry, DamagedSnapshotError, Snapshot, Tail

_MOST_LOADS = 5
"""Snapshot loads in one catch-up before the snapshot counts as damaged. A few are normal: other workers replace the
snapshot and trim the log."""


class Replica(LogFold):
    """The state of one model after the first rounds and changes of its log, with the statistics of these rounds.

    Args:
        model: the model whose log is folded.
        store: contains the log.
        compute: runs long computations.
        monotonic: returns monotonic seconds.
    """

    def __init__(
        self, model: Model, store: Store, compute: Compute, monotonic: Callable[[], float] = lambda: math.nan
    ) -> None:
        super().__init__(model, store, compute)
        self._monotonic = monotonic
        self._complete_at = -math.inf
        self.statistics = StatisticsAccumulator(model.choice.answers.choices, model.definition.window_seconds)

    def is_newer_than(self, seconds: float) -> bool:
        """Check whether the state is sure to include every round that was acknowledged more than `seconds` ago."""
        return self.state is not None and self._monotonic() - self._complete_at < seconds

    async def catch_up_locked(self, tail: Tail | None = None) -> None:
        # A failed catch-up may leave the state of an old snapshot.
        begun_at, self._complete_at = self._monotonic(), -math.inf
        await super().catch_up_locked(tail)
        if tail is None:  # otherwise, the tail was read at an unknown time
            self._complete_at = begun_at

    async def snapshot(self) -> None:
        """Write a snapshot, unless the stored one is as new, or the state, its rounds or its statistics are missing."""
        async with self.lock:
            seen, stored = (self.round_count, self.change_count), (self.snapshot_rounds, self.snapshot_changes)
            if self.state is None or seen <= stored or not (self.round_count and self.statistics.known):
                return
            snapshot = await self._encoded()
        retained = self.model.definition.retain_rounds
        stored_rounds = await self._store.save_snapshot(self.model.key, snapshot, retained)
        # Another worker may have written the stored snapshot. If it has the rounds of this one, it has the changes too.
        changes = snapshot.change_count if stored_rounds >= snapshot.round_count else 0
        self.snapshot_rounds = max(self.snapshot_rounds, stored_rounds)
        self.snapshot_changes = max(self.snapshot_changes, changes)

    async def current(self) -> tuple[Model, Snapshot]:
        """Fold every round and change in the log; return the model and its snapshot.

        Raises:
            WagerError: as `catch_up_locked`.
            NewerVersionError: if a newer version wrote the statistics.
        """
        await kernels.wait_for(self.model)
        async with self.lock:
            await self.catch_up_locked()
            if not self.statistics.known:
                raise NewerVersionError(f"a newer version wrote the statistics of model {self.model.name!r}")
            return self.model, await self._encoded()

    async def _encoded(self) -> Snapshot:
        statistics, seen = self.statistics.counts().encode(), self.seen()
        state = await self._run(self.bytes, encode_state, self.model.learner, self.state)
        return Snapshot(seen.round_count, state, seen.last_at, statistics, seen.damage, seen.change_count, seen.digest)

    async def _state_after(self, before: Model, after: Model, change: ChangeEntry, /) -> State:
        state = self.state
        if not keeps_state(before, after):
            self.state = None  # in case of an interruption
            if is_promotion(after):
                state = await KeptFold(after, self._store, self._compute).state_at(change)
            else:
                state = await state_after(self._store, self._compute, before, after, state)
        self._use_in_statistics(after)
        return state

    def _use_in_statistics(self, model: Model) -> None:
        choice, holdout = model.choice, model.definition.holdout
        share = 0.0 if holdout is None else holdout.fraction
        self.statistics.use(choice.answers.choices, choice.active, share, model.holdout_since)

    def _note_rounds(self, rounds: LogRows, /) -> None:
        self.statistics.take(rounds.table, rounds.parts)

    def _note_folded(self, *_: object) -> None:
        """Do nothing: the statistics count all readable rounds of the log, folded or not."""

    async def _leave_out(self, number: int, /) -> bool:
        return await self._quarantine.add(number, "the learner cannot learn from it")

    async def _load(self) -> None:
        """Load the snapshot; without a readable one, start from the initial state."""
        self._loads += 1
        if self._loads > _MOST_LOADS + 1:
            raise StoreCorruptError(f"the log of model {self.model.name!r} does not match its number of rounds")
        # Read the snapshot before the damage record: any damage recorded in a snapshot's rounds is left out of it.
        snapshot = None
        try:
            snapshot = await self._store.load_snapshot(self.model.key)
        except DamagedSnapshotError as error:
            self.state = None
            await reject_snapshot(self._store, self.model, error.round_count, error)
        stored = (0, 0) if snapshot is None else (snapshot.round_count, snapshot.change_count)
        if self.state is not None and stored <= self._position:
            raise StoreCorruptError(f"the log of model {self.model.name!r} lacks round {self.round_count + 1}")
        await self._quarantine.refresh(0)
        self._last_at = None
        if snapshot is None or not await self._start_from(snapshot):
            self._use(await self._model_after(0))
            self._keep(await self._run(costs.FIRST_CALL, self.model.learner.init))
            self.round_count = self.change_count = self.snapshot_rounds = self.snapshot_changes = 0
            self.statistics.restart(b"", 0)
            self._use_in_statistics(self.model)

    async def _model_of(self, snapshot: Snapshot) -> Model | None:
        """Return the model of a snapshot; None, to load again, if the store may have lost some of these changes."""
        try:
            return await self._model_after(snapshot.change_count, snapshot.digest)
        except InvalidStateError:
            if self._loads > _MOST_LOADS:
                raise
            return None

    async def _start_from(self, snapshot: Snapshot) -> bool:
        """Start from a snapshot; return False if it is damaged, or if it includes changes that the store has lost."""
        rounds, statistics = snapshot.round_count, snapshot.statistics
        try:
            if (model := await self._model_of(snapshot)) is None:
                await self._load()
                return True
            self._use(model)
            if self._loads > _MOST_LOADS or counted_rounds(statistics) > rounds:
                raise InvalidStateError("its number of rounds is wrong")
            state = await self._run(costs.FIRST_CALL, read_state, self.model.learner, snapshot.state)
        except InvalidStateError as error:
            self.state = None
            await reject_snapshot(self._store, self.model, rounds, error)
            return False
        self.round_count = self.snapshot_rounds = rounds
        self.change_count = self.snapshot_changes = snapshot.change_count
        self._keep(state)
        self.statistics.restart(statistics, rounds)
        self._use_in_statistics(self.model)
        return True
