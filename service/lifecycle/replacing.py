"""Rollback and reset: changes in the log after which a model continues from another state."""

import json
from collections.abc import Collection

from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import SnapshotNotFoundError
from service.models.changes import Change, FromSnapshot, NewState, read_change
from service.models.learner_choice import hyperparameters
from service.models.model import Limits, Model
from service.models.policies import stored_policies
from service.models.summaries import summary_of
from service.registry.changing import changed_model, stale
from service.registry.descriptions import Described, version_of
from service.registry.registry import Catalogue, make_change
from service.replicas.states import kept_state
from service.store.stored_models import StoredModel


class Replacing:
    """Replaces the states of models."""

    def __init__(self, environment: Environment, limits: Limits, catalogue: Catalogue) -> None:
        self._store = environment.store
        self._compute = environment.compute
        self._models = environment.models
        self._now = environment.now
        self._limits = limits
        self._catalogue = catalogue

    async def reset(self, name: str, versions: Collection[str], by: str | None) -> Described:
        """Let a model continue from the initial state of its learner; see `roll_back`."""
        return await self._continue_from("initial", name, versions, by)

    async def roll_back(self, name: str, snapshot: str, versions: Collection[str], by: str | None) -> Described:
        """Let a model continue from the state of a kept snapshot; return its description.

        Labels that were added since stay, and so do retired labels, policies, the log and the statistics. `versions`
        are those that the caller allows to change.

        Raises:
            SnapshotNotFoundError: if it has no such kept snapshot.
            PreconditionFailedError: if the definition has another version, unless the same change led to it.
            StoreCorruptError: if the snapshot, or the model, cannot be read.
        """
        return await self._continue_from(FromSnapshot(snapshot=snapshot), name, versions, by)

    async def _continue_from(self, state: NewState, name: str, versions: Collection[str], by: str | None) -> Described:
        await make_change(self._store, name, lambda stored: self._replace(stored, state, versions, by))
        return await self._catalogue.get(name)

    async def _replace(self, stored: StoredModel, state: NewState, versions: Collection[str], by: str | None) -> bool:
        count = len(stored.history)
        if not {"*", version_of(stored, count)} & set(versions):
            if version_of(stored, count - 1) in versions and _is_repeated(stored, state, by):
                return True
            raise stale(stored)
        model = await self._models.read(stored)
        learner = None if state == "initial" else await self._other_learner(stored, model, state)
        change = Change(state=state, learner=learner, at=self._now(), by=by)
        changed = await changed_model(self._compute, stored, model, change, self._limits)
        if isinstance(state, FromSnapshot):
            await kept_state(self._store, self._compute, changed, state.snapshot)  # a damaged one changes nothing
        summary = summary_of(changed, stored.definition).model_dump_json(exclude_defaults=True)
        line, policies = change.encode(), stored_policies(changed.definition)
        return await self._store.change_model(stored.key, model.digest, line, summary, policies)

    async def _other_learner(self, stored: StoredModel, model: Model, state: FromSnapshot) -> dict[str, object] | None:
        """Return the learner that a kept snapshot belongs to; None if the model has it."""
        notes = await self._store.list_kept(stored.key)
        note = next((note for note in notes if note.id == state.snapshot), None)
        if note is None:
            raise SnapshotNotFoundError(f"the model has no snapshot {quoted(state.snapshot)}", "snapshot")
        then = await self._models.read(stored, note.change_count)
        chosen = json.loads(note.learner) if note.learner else hyperparameters(then.learner)
        return None if chosen == hyperparameters(model.learner) else chosen


def _is_repeated(stored: StoredModel, state: NewState, by: str | None) -> bool:
    """Check whether the last change of a model is what a request asks for, because its first answer was lost."""
    last = read_change(stored.history[-1]) if stored.history else None
    return last is not None and (last.state, last.by, last.labels, last.policies) == (state, by, None, {})
