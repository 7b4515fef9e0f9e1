"""Reads a model's snapshot and the state in it: valid, damaged, or written by a newer version."""

import json
from typing import Any

from learners.base import AnyLearner, InvalidStateError
from learners.codec import decode_state, identity
from learners.layouts import state_layout
from service.errors import NewerVersionError, StoreCorruptError
from service.models.model import Model
from service.store.base import Store
from service.store.log_entries import begin_of


async def reject_snapshot(store: Store, model: Model, rounds: int, error: Exception) -> None:
    """Record that the snapshot of a model is damaged.

    Raises:
        StoreCorruptError: if the log no longer begins with round 1.
    """
    await store.mark_snapshot(model.key, rounds, str(error))
    tail = await store.read_tail(model.key, 0, 1)
    if tail.round_count and (not tail.entries or begin_of(model.choice.records, tail.entries[0]) != 1):
        raise StoreCorruptError(f"the snapshot of model {model.name!r} cannot be read: {error}") from error


def read_state(learner: AnyLearner, data: bytes | memoryview) -> Any:
    """Decode the state in a snapshot.

    Raises:
        NewerVersionError: if the state has everything that this version writes, and further arrays or hyperparameters.
        InvalidStateError: if the state cannot be decoded.
    """
    try:
        return decode_state(learner, data)
    except InvalidStateError:
        if _is_newer(learner, bytes(data)):
            raise NewerVersionError("the snapshot has arrays or hyperparameters of a newer version") from None
        raise
    except Exception as error:  # a damaged header can raise any error
        raise InvalidStateError(f"the header cannot be read: {error}") from error


def _is_newer(learner: AnyLearner, data: bytes) -> bool:
    """Check whether the header has everything that this version writes, and more."""
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        theirs, ours = json.loads(header.pop("__metadata__")["learner"]), json.loads(identity(learner))
        both = [(set(header), set(state_layout(learner))), (set(theirs), set(ours))]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return all(found >= known for found, known in both) and any(found > known for found, known in both)
