"""The state of a model at a place of its log, folded again from the nearest stored state before it."""

import contextlib
from typing import NamedTuple

from learners.base import InvalidStateError, State
from service import costs
from service.compute import Compute
from service.errors import StoreCorruptError
from service.models.model import Model
from service.replicas.log_fold import LogFold
from service.replicas.other_folds import KeptFold, is_promotion
from service.replicas.starts import read_state
from service.replicas.states import keeps_state, state_after
from service.replicas.tails import Position, Run
from service.store.capabilities import Store
from service.store.records.optional_fields import LogRows
from service.store.stored_models import digest_at
from service.store.values import ChangeEntry, DamagedSnapshotError, KeptNote, Snapshot, Tail

MOST_ROUNDS = 10_000
"""Maximum rounds between the stored state and the place. They limit the time of one request."""


class Past(NamedTuple):
    """A model at a place of its log."""

    model: Model
    state: State


class PastFold(LogFold):
    """A fold that ends at a place of the log, and starts from the nearest stored state before it.

    Args:
        model: the model after at least the changes that precede the place.
        place: where the fold ends. It must be a place where a worker may have stopped: after a whole entry.
        store: contains the snapshots and the log.
        compute: runs long computations.
    """

    def __init__(self, model: Model, place: Position, store: Store, compute: Compute) -> None:
        super().__init__(model, store, compute)
        self._key, self._digests, self._place = model.key, model.digests, place
        self.only_read()

    async def past(self) -> Past:
        """Return the model and its state at the place.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if a newer version wrote the snapshot or part of the log.
            StoreCorruptError: if no readable snapshot is near enough, the log after it is damaged or incomplete, or the
                fold would take too long.
        """
        await self.catch_up()
        return Past(self.model, self.state)

    async def _load(self) -> None:
        if self.state is not None:
            missing = f"round {self.round_count + 1:,} or change {self.change_count + 1:,}"
            raise StoreCorruptError(f"the log no longer has {missing}, which this state needs")
        for stored in await self._stored():
            with contextlib.suppress(InvalidStateError, DamagedSnapshotError):
                snapshot = stored if isinstance(stored, Snapshot) else await self._store.load_kept(self._key, stored.id)
                if snapshot is not None:
                    await self._start_from(snapshot)
                    return
        if self._place.round_count > MOST_ROUNDS:
            raise StoreCorruptError(f"no stored snapshot is at most {MOST_ROUNDS:,} rounds older than the prediction")
        await self._start_from(None)

    async def _start_from(self, snapshot: Snapshot | None) -> None:
        await self._quarantine.refresh(0)
        self._last_at = None
        if snapshot is None:
            self._use(await self._model_after(0))
            self._check_cost(self._place.round_count)
            state = await self._run(costs.FIRST_CALL, self.model.learner.init)
            self.round_count = self.change_count = 0
        else:
            self._use(await self._model_after(snapshot.change_count, snapshot.digest))
            self._check_cost(self._place.round_count - snapshot.round_count)
            state = await self._run(costs.FIRST_CALL, read_state, self.model.learner, snapshot.state)
            self.round_count, self.change_count = snapshot.round_count, snapshot.change_count
        self._keep(state)

    def _check_cost(self, rounds: int) -> None:
        learner = self.model.learner
        if rounds * learner.fold_cost(min(learner.problem.n_features, costs.TYPICAL_NONZEROS)) > costs.EXPLAINED_FOLD:
            raise StoreCorruptError(f"folding {rounds:,} rounds again would take too long")

    async def _stored(self) -> list[Snapshot | KeptNote]:
        """Return the latest snapshot and the kept ones that precede the place, the nearest first."""
        latest = await self._latest()
        notes = [each for each in await self._store.list_kept(self._key) if not each.learner]  # else of another learner
        kept = [each for each in notes if self._precedes(each.round_count, each.change_count)]
        found: list[Snapshot | KeptNote] = [*kept, *([] if latest is None else [latest])]
        return sorted(found, key=lambda each: (each.round_count, each.change_count), reverse=True)

    async def _latest(self) -> Snapshot | None:
        """Return the latest snapshot; None if it is damaged, or not before the place."""
        with contextlib.suppress(DamagedSnapshotError):
            found = await self._store.load_snapshot(self._key)
            if found is not None and self._precedes(found.round_count, found.change_count):
                return found
        return None

    def _precedes(self, rounds: int, changes: int) -> bool:
        place = self._place
        return place.round_count - MOST_ROUNDS <= rounds <= place.round_count and changes <= place.change_count

    async def _read_tail(self) -> Tail:
        """Read the tail as it would be if the log ended at the place."""
        tail, (rounds, changes) = await super()._read_tail(), self._place
        entries = [each for each in tail.entries if each.last_round <= rounds]
        earlier = [each for each in tail.changes if each.change_count <= changes]
        return Tail(rounds, entries, tail.damage, changes, earlier, digest_at(self._digests, changes))

    async def _state_after(self, before: Model, after: Model, change: ChangeEntry, /) -> State:
        if keeps_state(before, after):
            return self.state
        if is_promotion(after):  # `costs.PROMOTION` limits the rounds that it folds
            kept = KeptFold(after, self._store, self._compute)
            kept.only_read()
            return await kept.state_at(change)
        return await state_after(self._store, self._compute, before, after, self.state)

    async def _leave_out(self, _: int, /) -> bool:
        """Skip a round that the learner cannot fold, without recording it as damaged: this fold only reads."""
        return True

    def _note_rounds(self, _: LogRows, /) -> None:
        """Do nothing: this fold has no statistics."""

    def _note_folded(self, _: Run, _start: int, _n: int, /) -> None:
        """Do nothing: this fold compares no learners."""
