"""A worker's copy of a model's state: a cache of the fold, never the truth."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from learners.base import InvalidStateError, state_bytes
from learners.codec import decode_state, encode_state
from service.errors import StoreCorruptError
from service.model import Model
from service.store.base import LogEntry, Seen, Snapshot, Store, Tail
from service.store.records import first_round
from service.tally import Tally

_T = TypeVar("_T")

TAIL_LIMIT = 512
"""Most rounds read at once while a request waits for the reply, which holds up the store."""

_INLINE_COST = 2_000_000
"""Multiply-adds, about a millisecond, above which work leaves the event loop."""

FIRST_CALL = sys.maxsize
"""The cost of calling a kernel for the first time: it may have to be compiled."""


class Replica:
    """The state of one model at some round of its log.

    Whoever reads `state` holds `lock`, as `catch_up` changes it in place.
    """

    def __init__(self, model: Model, store: Store) -> None:
        self.model = model
        self.lock = asyncio.Lock()
        self.rounds = 0
        self.snapshot_rounds = 0
        self.state: Any = None
        self._last_at: float | None = None  # when the last of the rounds came
        self.bytes = state_bytes(model.learner)
        self.tally = Tally(model.format, model.answers.choices, model.definition.window_seconds)
        self._folded = False
        self._store = store

    @property
    def seen(self) -> Seen:
        """What the state takes into account."""
        return Seen(self.rounds, TAIL_LIMIT, self._last_at)

    async def catch_up(self, tail: Tail | None = None) -> None:
        """Folds every round that the log has by now. Call with `lock` held.

        Args:
            tail: what the log has from this replica's last round on, if the caller has just read it.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if the log or the snapshot cannot be read.
            StoreUnavailableError: if the store does not answer.
        """
        if self.state is None:
            await self._load()
            tail = None
        tail = tail or await self._read_tail()
        target = tail.rounds
        await self._take(tail)
        while self.rounds < target:
            tail = await self._read_tail()
            target = min(target, tail.rounds)
            await self._take(tail)

    async def snapshot(self) -> None:
        """Writes a snapshot of the state, unless the store has one that has seen more."""
        async with self.lock:
            if self.state is None or self.rounds <= self.snapshot_rounds:
                return
            rounds, last_at, tally = self.rounds, self._last_at, self.tally.counts().encode()
            state = await offloaded(self.bytes, encode_state, self.model.learner, self.state)
        retained = self.model.definition.retain_rounds
        kept = await self._store.save_snapshot(self.model.key, Snapshot(rounds, state, last_at, tally), retained)
        self.snapshot_rounds = max(self.snapshot_rounds, kept)

    async def _read_tail(self) -> Tail:
        return await self._store.read_tail(self.model.key, max(self.rounds - 1, 0), TAIL_LIMIT + 1)

    def _contradicts(self, tail: Tail) -> bool:
        """Whether the log is not the one this state is of: rounds that it had are gone, or others in their place."""
        first = tail.entries[0] if tail.entries else None
        number, moment = first_round(first.rounds) if first else (sys.maxsize, 0.0)
        if first is None or not number <= self.rounds <= first.number:
            return tail.rounds < self.rounds
        there, self._last_at = self._last_at, moment
        return first.number != self.rounds or (there is not None and there != moment)

    async def _take(self, tail: Tail) -> None:
        """Folds a tail, or starts from the snapshot where the log no longer has the round that comes next."""
        if self._contradicts(tail):
            self.state = None
            await self._load()
            return
        entries = [entry for entry in tail.entries if entry.number > self.rounds]
        gap = first_round(entries[0].rounds)[0] != self.rounds + 1 if entries else tail.rounds > self.rounds
        await (self._load() if gap else self._fold(entries))

    async def _load(self) -> None:
        """Starts from the snapshot, or from nothing where there is none."""
        snapshot = await self._store.load_snapshot(self.model.key)
        learner = self.model.learner
        if self.state is not None and (snapshot is None or snapshot.rounds <= self.rounds):
            raise StoreCorruptError(f"the log of model {self.model.name!r} lacks round {self.rounds + 1}")
        self._last_at = None
        if snapshot is None:
            self.state, self.rounds, self.snapshot_rounds = learner.init(), 0, 0
            self.tally.restart(b"")
            return
        try:
            self.state = await offloaded(self.bytes, decode_state, learner, snapshot.state)
        except InvalidStateError as error:
            raise StoreCorruptError(f"the snapshot of model {self.model.name!r} cannot be read: {error}") from error
        self.rounds = self.snapshot_rounds = snapshot.rounds
        self.tally.restart(snapshot.tally)

    async def _fold(self, entries: Sequence[LogEntry]) -> None:
        if not entries:
            return
        learner, state = self.model.learner, self.state
        records = [entry.rounds for entry in entries]
        rounds = self.model.format.decode_rounds(records)
        if entries[-1].number - self.rounds != rounds.n:
            raise StoreCorruptError(f"the log of model {self.model.name!r} has a hole")
        self.state = None  # if the fold is cut short, its half-changed state must never be used
        cost = rounds.n * learner.fold_cost if self._folded else FIRST_CALL
        self.state = await offloaded(cost, learner.fold_unchecked, state, rounds)
        self._folded = True
        self.rounds, self._last_at = entries[-1].number, first_round(records[-1])[1]
        self.tally.take(records, rounds.n)


async def offloaded(cost: int, function: Callable[..., _T], *args: Any) -> _T:
    """Runs a function of so many multiply-adds here, or in a thread where it would hold up the event loop."""
    if cost < _INLINE_COST:
        return function(*args)
    return await asyncio.to_thread(function, *args)
