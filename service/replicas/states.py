"""The state with which a model continues after a change."""

from typing import Any

from learners.base import AnyLearner, InvalidStateError, State
from learners.growth import with_more_labels
from learners.layouts import state_bytes
from service import costs
from service.compute import Compute
from service.errors import StoreCorruptError
from service.models.changes import FromSnapshot
from service.models.learner_choice import build_learner
from service.models.model import Model
from service.replicas.starts import model_after, read_state
from service.store.capabilities import Store
from service.store.values import DamagedSnapshotError


def keeps_state(before: Model, after: Model) -> bool:
    """Check whether a change leaves the state as it is, given the model before and after the change."""
    return after.new_state is None and len(after.definition.labels) == len(before.definition.labels)


async def state_after(store: Store, compute: Compute, before: Model, after: Model, state: State) -> State:
    """Return the state with which a model continues after a change, without modifying `state`.

    Args:
        store: contains the kept snapshots of the model.
        compute: runs long computations.
        before: the model before the change.
        after: the model after it.
        state: the state before the change.

    Raises:
        ModelNotFoundError: if this incarnation of the model is gone.
        NewerVersionError: if a newer version wrote the kept snapshot.
        StoreCorruptError: if the kept snapshot is damaged or missing.
    """
    if isinstance(after.new_state, FromSnapshot):
        return await kept_state(store, compute, after, after.new_state.snapshot)
    cost = state_bytes(after.learner) if after.new_state is None else costs.FIRST_CALL
    return await compute.run_in_thread_if_costly(cost, after.name, continued, before, after, state)


def continued(before: Model, after: Model, state: State) -> State:
    """Return the state with which a model continues after a change that does not load a kept snapshot.

    Args:
        before: the model before the change.
        after: the model after it.
        state: the state before the change. It is not modified; a reset does not read it.
    """
    if after.new_state is not None:
        return after.learner.init()
    return with_more_labels(before.learner, after.learner, state)


async def kept_state(store: Store, compute: Compute, model: Model, id_: str) -> State:
    """Return the state of the kept snapshot with this id, extended by the labels added since.

    Raises:
        ModelNotFoundError: if this incarnation of the model is gone.
        NewerVersionError: if a newer version wrote the snapshot.
        StoreCorruptError: if the snapshot is damaged or missing.
    """
    try:
        snapshot = await store.load_kept(model.key, id_)
        if snapshot is None:
            raise InvalidStateError("it is missing")
        then = await model_after(store, compute, model, snapshot.change_count, snapshot.digest)
        learner = build_learner(model.definition.model_copy(update={"labels": then.definition.labels}))
        return await compute.run_in_thread_if_costly(
            costs.FIRST_CALL, model.name, _read, learner, model.learner, snapshot.state
        )
    except (InvalidStateError, DamagedSnapshotError) as error:
        detail = f"the kept snapshot {id_!r} of model {model.name!r} cannot be read: {error}"
        raise StoreCorruptError(detail) from error


def _read(learner: AnyLearner, larger: AnyLearner, state: bytes | memoryview) -> Any:
    found = read_state(learner, state)
    return found if learner == larger else with_more_labels(learner, larger, found)
