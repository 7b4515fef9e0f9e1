"""Changes models: checks versions and limits, detects repeated requests, and writes the changes."""

import logging
from collections.abc import Collection, Sequence

from service.compute import Compute
from service.error_messages.values import quoted
from service.errors import PreconditionFailedError, TooManyChangesError
from service.models.changes import Change, read_change
from service.models.model import Limits, Model, check_limits
from service.models.policies import policy_warnings, stored_policies
from service.models.reading import reading_cost
from service.models.summaries import encoded_summary
from service.registry.descriptions import version_of
from service.store.capabilities import Store
from service.store.stored_models import StoredModel

_log = logging.getLogger(__name__)

# Limits on a model's history, because each reader reads the whole history, and each change rewrites it.
MOST_CHANGES = 10_000
MOST_HISTORY_BYTES = 2**22  # bytes of the stored history
# A copy may have this many more changes, of this many bytes each, so that a model at its limits can be copied.
MOST_COPIES, _COPY_BYTES = 100, 512
# Limit on `Model.history_weight`, because a fold copies all labels at each change of labels. A model with 100,000
# labels may change them 1,000 times; a model with 10,000 labels, `MOST_CHANGES` times.
MOST_HISTORY_WEIGHT = 100_000_000


def is_current(stored: StoredModel, versions: Collection[str]) -> bool:
    """Check whether a request names the current version of a model; `*` names every version."""
    return "*" in versions or version_of(stored, len(stored.history)) in versions


def is_previous(stored: StoredModel, versions: Collection[str]) -> bool:
    """Check whether a request names the version before the last change."""
    return version_of(stored, len(stored.history) - 1) in versions


def is_repeated(stored: StoredModel, asked: Change) -> bool:
    """Check whether the last change is the requested one: a client repeats its request if the answer was lost."""
    return bool(stored.history) and read_change(stored.history[-1]).request == asked.request


def stale(stored: StoredModel) -> PreconditionFailedError:
    """Return the error for a change that does not name the current version."""
    version = quoted(version_of(stored, len(stored.history)))
    return PreconditionFailedError(f"names another version of the model; its ETag is {version}", "If-Match")


def check_history(history: Sequence[str], weight: int, copies: int = 0) -> None:
    """Raise `TooManyChangesError` if a history or its weight is too large; allow for `copies` additional changes."""
    limits = (
        (len(history), MOST_CHANGES + copies, "changes"),
        (sum(len(line.encode()) for line in history), MOST_HISTORY_BYTES + copies * _COPY_BYTES, "bytes of changes"),
        (weight, MOST_HISTORY_WEIGHT, "labels, added up over its changes of labels"),
    )
    for number, most, what in limits:
        if number > most:
            detail = f"the model would have {number:,} {what}; it may have at most {most:,}. Create a new model"
            raise TooManyChangesError(detail)


async def changed_model(compute: Compute, stored: StoredModel, model: Model, change: Change, limits: Limits) -> Model:
    """Return the model after a change, without writing it; raise an error if the change does not fit."""
    changed = await compute.run_in_thread_if_costly(reading_cost(stored), model.name, _changed, model, change, limits)
    check_history((*stored.history, change.encode()), changed.history_weight)
    return changed


def _changed(model: Model, change: Change, limits: Limits) -> Model:
    changed = model.changed(change)
    if change.learner is not None or (change.labels is not None and change.labels.add):
        check_limits(changed.learner, limits)
    return changed


async def write_change(store: Store, stored: StoredModel, before: Model, changed: Model, change: Change) -> bool:
    """Write a checked change; return False if another change came first."""
    summary, policies = encoded_summary(changed, stored.definition), stored_policies(changed.definition)
    return await store.change_model(stored.key, before.digest, change.encode(), summary, policies)


def log_warnings(model: Model, before: Model | None = None) -> None:
    """Log the policy warnings that a change adds to a model; for a new model, log all of them."""
    known = policy_warnings(before.definition, before.retired) if before else []
    for warning in policy_warnings(model.definition, model.retired):
        if warning not in known:
            _log.warning("model %s: %s", model.name, warning)
