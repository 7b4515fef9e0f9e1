"""A worker's copy of a shadow: the fold of the model's log by the shadow's learner, and the comparison."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from learners.base import InvalidStateError
from learners.codec import encode_state
from service import costs
from service.compute import Compute
from service.error_messages.values import quoted
from service.errors import ShadowNotFoundError, StoreCorruptError
from service.models.model import Model
from service.replicas.guarded_fold import usable
from service.replicas.other_folds import OtherLearnerFold
from service.replicas.starts import read_state
from service.replicas.tails import Run
from service.shadows.comparison import Sums, decode_sums
from service.shadows.definition import read_definition
from service.store.capabilities import Store
from service.store.values import ChangeEntry, DamagedSnapshotError, Snapshot, StoredShadow

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_MOST_LOADS = 5
"""Snapshot loads in one call of `advance` before the snapshot counts as damaged."""


class ShadowReplica(OtherLearnerFold):
    """The state of a shadow after the first rounds and changes of its model's log, and its comparison."""

    def __init__(self, model: Model, store: Store, compute: Compute, shadow: StoredShadow) -> None:
        self.shadow = shadow
        super().__init__(model, read_definition(shadow).choice, store, compute)
        self.sums = Sums()

    async def advance(self, has_time: Callable[[], bool]) -> bool:
        """Fold the next tail of the log, and further tails while `has_time` returns True.

        Return True if the log has nothing more to fold; return False if the time was up before that was known.

        Raises:
            ShadowNotFoundError: if the shadow is gone or has another learner by now.
            WagerError: as `catch_up_locked`.
        """
        async with self.lock:
            self._loads = 0
            if self.state is None:
                await self._load()
            while True:
                tail = await self._read_tail()
                if not self._lacks(tail.round_count, tail.change_count) and self.round_count == tail.round_count:
                    return True
                await self._take(tail)
                if not has_time():
                    return False

    async def snapshot(self) -> None:
        """Write a snapshot, unless no state is loaded or the store has a newer snapshot.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            ShadowNotFoundError: if the shadow is gone or has another learner by now.
        """
        if self.state is None:
            return
        if await self._store.save_shadow(self.model.key, self.shadow, await self.current()) is None:
            raise _gone(self.shadow)

    async def current(self) -> Snapshot:
        """Return a snapshot of the state, which must be loaded."""
        async with self.lock:
            seen, sums = self.seen(), self.sums.encode()
            state = await self._run(self.bytes, encode_state, self.model.learner, self.state)
        return Snapshot(seen.round_count, state, seen.last_at, sums, seen.damage, seen.change_count, seen.digest)

    async def _run(self, _: int, function: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Run in a thread, whatever the cost: not even a short computation may delay the requests of this worker."""
        return await self._compute.run(f"{self.model.name}/{self.shadow.name}", function, *args)

    async def _load(self) -> None:
        """Load the snapshot; if none has been written, start from the initial state.

        If the snapshot is damaged, or the log no longer contains the next entry, restart at the oldest round.
        """
        self._loads += 1
        if self._loads > _MOST_LOADS + 2:
            raise StoreCorruptError(f"the log of model {self.model.name!r} does not match its number of rounds")
        self.shadow = await self._current()
        snapshot = await self._loaded()
        stored = (self.shadow.since_rounds, self.shadow.since_changes)
        if snapshot is not None:
            stored = (snapshot.round_count, snapshot.change_count)
        lacks_next = self.state is not None and stored <= self._position
        if lacks_next or self._loads > _MOST_LOADS or not await self._start(snapshot):
            await self._begin_again()

    async def _current(self) -> StoredShadow:
        shadows = await self._store.read_shadows(self.model.key)
        found = [each for each in shadows if (each.name, each.id) == (self.shadow.name, self.shadow.id)]
        if not found:
            raise _gone(self.shadow)
        return found[0]

    async def _loaded(self) -> Snapshot | None:
        try:
            return await self._store.load_shadow(self.model.key, self.shadow)
        except DamagedSnapshotError:
            return None

    async def _start(self, snapshot: Snapshot | None) -> bool:
        """Start from a snapshot; without one, from the initial state. Return False if a snapshot is damaged or lost."""
        if snapshot is None:
            if self.shadow.rounds is not None:
                return False
            await self._start_anew()
            return True
        try:
            self._use(await self._model_after(snapshot.change_count, snapshot.digest))
            state = await self._run(costs.FIRST_CALL, read_state, self.model.learner, snapshot.state)
            self.sums = decode_sums(snapshot.statistics)
        except (InvalidStateError, ValueError):
            return False
        await self._place(state, snapshot.round_count, snapshot.change_count)
        return True

    async def _start_anew(self) -> None:
        self._use(await self._model_after(self.shadow.since_changes))
        state = await self._run(costs.FIRST_CALL, self.model.learner.init)
        self.sums = Sums(since_round=self.shadow.since_rounds + 1)
        await self._place(state, self.shadow.since_rounds, self.shadow.since_changes)

    async def _place(self, state: object, rounds: int, changes: int) -> None:
        await self._quarantine.refresh(0)
        self._last_at = None
        self.round_count, self.snapshot_rounds, self.change_count = rounds, rounds, changes
        self._keep(state)

    async def _begin_again(self) -> None:
        """Restart at the oldest round of the log."""
        self.state = None
        await self._store.restart_shadow(self.model.key, self.shadow)
        self.shadow = await self._current()
        await self._start_anew()

    def _note_restart(self, change: ChangeEntry, /) -> None:
        self.sums = Sums(since_round=change.round_count + 1)

    def _note_folded(self, run: Run, start: int, n: int, /) -> None:
        rounds = run.rounds.rows(start, start + n)
        probabilities, learnt = self._recomputing.take(n), usable(self.model.learner, rounds)
        self.sums = self.sums.plus(probabilities, rounds.propensities, rounds.rewards, learnt)

    async def _leave_out(self, number: int, /) -> bool:
        self.sums = self.sums.plus_skipped()
        return await super()._leave_out(number)


def _gone(shadow: StoredShadow) -> ShadowNotFoundError:
    return ShadowNotFoundError(f"the model has no shadow {quoted(shadow.name)} with this learner any more", "shadow")
