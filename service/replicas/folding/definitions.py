"""Reads the definition of a model as it was after some of its changes."""

from service.compute import Compute
from service.errors import ModelNotFoundError
from service.models.model import Model
from service.models.reading import read_model
from service.store.base import Store


async def model_after(store: Store, compute: Compute, model: Model, change_count: int) -> Model:
    """Return a model after some of its changes.

    Args:
        store: holds the history of the model.
        compute: reads long histories off the event loop.
        model: the model after any number of changes. With changes it is read again, as the log may be another one.
        change_count: the number of changes.

    Raises:
        ModelNotFoundError: if this incarnation of the model is gone.
        NewerVersionError: if a newer version made one of the changes.
        StoreCorruptError: if the model cannot be read, or has fewer changes.
    """
    if change_count == model.change_count == 0:
        return model
    stored = await store.get_model(model.name)
    if stored is None or stored.key != model.key:
        raise ModelNotFoundError(f"there is no model {model.name!r}", "model")
    return await read_model(compute, stored, change_count, model)
