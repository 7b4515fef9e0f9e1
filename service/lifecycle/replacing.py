"""Rollback and reset: logged changes after which a model continues from another state."""

import json
from collections.abc import Collection

from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import SnapshotNotFoundError
from service.models.changes import Change, FromSnapshot, NewState
from service.models.learner_choice import hyperparameters
from service.models.model import Limits, Model
from service.registry.changing import changed_model, is_current, is_previous, is_repeated, stale, write_change
from service.registry.descriptions import Described
from service.registry.registry import ModelRegistry, make_change
from service.replicas.states import kept_state
from service.store.stored_models import StoredModel


class Replacing:
    """Replaces the states of models."""

    def __init__(self, environment: Environment, limits: Limits, registry: ModelRegistry) -> None:
        self._environment, self._limits, self._registry = environment, limits, registry

    async def reset(self, name: str, versions: Collection[str], by: str | None) -> Described:
        """Replace a model's state with the initial state of its learner. The rest is as in `roll_back`."""
        return await self._continue_from("initial", name, versions, by)

    async def roll_back(self, name: str, snapshot: str, versions: Collection[str], by: str | None) -> Described:
        """Restore a model's state and learner from a kept snapshot; return the model's description.

        Labels, retirements and policies stay as they are. The log and the statistics continue; the rollback itself
        becomes an entry of the log. `versions` are the versions of the model that the caller accepts as the current
        one.
        """
        return await self._continue_from(FromSnapshot(snapshot=snapshot), name, versions, by)

    async def _continue_from(self, state: NewState, name: str, versions: Collection[str], by: str | None) -> Described:
        await make_change(self._environment.store, name, lambda stored: self._replace(stored, state, versions, by))
        return await self._registry.get(name)

    async def _replace(self, stored: StoredModel, state: NewState, versions: Collection[str], by: str | None) -> bool:
        environment = self._environment
        change = Change(state=state, at=environment.now(), by=by)
        if not is_current(stored, versions):
            if is_previous(stored, versions) and is_repeated(stored, change):
                return True
            raise stale(stored)
        model = await environment.models.read(stored)
        if isinstance(state, FromSnapshot):
            change = change.model_copy(update={"learner": await self._other_learner(stored, model, state)})
        changed = await changed_model(environment.compute, stored, model, change, self._limits)
        if isinstance(state, FromSnapshot):  # only to raise an error if the snapshot is damaged
            await kept_state(environment.store, environment.compute, changed, state.snapshot)
        return await write_change(environment.store, stored, model, changed, change)

    async def _other_learner(self, stored: StoredModel, model: Model, state: FromSnapshot) -> dict[str, object] | None:
        """Return the learner of a kept snapshot; None if it is the model's current learner."""
        notes = await self._environment.store.list_kept(stored.key)
        note = next((note for note in notes if note.id == state.snapshot), None)
        if note is None:
            raise SnapshotNotFoundError(f"the model has no snapshot {quoted(state.snapshot)}", "snapshot")
        then = await self._environment.models.read(stored, note.change_count)
        chosen = json.loads(note.learner) if note.learner else hyperparameters(then.learner)
        return None if chosen == hyperparameters(model.learner) else chosen
