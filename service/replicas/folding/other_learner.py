"""The fold of a model's log by another learner in the place of the model's own."""

from typing import Any

from learners.growth import with_more_labels
from learners.layouts import state_bytes
from service.compute import FIRST_CALL, Compute
from service.models.model import Model
from service.replicas.folding.definitions import model_after
from service.replicas.folding.guarded_fold import Folder
from service.replicas.folding.log_fold import LogFold
from service.replicas.folding.reading import Run
from service.replicas.folding.recomputing import Recomputing
from service.schemas.models import LearnerChoice
from service.store.base import ChangeEntry, Store
from service.store.records.round_table import Table


class OtherLearnerFold(LogFold):
    """A fold in which the evidence of every round is made anew. Changes of the model's own state do not concern it.

    Args:
        model: the model.
        choice: the other learner.
        store: holds the log.
        compute: runs long computations.
    """

    def __init__(self, model: Model, choice: LearnerChoice, store: Store, compute: Compute) -> None:
        self._choice = choice
        self._shadowed = model
        super().__init__(model.shadowed_by(choice), store, compute)

    def _use(self, model: Model) -> None:
        super()._use(model)
        self._recomputing = Recomputing(model.learner)

    async def _model_after(self, change_count: int, seen: bytes | None = None) -> Model:
        self._shadowed = await model_after(self._store, self._compute, self._shadowed, change_count, seen)
        return self._shadowed.shadowed_by(self._choice)

    async def _state_after(self, before: Model, after: Model, change: ChangeEntry, /) -> Any:
        """Return the state with the labels that a change adds: the initial one if the learner's labels cannot grow."""
        state, cost = self.state, state_bytes(after.learner)
        if len(after.definition.labels) == len(before.definition.labels):
            return state
        self.state = None  # if this is cut short
        if before.learner.labels_grow:
            return await self._run(cost, with_more_labels, before.learner, after.learner, state)
        self._note_restart(change)
        return await self._run(FIRST_CALL, after.learner.init)

    def _note_restart(self, change: ChangeEntry, /) -> None:
        """Note that the learner begins again at a change."""

    def _note_rounds(self, _: Table, /) -> None:
        """Do nothing: the statistics of the log belong to the model's own fold."""

    def _folder(self, _: Run, /) -> Folder:
        return self._recomputing

    async def _leave_out(self, _: int, /) -> bool:
        """Leave out a round that this learner cannot fold. The model's own learner may have folded it."""
        return True
