"""Descriptions of models, for clients."""

import json
from typing import NamedTuple

from service.models.changes import Change, FromSnapshot, StoredLabels, kind_of, read_change
from service.models.costs import costs_count
from service.models.learner_choice import hyperparameters
from service.models.model import Model
from service.models.policies import policy_warnings
from service.models.reading import unreadable_definition
from service.models.rules import guarantee_of, moved_by
from service.registry.round_log import moment
from service.schemas.models import ChangeList, ChangeNote, ModelAnswer, ModelChanges, policies_of
from service.store.stored_models import StoredModel, digest_at

_SHOWN = 10  # maximum number of latest changes in the description of a model


class Described(NamedTuple):
    """A model, and the version of its definition."""

    answer: ModelAnswer
    version: str


def described(stored: StoredModel, model: Model) -> Described:
    """Describe a model, without the notes on its damage."""
    definition, numbered = model.definition, list(enumerate(stored.history, 1))
    latest = [_note(number, read_change(line)) for number, line in numbered[: -_SHOWN - 1 : -1]]
    answer = ModelAnswer(
        name=model.name,
        features=definition.features,
        actions=definition.actions,
        learner=hyperparameters(model.learner),
        guarantee=guarantee_of(model.learner, moved_by(definition), weighs_costs=costs_count(definition)),
        **policies_of(definition),
        created_at=moment(stored.created_at),
        rounds_seen=stored.round_count,
        predictions=stored.predictions,
        correct=stored.correct,
        total_reward=stored.correct + stored.partial,
        abstained=stored.abstained,
        labels=definition.labels,
        retired_labels=[label for label in definition.labels if label in model.retired] if model.retired else [],
        changes=ModelChanges(count=len(numbered), latest=latest),
        warnings=[*policy_warnings(definition, model.retired), *stored.warnings],
        damaged_rounds=stored.damaged,
    )
    return Described(answer, version_of(stored, len(stored.history)))


def version_of(stored: StoredModel, change_count: int) -> str:
    """Return the version of a model's definition after `change_count` changes, for an ETag."""
    return f"{stored.key.incarnation}.{digest_at(stored.digests, change_count).hex()}"


def history_of(stored: StoredModel, after: int, limit: int) -> ChangeList:
    """Return up to `limit` changes of a model after change `after`, oldest first."""
    some, count = stored.history[after : after + limit], len(stored.history)
    try:
        notes = [_note(number, read_change(line)) for number, line in enumerate(some, after + 1)]
        definition = json.loads(stored.definition)
    except (ValueError, RecursionError) as error:
        raise unreadable_definition(stored.key.name, error) from error
    last = after + len(notes)
    following = last if notes and last < count else None
    return ChangeList(count=count, definition=definition, changes=notes, next_after=following)


def _note(number: int, change: Change) -> ChangeNote:
    labels = change.labels or StoredLabels()
    return ChangeNote(
        number=number,
        at=moment(change.at),
        by=change.by,
        added=list(labels.add),
        retired=list(labels.retire),
        policies=change.policies,
        kind=kind_of(change),
        snapshot=change.state.snapshot if isinstance(change.state, FromSnapshot) else None,
        model=None if change.origin is None else change.origin.model,
        shadow=None if change.promotion is None else change.promotion.shadow,
        replaced=None if change.promotion is None else change.promotion.replaces,
        learner=change.learner,
    )
