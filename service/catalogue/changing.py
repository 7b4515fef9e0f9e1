"""Changes of models: whether they may be made, and what they make."""

from service.catalogue.descriptions import version_of
from service.errors import PreconditionFailedError
from service.input_errors import TooManyChangesError
from service.models.changes import Change, change_of, read_change
from service.models.model import Limits, Model, check_limits, stored_model
from service.schemas.changes import ModelPatch
from service.store.stored_models import ModelKey, StoredModel
from service.wording.values import quoted

MOST_CHANGES = 10_000
"""Maximum changes of a model. Each reader of the model reads all of them."""


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
