"""Additional folds of a model's log: by another learner, or continued from a promoted shadow."""

from learners.base import InvalidStateError, State
from learners.growth import with_more_labels
from learners.layouts import state_bytes
from service import costs
from service.compute import Compute
from service.errors import StoreCorruptError
from service.models.changes import FromSnapshot
from service.models.learner_choice import hyperparameters
from service.models.model import Model
from service.replicas.guarded_fold import Folder, Recomputing
from service.replicas.log_fold import LogFold
from service.replicas.starts import model_after, read_state
from service.replicas.tails import Run
from service.schemas.models import LearnerChoice
from service.store.capabilities import Store
from service.store.records.optional_fields import LogRows
from service.store.stored_models import digest_at
from service.store.values import ChangeEntry, DamagedSnapshotError, Snapshot, Tail


class OtherLearnerFold(LogFold):
    """A fold by a learner other than the model's. It recomputes evidence and ignores changes that replace the state."""

    def __init__(self, model: Model, choice: LearnerChoice, store: Store, compute: Compute) -> None:
        self._choice = choice
        self._shadowed = model
        super().__init__(model.shadowed_by(choice), store, compute)

    def _use(self, model: Model) -> None:
        super()._use(model)
        self._recomputing = Recomputing(model.learner, model.choice)

    async def _model_after(self, change_count: int, seen: bytes | None = None) -> Model:
        self._shadowed = await model_after(self._store, self._compute, self._shadowed, change_count, seen)
        return self._shadowed.shadowed_by(self._choice)

    async def _state_after(self, before: Model, after: Model, change: ChangeEntry, /) -> State:
        """Return the state extended by the labels that a change adds, or the initial one if they cannot be added."""
        state, cost = self.state, state_bytes(after.learner)
        if len(after.definition.labels) == len(before.definition.labels):
            return state
        self.state = None  # in case of an interruption
        if before.learner.labels_grow:
            return await self._run(cost, with_more_labels, before.learner, after.learner, state)
        self._note_restart(change)
        return await self._run(costs.FIRST_CALL, after.learner.init)

    def _note_restart(self, change: ChangeEntry, /) -> None:
        """Record that the learner restarts at a change."""

    def _note_rounds(self, _: LogRows, /) -> None:
        """Do nothing: the statistics of the log belong to the model's own fold."""

    def _folder(self, _: Run, /) -> Folder:
        return self._recomputing

    async def _leave_out(self, _: int, /) -> bool:
        """Skip a round that this learner cannot fold. The model's own learner may have folded it."""
        return True


def is_promotion(model: Model) -> bool:
    """Check whether a model's last change continues from a kept snapshot and folds the rounds since this snapshot."""
    return isinstance(model.new_state, FromSnapshot) and model.new_state.then_folds


class KeptFold(OtherLearnerFold):
    """A fold that starts from the kept snapshot of a promotion: see `is_promotion`.

    The log keeps the rounds after this snapshot until the model's latest snapshot includes the promotion.

    Args:
        model: the model after the promotion.
        store: contains the kept snapshot and the log.
        compute: runs long computations.
    """

    def __init__(self, model: Model, store: Store, compute: Compute) -> None:
        super().__init__(model, LearnerChoice(**hyperparameters(model.learner)), store, compute)
        self._digests = model.digests
        self._id = model.new_state.snapshot if isinstance(model.new_state, FromSnapshot) else ""

    async def state_at(self, change: ChangeEntry) -> State:
        """Return the state after every round and change that precedes `change`, the promotion, in the log.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            NewerVersionError: if a newer version wrote the kept snapshot or part of the log.
            StoreCorruptError: if the kept snapshot is damaged or missing, or the log lacks rounds after it.
        """
        await self._load()
        while (self.round_count, self.change_count) != (change.round_count, change.change_count - 1):
            await self._take(self._before(await self._read_tail(), change))
        return self.state

    async def _load(self) -> None:
        if self.state is not None:
            raise StoreCorruptError(f"the log of model {self.model.name!r} lacks rounds after snapshot {self._id!r}")
        try:
            await self._start_from(await self._store.load_kept(self.model.key, self._id))
        except (InvalidStateError, DamagedSnapshotError) as error:
            detail = f"the kept snapshot {self._id!r} of model {self.model.name!r} cannot be read: {error}"
            raise StoreCorruptError(detail) from error

    async def _start_from(self, snapshot: Snapshot | None) -> None:
        self._loads += 1
        if snapshot is None or self._loads > 1:
            raise InvalidStateError("it is missing, or belongs to another log")
        self._use(await self._model_after(snapshot.change_count, snapshot.digest))
        state = await self._run(costs.FIRST_CALL, read_state, self.model.learner, snapshot.state)
        await self._quarantine.refresh(0)
        self.round_count, self.change_count = snapshot.round_count, snapshot.change_count
        self._keep(state)

    def _before(self, tail: Tail, change: ChangeEntry) -> Tail:
        """Return a tail as it would be if the log ended immediately before `change`."""
        entries = [entry for entry in tail.entries if entry.last_round <= change.round_count]
        changes = [each for each in tail.changes if each.change_count < change.change_count]
        count = change.change_count - 1
        return Tail(change.round_count, entries, tail.damage, count, changes, digest_at(self._digests, count))

    def _note_folded(self, run: Run, start: int, n: int, /) -> None:
        """Drop the probabilities, which only the comparison of a shadow needs."""
        self._recomputing.take(n)
