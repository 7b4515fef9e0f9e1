"""Reads what a fold starts from: the state in a snapshot, and the model after the changes that the state has seen."""

import json

from learners.base import AnyLearner, InvalidStateError, State
from learners.codec import decode_state, identity
from learners.layouts import state_layout
from service.compute import Compute
from service.errors import ModelNotFoundError, NewerVersionError, StoreCorruptError
from service.models.model import Model
from service.models.reading import read_model
from service.store.capabilities import Store
from service.store.log_entries import begin_of
from service.store.stored_models import digest_at


async def model_after(
    store: Store, compute: Compute, model: Model, change_count: int | None = None, seen: bytes | None = None
) -> Model:
    """Return a model after its first `change_count` changes.

    Args:
        store: contains the model's history.
        compute: reads long histories in threads.
        model: the model after any number of changes. If it is the result and has no changes, it is returned as it is;
            otherwise, its history is read again.
        change_count: the number of changes; None for all that are stored.
        seen: the digest, after these changes, of the history that a state has seen; None to skip the check.

    Raises:
        ModelNotFoundError: if this incarnation of the model is gone.
        NewerVersionError: if a newer version made one of the changes.
        StoreCorruptError: if the model cannot be read, or has fewer changes.
        InvalidStateError: if the store has lost changes that the state has seen.
    """
    if change_count == model.change_count == 0 and seen in (None, model.digest):
        return model
    stored = await store.get_model(model.name)
    if stored is None or stored.key != model.key:
        raise ModelNotFoundError(f"there is no model {model.name!r}", "model")
    if seen is not None and digest_at(stored.digests, change_count or 0) != seen:
        raise InvalidStateError("it has seen changes that the store has lost")
    return await read_model(compute, stored, change_count, model)


async def reject_snapshot(store: Store, model: Model, rounds: int, error: Exception) -> None:
    """Record that a model's snapshot, of `rounds` rounds, is damaged.

    Raises:
        ModelNotFoundError: if this incarnation of the model is gone.
        StoreCorruptError: if the log no longer begins with round 1, so that the state cannot be folded from it.
    """
    await store.mark_snapshot(model.key, rounds, str(error))
    tail = await store.read_tail(model.key, 0, 1)
    if tail.round_count and (not tail.entries or begin_of(model.choice.records, tail.entries[0]) != 1):
        raise StoreCorruptError(f"the snapshot of model {model.name!r} cannot be read: {error}") from error


def read_state(learner: AnyLearner, data: bytes | memoryview) -> State:
    """Decode the state in a snapshot.

    Raises:
        NewerVersionError: if the header contains everything that this version writes, and more.
        InvalidStateError: if the state cannot be decoded.
    """
    try:
        return decode_state(learner, data)
    except InvalidStateError:
        if _is_newer(learner, bytes(data)):
            raise NewerVersionError("the snapshot has arrays or hyperparameters of a newer version") from None
        raise
    except Exception as error:  # a damaged header may raise any error
        raise InvalidStateError(f"the header cannot be read: {error}") from error


def _is_newer(learner: AnyLearner, data: bytes) -> bool:
    """Check whether the safetensors header contains everything that this version writes, and more."""
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        theirs, ours = json.loads(header.pop("__metadata__")["learner"]), json.loads(identity(learner))
        both = [(set(header), set(state_layout(learner))), (set(theirs), set(ours))]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return all(found >= known for found, known in both) and any(found > known for found, known in both)
