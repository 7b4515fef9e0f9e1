"""Reads the definition of a model as it was after some of its changes."""

from learners.base import InvalidStateError
from service.compute import Compute
from service.errors import ModelNotFoundError
from service.models.model import Model
from service.models.reading import read_model
from service.store.base import Store
from service.store.stored_models import digest_at


async def model_after(
    store: Store, compute: Compute, model: Model, change_count: int | None = None, seen: bytes | None = None
) -> Model:
    """Return a model after some of its changes.

    Args:
        store: holds the history of the model.
        compute: reads long histories off the event loop.
        model: the model after any number of changes. With changes it is read again, as the log may be another one.
        change_count: the number of changes; None for all.
        seen: the digest of the history that a state has seen, up to these changes.

    Raises:
        ModelNotFoundError: if this incarnation of the model is gone.
        NewerVersionError: if a newer version made one of the changes.
        StoreCorruptError: if the model cannot be read, or has fewer changes.
        InvalidStateError: if the store has lost what the state has seen.
    """
    if change_count == model.change_count == 0 and seen in (None, model.digest):
        return model
    stored = await store.get_model(model.name)
    if stored is None or stored.key != model.key:
        raise ModelNotFoundError(f"there is no model {model.name!r}", "model")
    if seen is not None and digest_at(stored.digests, change_count or 0) != seen:
        raise InvalidStateError("it has seen changes that the store has lost")
    return await read_model(compute, stored, change_count, model)
