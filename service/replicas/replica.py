"""A worker's copy of a model's state: a cache of the fold. The log is the source of truth."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from learners.base import IntArray, InvalidStateError, Rounds
from learners.codec import encode_state
from learners.layouts import new_state_bytes, size_in_bytes, state_bytes
from service.compute import FIRST_CALL, Compute, steps_in_slice
from service.errors import ModelNotFoundError, NewerVersionError, StoreCorruptError
from service.models.model import Model
from service.replicas.guarded_fold import learn
from service.replicas.quarantine import Quarantine
from service.replicas.snapshot_state import read_state
from service.replicas.statistics import StatisticsAccumulator, counted_rounds
from service.store.base import LogEntry, Seen, Snapshot, Store, Tail
from service.store.damage import DamagedSnapshotError
from service.store.log_entries import begin_of, moment_of

_T = TypeVar("_T")

TAIL_LIMIT = 512
"""Maximum rounds per read. A request waits for the read, and the read blocks the store."""

_STRETCH_COST = 1_000_000_000
"""Multiply-adds, about one second, after which a fold checks whether its model still exists."""


_STRETCH_BYTES = 2**22
"""Maximum bytes of rounds with dense contexts per read."""


_MOST_LOADS = 5
"""Snapshot loads in one catch-up before the snapshot counts as damaged. A few are normal: other workers replace the
snapshot and trim the log."""

TYPICAL_NONZEROS = 1000
"""Assumed entries of a sparse context, to estimate costs before a context is read."""


class Replica:
    """The state of one model after some round of its log.

    A fold changes `state` in place, so only the holder of `lock` may read it.

    Args:
        model: the model whose log is folded.
        store: holds the log.
        compute: runs long computations.
    """

    def __init__(self, model: Model, store: Store, compute: Compute) -> None:
        self.model = model
        self.lock = asyncio.Lock()
        self.round_count = 0
        self.change_count = 0
        self.snapshot_rounds = 0
        self.state: Any = None
        self.bytes = new_state_bytes(model.learner)  # of the last state
        self._most_bytes = state_bytes(model.learner)
        self._last_at: bytes | None = None  # moment of the last round, as stored in its entry
        self._quarantine = Quarantine(model, store)
        self.statistics = StatisticsAccumulator(model.answers.choices, model.definition.window_seconds)
        self._folded = False
        self._store = store
        self._compute = compute
        self._given_up = False
        self._loads = 0  # snapshot loads in one call of `catch_up_locked`
        each = model.learner.fold_cost(min(model.definition.features.size, TYPICAL_NONZEROS))
        most = min(_STRETCH_COST // each, _STRETCH_BYTES // model.format.round_bytes)
        self._limit = max(1, min(TAIL_LIMIT, most))

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
        """Fold every round in the log.

        Raises:
            WagerError: as `catch_up_locked`.
        """
        async with self.lock:
            await self.catch_up_locked()

    async def catch_up_locked(self, tail: Tail | None = None) -> None:
        """Fold every round in the log. Call with `lock` held.

        Args:
            tail: the log from this replica's last round on, if the caller has just read it.

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
        target = tail.round_count
        await self._take(tail)
        while self.round_count < target or self.round_count > tail.round_count:  # a snapshot may claim more rounds
            tail = await self._read_tail()
            target = min(target, tail.round_count)
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

    async def _read_tail(self) -> Tail:
        return await self._store.read_tail(self.model.key, max(self.round_count - 1, 0), self._limit + 1)

    def _contradicts(self, tail: Tail) -> bool:
        """Check whether the log has diverged from this state: rounds are gone or replaced."""
        first = tail.entries[0] if tail.entries else None
        if tail.round_count < self.round_count:
            return True
        if first is None or not self._holds_last(first):
            return False
        there, self._last_at = self._last_at, moment_of(first)
        return first.last_round != self.round_count or (there is not None and there != self._last_at)

    def _holds_last(self, entry: LogEntry) -> bool:
        """Check whether an entry contains the last round seen; return False if unknown."""
        begin = entry.last_round if entry.last_round == self.round_count else begin_of(self.model.format, entry)
        return begin is not None and begin <= self.round_count <= entry.last_round

    async def _take(self, tail: Tail) -> None:
        """Fold a tail, or load the snapshot if the log has diverged or no longer has the next round."""
        if tail.entries and tail.entries[-1].last_round > tail.round_count:
            raise StoreCorruptError(f"the log of model {self.model.name!r} has more than its {tail.round_count} rounds")
        is_current = tail.damage == self._quarantine.version or not await self._quarantine.refresh(self.round_count)
        if not is_current or self._contradicts(tail):
            self.state = None
            await self._load()
            return
        entries = [entry for entry in tail.entries if entry.last_round > self.round_count]
        if entries:
            # Only rounds in a snapshot are trimmed. Without a snapshot, the log begins with round 1.
            after = self.round_count if len(entries) < len(tail.entries) else None
            if after is None and self.round_count == 0 and begin_of(self.model.format, entries[0]) is None:
                after = 0
            gap = begin_of(self.model.format, entries[0], after) != self.round_count + 1
        else:
            gap = (tail.round_count, tail.change_count) > (self.round_count, self.change_count)
        await (self._load() if gap else self._fold(entries))

    async def _load(self) -> None:
        """Load the snapshot; without a readable one, start from the initial state."""
        self._loads += 1
        if self._loads > _MOST_LOADS + 1:
            raise StoreCorruptError(f"the log of model {self.model.name!r} does not match its number of rounds")
        # Read before the damage record: a snapshot accounts for all damage that was recorded in its rounds.
        snapshot = await self._read_snapshot()
        if self.state is not None and (snapshot is None or snapshot.round_count <= self.round_count):
            raise StoreCorruptError(f"the log of model {self.model.name!r} lacks round {self.round_count + 1}")
        await self._quarantine.refresh(0)
        self._last_at = None
        if snapshot is None or not await self._start_from(snapshot):
            self._keep(await self._run(FIRST_CALL, self.model.learner.init))
            self.round_count = self.change_count = self.snapshot_rounds = 0
            self.statistics.restart(b"", 0)

    async def _read_snapshot(self) -> Snapshot | None:
        try:
            return await self._store.load_snapshot(self.model.key)
        except DamagedSnapshotError as error:
            await self._reject_snapshot(error.round_count, error)
            return None

    async def _start_from(self, snapshot: Snapshot) -> bool:
        """Start from a snapshot; return False if it is damaged."""
        rounds, statistics = snapshot.round_count, snapshot.statistics
        if snapshot.change_count:  # this version cannot apply changes, and would diverge from newer workers
            raise NewerVersionError(f"the snapshot of model {self.model.name!r} includes changes by a newer version")
        try:
            if self._loads > _MOST_LOADS or counted_rounds(statistics) > rounds:
                raise InvalidStateError("its number of rounds is wrong")
            state = await self._run(FIRST_CALL, read_state, self.model.learner, snapshot.state)
        except InvalidStateError as error:
            await self._reject_snapshot(rounds, error)
            return False
        self.round_count = self.snapshot_rounds = rounds
        self._keep(state)
        self.statistics.restart(statistics, rounds)
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
        stretch = await self._quarantine.read(entries, self.round_count)
        if stretch is None:
            await self._load()
            return
        if stretch.rows is not None:
            if not await self._learn(self.model.format.rounds_of(*stretch.rows), stretch.rows[0]["round"]):
                await self._load()
                return
            self.statistics.take(stretch.rows[0])
        self.round_count, self._last_at = entries[-1].last_round, moment_of(entries[-1])

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

        The store is checked when that cost exceeds `_STRETCH_COST`.
        """
        if self._given_up:
            raise ModelNotFoundError(f"there is no model {self.model.name!r}", "model")
        if cost <= _STRETCH_COST:
            return cost
        await self._store.read_tail(self.model.key, self.round_count, 1)
        return 0

    async def _run(self, cost: int, function: Callable[..., _T], *args: Any) -> _T:
        return await self._compute.run_costly(cost, self.model.name, function, *args)
