"""Builds models from what the service says of them and of their changes."""

import json
from collections.abc import Mapping
from typing import Any

from service.models.changes import Change, FromSnapshot, NewState, StoredLabels
from service.models.learner_choice import build_learner
from service.models.model import Model
from service.schemas.models import ChangeNote, ModelDefinition
from service.store.stored_models import ModelKey


def model_of(answer: Mapping[str, Any]) -> Model:
    """Return the model of a definition, as `GET /models/{name}` and `GET /models/{name}/changes` have it.

    Raises:
        ValueError: if a newer version of the service describes it in another way.
        InvalidInputError: if this version does not have its learner.
    """
    known = {name: answer[name] for name in ModelDefinition.model_fields if answer.get(name) not in (None, [])}
    definition = ModelDefinition.model_validate_json(json.dumps(known))
    return Model(ModelKey(definition.name, "refolded"), definition, build_learner(definition))


def change_of(note: ChangeNote) -> Change:
    """Return a change as the log has it, but for what does not concern the fold."""
    labels = StoredLabels(add=tuple(note.added), retire=tuple(note.retired)) if note.added or note.retired else None
    return Change(
        labels=labels, policies=note.policies, state=_state_of(note), learner=note.learner, at=note.at.timestamp()
    )


def _state_of(note: ChangeNote) -> NewState | None:
    if note.kind == "reset":
        return "initial"
    if note.snapshot is None:
        return None
    return FromSnapshot(snapshot=note.snapshot, then_folds=note.kind == "promote")
