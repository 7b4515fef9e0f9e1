"""Promotion: a logged change after which a model continues with the learner and the state of a shadow."""

import json
from collections.abc import Callable, Collection

from service import costs
from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import (
    ShadowLagsError,
    ShadowNotFoundError,
    SnapshotNotFoundError,
    StoreUnavailableError,
    TooManySnapshotsError,
)
from service.lifecycle.snapshots import last_uses
from service.models.changes import Change, FromSnapshot, Promotion, read_change
from service.models.learner_choice import hyperparameters
from service.models.model import Limits, Model
from service.models.reading import reading_cost
from service.registry.changing import changed_model, is_current, is_previous, is_repeated, stale, write_change
from service.registry.descriptions import Described
from service.registry.registry import ModelRegistry, make_change
from service.shadows.definition import read_definition
from service.shadows.replica import ShadowReplica
from service.store.stored_models import DIGEST_BYTES, StoredModel
from service.store.values import MOST_KEPT, Keeping, KeptNote, StoredShadow

_ATTEMPTS = 20  # attempts to keep a snapshot of the shadow while the log changes
# The maximum rounds that a shadow to promote may lag. The request waits until they are folded, and so does each worker
# later.
MOST_LAG = 10_000


class Promoting:
    """Promotes shadows."""

    def __init__(self, environment: Environment, limits: Limits, registry: ModelRegistry) -> None:
        self._environment, self._store = environment, environment.store
        self._limits, self._registry = limits, registry

    async def promote(self, name: str, shadow: str, versions: Collection[str], by: str | None) -> Described:
        """Replace a model's learner and state with a shadow's, and remove the shadow; return the model's description.

        The new state includes every round before the change. It is folded from a snapshot of the shadow, which is kept.
        Open predictions still accept feedback. `versions` are the versions of the model that the caller accepts as the
        current one.
        """
        await make_change(self._store, name, lambda stored: self._promote(stored, shadow, versions, by))
        return await self._registry.get(name)

    async def _promote(self, stored: StoredModel, name: str, versions: Collection[str], by: str | None) -> bool:
        shadow = next((each for each in await self._store.read_shadows(stored.key) if each.name == name), None)
        asked = Change(promotion=Promotion(shadow=name, replaces={}), at=self._environment.now(), by=by)
        if is_repeated(stored, asked) and (shadow is None or is_previous(stored, versions)):
            await self._end(stored, shadow)
            return True
        if not is_current(stored, versions):
            raise stale(stored)
        if shadow is None:
            raise ShadowNotFoundError(f"the model has no shadow {quoted(name)}", "shadow")
        model = await self._environment.models.read(stored)
        check_lag(model, shadow, stored.round_count)
        state = FromSnapshot(snapshot=self._environment.new_id(), then_folds=True)
        promotion = Promotion(shadow=name, replaces=hyperparameters(model.learner))
        learner = read_definition(shadow).learner
        change = asked.model_copy(update={"state": state, "learner": learner, "promotion": promotion})
        changed = await changed_model(self._environment.compute, stored, model, change, self._limits)
        await self._drop_unused(stored)
        if not await self._keep(model, shadow, change):
            return False
        try:
            done = await write_change(self._store, stored, model, changed, change)
        except SnapshotNotFoundError:  # a concurrent promotion has dropped the snapshot
            return False
        if done:
            await self._store.drop_shadow(stored.key, name)
        return done

    async def _drop_unused(self, stored: StoredModel) -> None:
        """Drop the snapshots from which no change continues because their promotions were cut short."""
        run, cost = self._environment.compute.run_in_thread_if_costly, reading_cost(stored)
        used = await run(cost, stored.key.name, last_uses, stored)
        for note in await self._store.list_kept(stored.key):
            if note.learner and note.id not in used:
                await self._store.drop_kept(stored.key, note.id, stored.digests[-DIGEST_BYTES:], 0)

    async def _end(self, stored: StoredModel, shadow: StoredShadow | None) -> None:
        """Remove the promoted shadow if the first request did not; keep a shadow added since under the same name."""
        promoted_at = read_change(stored.history[-1]).at
        if shadow is not None and read_definition(shadow).at <= promoted_at:
            await self._store.drop_shadow(stored.key, shadow.name)

    async def _keep(self, model: Model, shadow: StoredShadow, change: Change) -> bool:
        """Keep a snapshot of the shadow, and the rounds after it; return False if `model` has changed since."""
        for _ in range(_ATTEMPTS):
            replica = ShadowReplica(model, self._store, self._environment.compute, shadow)
            if not await replica.advance(within(replica, model, shadow)):
                detail = f"the shadow {quoted(shadow.name)} lost its snapshot, or rounds arrive too fast; try again"
                raise ShadowLagsError(detail, "shadow")
            snapshot = await replica.current()
            if snapshot.digest != model.digest:
                return False
            await self._store.hold_rounds(model.key, snapshot.round_count, model.change_count + 1)
            note = self._note(shadow, change, snapshot.round_count, snapshot.change_count, len(snapshot.state))
            kept = await self._store.keep_snapshot(model.key, note, snapshot)
            if kept in (Keeping.DONE, Keeping.THERE):
                return True
            if kept is Keeping.FULL:
                detail = f"the model has {MOST_KEPT} snapshots, the most that it may have; delete one"
                raise TooManySnapshotsError(detail)
        raise StoreUnavailableError(f"the log of model {quoted(model.name)} changes too fast; try again")

    def _note(self, shadow: StoredShadow, change: Change, rounds: int, changes: int, size: int) -> KeptNote:
        assert isinstance(change.state, FromSnapshot)
        text, now = f"the shadow {shadow.name}, when it was promoted", self._environment.now()
        learner = json.dumps(change.learner, separators=(",", ":"))
        return KeptNote(change.state.snapshot, rounds, changes, now, change.by, text, size, learner)


def check_lag(model: Model, shadow: StoredShadow, round_count: int) -> None:
    """Raise `ShadowLagsError` if a promotion would fold too many rounds, or rounds that cost too much."""
    lag, most = round_count - shadow.folded, _most_lag(model, shadow)
    if lag > most:
        detail = (
            f"the shadow {quoted(shadow.name)} lags by {lag} rounds; a promotion folds at most {most} rounds with its "
            "learner. Repeat the request when the lag is smaller"
        )
        raise ShadowLagsError(detail, "shadow")


def within(replica: ShadowReplica, model: Model, shadow: StoredShadow) -> Callable[[], bool]:
    """Return a function that checks whether the shadow's replica should continue to fold.

    Rounds may arrive faster than the replica folds them, so it should stop after twice the allowed lag. It should also
    stop if it had to restart.
    """
    end = shadow.folded + 2 * _most_lag(model, shadow)
    return lambda: replica.round_count < end and replica.shadow.restarts == shadow.restarts


def _most_lag(model: Model, shadow: StoredShadow) -> int:
    learner = model.shadowed_by(read_definition(shadow).choice).learner
    nonzeros = min(learner.problem.n_features, costs.TYPICAL_NONZEROS)
    cost = learner.decide_cost(nonzeros) + learner.fold_cost(nonzeros)
    return max(1, min(MOST_LAG, costs.PROMOTION // max(cost, 1)))
