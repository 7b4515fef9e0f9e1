"""Changes of models, and how they appear in a model's description."""

from service.catalogue.round_log import moment
from service.errors import PreconditionFailedError
from service.input_errors import TooManyChangesError
from service.models.changes import Change, FromSnapshot, change_of, kind_of, read_change
from service.models.learner_choice import hyperparameters
from service.models.model import Limits, Model, check_limits, stored_model
from service.schemas.changes import ModelPatch
from service.schemas.models import ChangeNote, ModelAnswer, ModelChanges
from service.schemas.policies import policies_of
from service.store.stored_models import ModelKey, StoredModel
from service.wording.values import quoted

MOST_CHANGES = 10_000
"""Maximum changes of a model. Each reader of the model reads all of them."""

_SHOWN = 10
"""Maximum changes in the description of a model."""


def version_of(key: ModelKey, change_count: int) -> str:
    """Return the version of a model's definition, for an ETag."""
    return f"{key.incarnation}.{change_count}"


def stale(key: ModelKey, change_count: int) -> PreconditionFailedError:
    """Return the error of a change that names another version than the model has."""
    version = quoted(version_of(key, change_count))
    return PreconditionFailedError(f"names another version of the model; its ETag is {version}", "If-Match")


def check_count(change_count: int) -> None:
    """Check that a model may have another change.

    Raises:
        TooManyChangesError: if it may not.
    """
    if change_count >= MOST_CHANGES:
        raise TooManyChangesError(f"the model has {change_count} changes; a model may have at most {MOST_CHANGES}")


def is_repeated(stored: StoredModel, patch: ModelPatch, by: str | None) -> bool:
    """Check whether the last change of a model is what a request asks for, because its first answer was lost."""
    if not stored.history:
        return False
    before, last = stored_model(stored, len(stored.history) - 1), read_change(stored.history[-1])
    asked = change_of(patch, before.definition, last.at, by)
    return asked is not None and asked.says_the_same(last)


def changed_model(model: Model, change: Change, limits: Limits) -> Model:
    """Return a model after a change.

    Raises:
        InvalidInputError: if the change does not fit, or if the learner would be too large or too slow.
    """
    changed = model.changed(change)
    if change.learner is not None or (change.labels is not None and change.labels.add):
        check_limits(changed.learner, limits)
    return changed


def model_answer(stored: StoredModel, model: Model) -> ModelAnswer:
    """Return the description of a model, without its damage."""
    definition = model.definition
    return ModelAnswer(
        name=model.name,
        features=definition.features,
        actions=definition.actions,
        learner=hyperparameters(model.learner),
        guarantee=model.learner.guarantee,
        **policies_of(definition),
        created_at=moment(stored.created_at),
        rounds_seen=stored.round_count,
        predictions=stored.predictions,
        correct=stored.correct,
        reward=stored.correct + stored.partial,
        labels=definition.labels,
        retired_labels=[label for label in definition.labels if label in model.retired],
        changes=_changes(stored),
        warnings=list(stored.warnings),
        damaged_rounds=stored.damaged,
    )


def _changes(stored: StoredModel) -> ModelChanges:
    count = len(stored.history)
    latest = [
        _note(number, read_change(stored.history[number - 1])) for number in range(count, max(count - _SHOWN, 0), -1)
    ]
    return ModelChanges(count=count, latest=latest)


def _note(number: int, change: Change) -> ChangeNote:
    added, retired = (change.labels.add, change.labels.retire) if change.labels else ((), ())
    return ChangeNote(
        number=number,
        at=moment(change.at),
        by=change.by,
        added=list(added),
        retired=list(retired),
        policies=change.policies,
        kind=kind_of(change),
        snapshot=change.state.snapshot if isinstance(change.state, FromSnapshot) else None,
        model=None if change.origin is None else change.origin.model,
        shadow=None if change.promotion is None else change.promotion.shadow,
        replaced=None if change.promotion is None else change.promotion.replaces,
        learner=change.learner,
    )
