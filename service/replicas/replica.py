"""A worker's copy of a model's state: a cache of the fold. The log is the source of truth."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from learners.base import IntArray, InvalidStateError, Rounds
from learners.codec import encode_state
from learners.growth import with_more_labels
from learners.layouts import new_state_bytes, size_in_bytes, state_bytes
from service.compute import FIRST_CALL, Compute, steps_in_slice
from service.errors import ModelNotFoundError, StoreCorruptError
from service.models.model import Model
from service.replicas.definitions import model_after
from service.replicas.guarded_fold import learn
from service.replicas.quarantine import Quarantine
from service.replicas.reading import STRETCH_COST, learnable, most_rounds
from service.replicas.snapshot_state import read_state
from service.replicas.statistics import StatisticsAccumulator, counted_rounds
from service.replicas.tails import Position, entry_at, has_diverged, has_gap, news_in
from service.store.base import ChangeEntry, LogEntry, Seen, Snapshot, Store, Tail
from service.store.damage import DamagedSnapshotError
from service.store.log_entries import begin_of, mark_of

_T = TypeVar("_T")

_MOST_LOADS = 5
"""Snapshot loads in one catch-up before the snapshot counts as damaged. A few are normal: other workers replace the
snapshot and trim the log."""


class Replica:
    """The state of one model after some round and some change of its log.

    A fold changes `state` in place, so only the holder of `lock` may read it. A change replaces `model`, so callers
    must not keep it across an await unless they hold the lock.

    Args:
        model: the model whose log is folded.
        store: holds the log.
        compute: runs long computations.
    """

    def __init__(self, model: Model, store: Store, compute: Compute) -> None:
        self._use(model)
        self.lock = asyncio.Lock()
        self.round_count = 0
        self.change_count = 0
        self.snapshot_rounds = 0
        self.state: Any = None
        self.bytes = new_state_bytes(model.learner)  # of the last state
        self._last_at: bytes | None = None  # mark of the last entry
        self._quarantine = Quarantine(model, store)
        self.statistics = StatisticsAccumulator(model.answers.choices, model.definition.window_seconds)
        self._folded = False
        self._store = store
        self._compute = compute
        self._given_up = False
        self._loads = 0  # snapshot loads in one call of `catch_up_locked`

    def _use(self, model: Model) -> None:
        self.model = model
        self._most_bytes = state_bytes(model.learner)
        self._limit = most_rounds(model)

    @property
    def seen(self) -> Seen:
        """The rounds, changes and damage record that the state takes into account."""
        damage, changes = self._quarantine.version, self.change_count
        return Seen(self.round_count, self._limit, self._last_at, damage=damage, change_count=changes)

    def release(self) -> None:
        """Free the state, unless it is in use; the next use loads it again. Garbage collection may take minutes."""
        if not self.lock.locked():
            self.state = None

    def give_up(self) -> None:
        """Stop the running fold before its next slice, because the model is gone."""
        self._given_up = True

    async def catch_up(self) -> None:
        """Fold every round and change in the log.

        Raises:
            WagerError: as `catch_up_locked`.
        """
        async with self.lock:
            await self.catch_up_locked()

    async def catch_up_locked(self, tail: Tail | None = None) -> None:
        """Fold every round and change in the log. Call with `lock` held.

        Args:
            tail: the log from this replica's last entry on, if the caller has just read it.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if rounds are missing, or the snapshot is damaged and the log no longer has its rounds.
            NewerVersionError: if a newer version wrote part of the log or the snapshot.
            StoreUnavailableError: if the store does not answer.
        """
        self._loads = 0
        if self.state is None:
            await self._load()
            tail = None
        tail = tail or await self._read_tail()
        target = tail.round_count, tail.change_count
        await self._take(tail)
        while self._lacks(*target) or self.round_count > tail.round_count:  # a snapshot may claim more rounds
            tail = await self._read_tail()
            target = min(target[0], tail.round_count), min(target[1], tail.change_count)
            await self._take(tail)

    async def snapshot(self) -> None:
        """Write a snapshot, unless the store has a newer one or the statistics are unknown."""
        async with self.lock:
            if self.state is None or self.round_count <= self.snapshot_rounds or not self.statistics.known:
                return
            rounds, changes = self.round_count, self.change_count
            statistics, last_at, damage = self.statistics.counts().encode(), self._last_at, self._quarantine.version
            state = await self._run(self.bytes, encode_state, self.model.learner, self.state)
        retained = self.model.definition.retain_rounds
        snapshot = Snapshot(rounds, state, last_at, statistics, damage, changes)
        stored_rounds = await self._store.save_snapshot(self.model.key, snapshot, retained)
        self.snapshot_rounds = max(self.snapshot_rounds, stored_rounds)

    def _lacks(self, rounds: int, changes: int) -> bool:
        return self.round_count < rounds or self.change_count < changes

    async def _read_tail(self) -> Tail:
        return await self._store.read_tail(self.model.key, max(self.round_count - 1, 0), self._limit + 1)

    async def _take(self, tail: Tail) -> None:
        """Fold a tail, or load the snapshot if the log has diverged or no longer has the next entry."""
        if tail.entries and tail.entries[-1].last_round > tail.round_count:
            raise StoreCorruptError(f"the log of model {self.model.name!r} has more than its {tail.round_count} rounds")
        is_current = tail.damage == self._quarantine.version or not await self._quarantine.refresh(self.round_count)
        if not is_current or self._contradicts(tail):
            self.state = None
            await self._load()
        elif has_gap(self.model.format, tail, self._position):
            await self._load()
        else:
            await self._fold_all(*news_in(tail, self._position))

    @property
    def _position(self) -> Position:
        return Position(self.round_count, self.change_count)

    def _contradicts(self, tail: Tail) -> bool:
        """Check whether the log has diverged from this state; note the mark of the last entry if it was unknown."""
        if has_diverged(self.model.format, tail, self._position):
            return True
        if (last := entry_at(tail, self._position)) is None:
            return False
        there, self._last_at = self._last_at, mark_of(last)
        return there is not None and there != self._last_at

    async def _fold_all(self, entries: Sequence[LogEntry], changes: Sequence[ChangeEntry]) -> None:
        """Fold rounds, and make each change at its place among them."""
        loads = self._loads
        for change in changes:
            earlier = [entry for entry in entries if entry.last_round <= change.round_count]
            entries = entries[len(earlier) :]
            await self._fold(earlier)
            if self._loads > loads:
                return
            if self.round_count != change.round_count:
                raise StoreCorruptError(f"the log of model {self.model.name!r} lacks round {change.round_count}")
            await self._make(change)
        await self._fold(entries)

    async def _model_after(self, change_count: int) -> Model:
        return await model_after(self._store, self._compute, self.model, change_count)

    async def _make(self, change: ChangeEntry) -> None:
        """Make a change. The history of the model says what it is, so that every worker and every reader agrees."""
        before, after, state = self.model, await self._model_after(change.change_count), self.state
        if len(after.definition.labels) > len(before.definition.labels):
            self.state = None  # if the growth is cut short
            state = await self._run(self.bytes, with_more_labels, before.learner, after.learner, state)
        self._use(after)
        self._keep(state)
        self.statistics.use(after.answers.choices, after.active)
        self.change_count, self._last_at = change.change_count, mark_of(change)

    async def _load(self) -> None:
        """Load the snapshot; without a readable one, start from the initial state."""
        self._loads += 1
        if self._loads > _MOST_LOADS + 1:
            raise StoreCorruptError(f"the log of model {self.model.name!r} does not match its number of rounds")
        # Read before the damage record: a snapshot accounts for all damage that was recorded in its rounds.
        snapshot = await self._read_snapshot()
        there = (0, 0) if snapshot is None else (snapshot.round_count, snapshot.change_count)
        if self.state is not None and there <= self._position:
            raise StoreCorruptError(f"the log of model {self.model.name!r} lacks round {self.round_count + 1}")
        await self._quarantine.refresh(0)
        self._last_at = None
        if snapshot is None or not await self._start_from(snapshot):
            self._use(await self._model_after(0))
            self._keep(await self._run(FIRST_CALL, self.model.learner.init))
            self.round_count = self.change_count = self.snapshot_rounds = 0
            self.statistics.restart(b"", 0)
            self.statistics.use(self.model.answers.choices, self.model.active)

    async def _read_snapshot(self) -> Snapshot | None:
        try:
            return await self._store.load_snapshot(self.model.key)
        except DamagedSnapshotError as error:
            await self._reject_snapshot(error.round_count, error)
            return None

    async def _start_from(self, snapshot: Snapshot) -> bool:
        """Start from a snapshot; return False if it is damaged."""
        rounds, statistics = snapshot.round_count, snapshot.statistics
        self._use(await self._model_after(snapshot.change_count))
        try:
            if self._loads > _MOST_LOADS or counted_rounds(statistics) > rounds:
                raise InvalidStateError("its number of rounds is wrong")
            state = await self._run(FIRST_CALL, read_state, self.model.learner, snapshot.state)
        except InvalidStateError as error:
            await self._reject_snapshot(rounds, error)
            return False
        self.round_count, self.snapshot_rounds, self.change_count = rounds, rounds, snapshot.change_count
        self._keep(state)
        self.statistics.restart(statistics, rounds)
        self.statistics.use(self.model.answers.choices, self.model.active)
        return True

    async def _reject_snapshot(self, rounds: int, error: Exception) -> None:
        """Record that the snapshot is damaged; raise if the log no longer begins with round 1."""
        self.state = None
        await self._store.mark_snapshot(self.model.key, rounds, str(error))
        tail = await self._store.read_tail(self.model.key, 0, 1)
        if tail.round_count and (not tail.entries or begin_of(self.model.format, tail.entries[0]) != 1):
            detail = f"the snapshot of model {self.model.name!r} cannot be read: {error}"
            raise StoreCorruptError(detail) from error

    async def _fold(self, entries: Sequence[LogEntry]) -> None:
        if not entries:
            return
        stretch = await self._quarantine.read(self.model.format, entries, self.round_count)
        if stretch is None:
            await self._load()
            return
        if stretch.rows is not None:
            for rounds, numbers in learnable(self.model, stretch.rows):
                if not await self._learn(rounds, numbers):
                    await self._load()
                    return
            self.statistics.take(stretch.rows.table)
        self.round_count, self._last_at = entries[-1].last_round, mark_of(entries[-1])

    async def _learn(self, rounds: Rounds, numbers: IntArray) -> bool:
        """Fold all rounds except those the learner cannot fold; return False if the snapshot must be loaded.

        Other models get a turn between slices of rounds. An abandoned fold ends there.
        """
        learner, done, unchecked = self.model.learner, 0, 0
        each = learner.fold_cost(rounds.contexts.mean_nonzeros)
        size = steps_in_slice(each, learner.fold_overhead)
        state, self.state = self.state, None  # if the fold is cut short, its half-changed state must never be used
        while done < rounds.n:
            ahead = rounds.rows(done, min(done + size, rounds.n)) if done or rounds.n > size else rounds
            cost = ahead.n * each + learner.fold_overhead + self._growth_cost
            unchecked = await self._check_model_exists(unchecked + cost)
            state, n = await self._run(cost if self._folded else FIRST_CALL, learn, learner, state, ahead)
            self._folded, done = True, done + n
            if n < ahead.n:
                if not await self._quarantine.add(int(numbers[done]), "the learner cannot learn from it"):
                    return False
                done += 1
        self._keep(state)
        return True

    @property
    def _growth_cost(self) -> int:
        """The cost of copying the state, if a fold may have to make it larger."""
        return self.bytes if self.bytes < self._most_bytes else 0

    def _keep(self, state: Any) -> None:
        self.state, self.bytes = state, size_in_bytes(state)

    async def _check_model_exists(self, cost: int) -> int:
        """Raise if the model is gone; return the cost since the last check of the store.

        The store is checked when that cost exceeds `STRETCH_COST`.
        """
        if self._given_up:
            raise ModelNotFoundError(f"there is no model {self.model.name!r}", "model")
        if cost <= STRETCH_COST:
            return cost
        await self._store.read_tail(self.model.key, self.round_count, 1)
        return 0

    async def _run(self, cost: int, function: Callable[..., _T], *args: Any) -> _T:
        return await self._compute.run_costly(cost, self.model.name, function, *args)
