"""Changes of models: whether they may be made, and what they make."""

import logging
from collections.abc import Sequence

from service.compute import Compute
from service.error_messages.values import quoted
from service.errors import InvalidInputError, PreconditionFailedError, TooManyChangesError
from service.models.changes import Change, change_of, read_change
from service.models.model import Limits, Model, check_limits
from service.models.policies import policy_warnings
from service.models.reading import ModelReader, reading_cost
from service.registry.descriptions import version_of
from service.schemas.models import ModelPatch
from service.store.stored_models import StoredModel

_log = logging.getLogger(__name__)

MOST_CHANGES = 10_000  # maximum changes of a model. Each reader of the model reads all of them.
MOST_HISTORY_BYTES = 2**22  # maximum bytes of all changes of a model, as stored. Each change writes them again.
MOST_COPIES, _COPY_BYTES = 100, 512
"""Maximum further changes of a copy, and bytes of each, so that a model at its limits can be cloned and restored."""

MOST_HISTORY_WEIGHT = 100_000_000
"""Maximum of `Model.history_weight`: a fold copies the labels at each change of them. A model with 100,000 labels may
change them 1,000 times, one with 10,000 labels as often as `MOST_CHANGES`."""


def stale(stored: StoredModel) -> PreconditionFailedError:
    """Return the error of a change that names another version than the model has."""
    version = quoted(version_of(stored, len(stored.history)))
    return PreconditionFailedError(f"names another version of the model; its ETag is {version}", "If-Match")


def check_history(history: Sequence[str], weight: int, copies: int = 0) -> None:
    """Raise `TooManyChangesError` if a history is too long; `copies` of its changes, at most, begin a copy."""
    limits = (
        (len(history), MOST_CHANGES + copies, "changes"),
        (sum(len(line.encode()) for line in history), MOST_HISTORY_BYTES + copies * _COPY_BYTES, "bytes of changes"),
        (weight, MOST_HISTORY_WEIGHT, "labels, added up over its changes of labels"),
    )
    for number, most, what in limits:
        if number > most:
            detail = f"the model would have {number:,} {what}; it may have at most {most:,}. Create a new model"
            raise TooManyChangesError(detail)


async def is_repeated(models: ModelReader, stored: StoredModel, patch: ModelPatch, by: str | None) -> bool:
    """Check whether the last change of a model is what a request asks for, because its first answer was lost."""
    if not stored.history:
        return False
    before, last = await models.read(stored, len(stored.history) - 1), read_change(stored.history[-1])
    try:
        asked = change_of(patch, before.definition, last.at, by)
    except InvalidInputError:  # so it was refused then
        return False
    return asked is not None and asked.says_the_same(last)


async def changed_model(compute: Compute, stored: StoredModel, model: Model, change: Change, limits: Limits) -> Model:
    """Return a stored model after a further change, before the change is written; raise an error if it does not fit."""
    changed = await compute.run_in_thread_if_costly(reading_cost(stored), model.name, _changed, model, change, limits)
    check_history((*stored.history, change.encode()), changed.history_weight)
    return changed


def _changed(model: Model, change: Change, limits: Limits) -> Model:
    changed = model.changed(change)
    if change.learner is not None or (change.labels is not None and change.labels.add):
        check_limits(changed.learner, limits)
    return changed


def log_warnings(model: Model, before: Model | None = None) -> None:
    """Log the warnings about policies that the model did not have before its change; all for a new one."""
    known = policy_warnings(before.definition) if before else []
    for warning in policy_warnings(model.definition):
        if warning not in known:
            _log.warning("model %s: %s", model.name, warning)
