"""Reads stored models by their name, and lets changes be made to the newest definition."""

from collections.abc import Awaitable, Callable

from service.catalogue.changing import stale
from service.errors import ModelNotFoundError
from service.store.base import Store
from service.store.stored_models import StoredModel
from service.wording.values import quoted

_ATTEMPTS = 20
"""Attempts to make a change, while others change the model."""


async def stored_under(store: Store, name: str) -> StoredModel:
    """Return the model with a name.

    Raises:
        ModelNotFoundError: if there is none.
    """
    stored = await store.get_model(name)
    if stored is None:
        raise ModelNotFoundError(f"there is no model {quoted(name)}", "name")
    return stored


async def make_change(store: Store, name: str, change: Callable[[StoredModel], Awaitable[bool]]) -> None:
    """Make a change of a model.

    Args:
        store: holds the model.
        name: the model.
        change: changes a stored model; returns False if another change came first. Its errors pass: it raises
            `PreconditionFailedError` for another version, unless the same change led to it.

    Raises:
        ModelNotFoundError: if the model does not exist.
        PreconditionFailedError: if other changes came first.
    """
    for _ in range(_ATTEMPTS):  # of one version too: the change that came first may be an earlier call of this one
        stored = await stored_under(store, name)
        if await change(stored):
            return
    raise stale(await stored_under(store, name))
