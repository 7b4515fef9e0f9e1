"""The fold of a log, by the model's own learner or by another one. The log is the source of truth."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import TypeVar, TypeVarTuple

from learners.base import State
from learners.layouts import new_state_bytes, size_in_bytes, state_bytes
from service import costs
from service.compute import Compute, steps_in_slice
from service.errors import ModelNotFoundError, StoreCorruptError
from service.models.changes import replaces_state
from service.models.model import Model
from service.replicas.guarded_fold import Folder, Recomputing, learn
from service.replicas.quarantine import Quarantine, UnrecordedQuarantine
from service.replicas.starts import model_after
from service.replicas.tails import (
    Position,
    Run,
    entry_at,
    has_diverged,
    has_gap,
    learnable,
    most_rounds,
    news_in,
)
from service.store.capabilities import Store
from service.store.log_entries import mark_of
from service.store.records.optional_fields import LogRows
from service.store.stored_models import digest_after
from service.store.values import ChangeEntry, LogEntry, Seen, Tail

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")


class LogFold(ABC):
    """The fold of one model's log: the state after its first `round_count` rounds and `change_count` changes.

    A fold changes `state` in place, so only the holder of `lock` may read it. A change replaces `model`, so
    after an await, callers that do not hold the lock must read `model` again.
    """

    def __init__(self, model: Model, store: Store, compute: Compute) -> None:
        self._use(model)
        self.lock = asyncio.Lock()
        self.round_count = 0
        self.change_count = 0
        self.snapshot_rounds = 0  # rounds in the newest stored snapshot that this worker knows of
        self.snapshot_changes = 0  # changes in that snapshot
        self.state: State = None
        self.bytes = new_state_bytes(model.learner)  # size of the latest state
        self._last_at: bytes | None = None  # mark of the last entry folded; None if unknown
        self._quarantine = Quarantine(model, store)
        self._compiled = set[tuple[str, bool]]()  # kinds of folds that have run: the first of each may compile a kernel
        self._store = store
        self._compute = compute
        self._given_up = False
        self._loads = 0  # snapshot loads in the current catch-up

    def _use(self, model: Model) -> None:
        self.model = model
        self._most_bytes = state_bytes(model.learner)
        self._limit = most_rounds(model)

    def seen(self, allow_newer: bool = False) -> Seen:
        """Return the rounds, changes and damage record that the state takes into account.

        Args:
            allow_newer: whether the log may have newer rounds.
        """
        changes = self.change_count, self.model.digest
        return Seen(self.round_count, self._limit, self._last_at, allow_newer, self._quarantine.version, *changes)

    def only_read(self) -> None:
        """Never record damage in the store, which would change what other workers fold."""
        self._quarantine = UnrecordedQuarantine(self.model, self._store)

    def release(self) -> None:
        """Free the state at once, unless it is in use: garbage collection may take minutes. The next use reloads it."""
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

        The log, the model and its snapshots are read one after the other. If they contradict each other, they are read
        once more, and then again for as long as the model's history keeps changing, as it may during a fail-over.

        Args:
            tail: the log from the last folded entry on, if the caller has just read it.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if rounds are missing, or the snapshot is damaged and the log lacks some of its rounds.
            NewerVersionError: if a newer version wrote part of the log or the snapshot.
            StoreUnavailableError: if the store does not answer.
        """
        history = b""
        while True:
            try:
                await self._catch_up(tail)
                return
            except StoreCorruptError:
                before, history = history, (await self._store.read_tail(self.model.key, self.round_count, 1)).digest
                if history == before:
                    raise
                self.state = tail = None

    async def _catch_up(self, tail: Tail | None) -> None:
        self._loads = 0
        if self.state is None:
            await self._load()
            tail = None
        tail = tail or await self._read_tail()
        target = tail.round_count, tail.change_count
        # A loaded state may be newer than the tail, and the mark of its last entry is known only from another tail.
        while not await self._take(tail) or self._lacks(*target) or self.round_count > tail.round_count:
            tail = await self._read_tail()
            target = min(target[0], tail.round_count), min(target[1], tail.change_count)

    def _lacks(self, rounds: int, changes: int) -> bool:
        return self.round_count < rounds or self.change_count < changes

    async def _read_tail(self) -> Tail:
        """Read the tail from the last folded entry on. Its mark shows whether the log is still the same."""
        return await self._store.read_tail(self.model.key, max(self.round_count - 1, 0), self._limit + 1)

    async def _take(self, tail: Tail) -> bool:
        """Fold a tail; return False if a stored state was loaded instead.

        That happens if folded rounds differ or are damaged, or if the next entry is gone.
        """
        loads = self._loads
        if tail.entries and tail.entries[-1].last_round > tail.round_count:
            raise StoreCorruptError(f"the log of model {self.model.name!r} has more than its {tail.round_count} rounds")
        is_current = tail.damage == self._quarantine.version or not await self._quarantine.refresh(self.round_count)
        if not is_current or self._contradicts(tail):
            self.state = None
            await self._load()
        elif has_gap(self.model.choice.records, tail, self._position):
            await self._load()
        else:
            await self._fold_all(*news_in(tail, self._position))
        return self._loads == loads

    @property
    def _position(self) -> Position:
        return Position(self.round_count, self.change_count)

    def _contradicts(self, tail: Tail) -> bool:
        """Check whether the log has diverged from this state; note the mark of the last folded entry if it is known."""
        has_other_changes = tail.change_count == self.change_count and tail.digest != self.model.digest
        if has_other_changes or has_diverged(self.model.choice.records, tail, self._position):
            return True
        if (last := entry_at(tail, self._position)) is None:  # it was trimmed, and perhaps lost and replaced before
            return self._last_at is not None and any(news_in(tail, self._position))
        expected, self._last_at = self._last_at, mark_of(last)
        return expected is not None and expected != self._last_at

    async def _fold_all(self, entries: Sequence[LogEntry], changes: Sequence[ChangeEntry]) -> None:
        """Fold rounds and apply changes, in the order of the log."""
        loads = self._loads
        for round_count, together in groupby(changes, lambda change: change.round_count):
            earlier = [entry for entry in entries if entry.last_round <= round_count]
            entries = entries[len(earlier) :]
            await self._fold(earlier)
            if self._loads > loads:  # a snapshot replaced the state, so the entries may not follow it
                return
            if self.round_count != round_count:
                raise StoreCorruptError(f"the log of model {self.model.name!r} lacks round {round_count}")
            made = list(together)
            digests = dict(zip(made, _digests_after(self.model.digest, made), strict=True))
            for change in _effective(made):
                await self._make(change, digests[change])
        await self._fold(entries)

    async def _model_after(self, change_count: int, seen: bytes | None = None) -> Model:
        """Return the model after its first `change_count` changes; see `starts.model_after`."""
        return await model_after(self._store, self._compute, self.model, change_count, seen)

    @abstractmethod
    async def _load(self) -> None:
        """Load a stored or initial state, and set the position and the model to match.

        It is called if `state` is None or cannot be continued, for example because the log lacks the next entry.
        """

    @abstractmethod
    async def _state_after(self, before: Model, after: Model, change: ChangeEntry, /) -> State:
        """Return the state after a change: `self.state`, or a new state if the change replaces or extends the state.

        An implementation sets `self.state` to None before it awaits, because it may be interrupted.
        """

    @abstractmethod
    async def _leave_out(self, number: int, /) -> bool:
        """Note that the fold skips a round that the learner cannot fold; return False if it must load the snapshot."""

    @abstractmethod
    def _note_rounds(self, rounds: LogRows, /) -> None:
        """Note readable rounds after the old position, in order, including those that the learner did not fold."""

    @abstractmethod
    def _note_folded(self, run: Run, start: int, n: int, /) -> None:
        """Note that n rounds of a run, from index `start` on, have just been folded."""

    async def _make(self, change: ChangeEntry, digest: bytes) -> None:
        """Apply a change, and the earlier ones at the same position. `digest` is that of the history after this change.

        The changes are read from the model's history, so that all workers and readers agree.
        """
        before, after = self.model, await self._model_after(change.change_count)
        if after.digest != digest:
            self.state = None
            raise StoreCorruptError(
                f"the history of model {before.name!r} lacks change {change.change_count} of its log"
            )
        state = await self._state_after(before, after, change)
        self._use(after)
        self._keep(state)
        self.change_count, self._last_at = change.change_count, mark_of(change)

    async def _fold(self, entries: Sequence[LogEntry]) -> None:
        if not entries:
            return
        stretch = await self._quarantine.read(self.model.choice.records, entries, self.round_count)
        if stretch is None:
            await self._load()
            return
        if stretch.rows is not None:
            for run in learnable(self.model, stretch.rows):
                if not await self._learn(run):
                    await self._load()
                    return
            self._note_rounds(stretch.rows)
        self.round_count, self._last_at = entries[-1].last_round, mark_of(entries[-1])

    async def _learn(self, run: Run) -> bool:
        """Fold a run, except for rounds that the learner cannot fold; return False if the snapshot must be loaded.

        Between slices of rounds, other models get a turn, and a fold stops if its model is gone.
        """
        learner, rounds, done, unchecked = self.model.learner, run.rounds, 0, 0
        folder, kind = self._folder(run), (learner.algorithm, run.has_evidence)
        nonzeros = rounds.contexts.mean_nonzeros
        each = learner.fold_cost(nonzeros) + (0 if run.has_evidence else learner.decide_cost(nonzeros))
        size = steps_in_slice(each, learner.fold_overhead)
        state, self.state = self.state, None  # if the fold is interrupted, a half-changed state must never be used
        while done < rounds.n:
            ahead = rounds.rows(done, min(done + size, rounds.n)) if done or rounds.n > size else rounds
            bills = None if run.bills is None else run.bills.rows(done, done + ahead.n)
            growth = self.bytes if self.bytes < self._most_bytes else 0  # a fold may have to copy the state
            cost = ahead.n * each + learner.fold_overhead + growth
            unchecked = await self._check_model_exists(unchecked + cost)
            state, n = await self._run(
                cost if kind in self._compiled else costs.FIRST_CALL, learn, folder, state, ahead, bills
            )
            self._note_folded(run, done, n)
            self._compiled.add(kind)
            done += n
            if n < ahead.n:
                if not await self._leave_out(int(run.numbers[done])):
                    return False
                done += 1
        self._keep(state)
        return True

    def _folder(self, run: Run, /) -> Folder:
        """Return the object that folds a run of rounds."""
        choice = self.model.choice
        return choice if run.has_evidence else Recomputing(self.model.learner, choice)

    def _keep(self, state: State) -> None:
        self.state, self.bytes = state, size_in_bytes(state)

    async def _check_model_exists(self, cost: int) -> int:
        """Raise `ModelNotFoundError` if the model is gone; return the cost since the store was last asked about it.

        `cost` is this cost so far, including the next slice. The store is asked again if it exceeds `costs.STRETCH`.
        """
        if self._given_up:
            raise ModelNotFoundError(f"there is no model {self.model.name!r}", "model")
        if cost <= costs.STRETCH:
            return cost
        await self._store.read_tail(self.model.key, self.round_count, 1)
        return 0

    async def _run(self, cost: int, function: Callable[[*_Args], _T], *args: *_Args) -> _T:
        return await self._compute.run_in_thread_if_costly(cost, self.model.name, function, *args)


def _digests_after(digest: bytes, changes: Sequence[ChangeEntry]) -> list[bytes]:
    """Return the digests of a history after each further change; `digest` is its digest before them."""
    return list(accumulate((change.payload for change in changes), digest_after, initial=digest))[1:]


def _effective(changes: Sequence[ChangeEntry]) -> list[ChangeEntry]:
    """Return those changes at one position of the log that must be applied to get the state after all of them.

    Applying the last one applies the labels and policies of all. Of those that replace the state, the last one counts.
    """
    replacing = [change for change in changes if replaces_state(change.payload)]
    return [*(replacing[-1:] if replacing[-1:] != changes[-1:] else []), changes[-1]]
