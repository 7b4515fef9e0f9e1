"""Folds the shadows of every model, whether or not this worker has loaded the model.

The store reserves each model for one worker at a time. A visit starts from the stored snapshots and ends by writing new
ones, so any worker can continue. If a worker dies, another worker repeats the unfinished visit.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, TypeVarTuple

from learners.warming import SHADOWS
from service import kernels
from service.background.due_models import DueModels
from service.compute import Compute
from service.environment import Environment
from service.errors import (
    ModelNotFoundError,
    NewerVersionError,
    ShadowNotFoundError,
    StoreFullError,
    StoreUnavailableError,
    WagerError,
)
from service.models.model import Model
from service.shadows.replica import ShadowReplica
from service.store.stored_models import ModelKey, StoredModel
from service.store.values import Due, StoredShadow

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_LONGEST_REST = 1.0
"""Maximum seconds of rest. Usually, only a computation that compiles a kernel would need a longer one."""


class RestingCompute(Compute):
    """Runs one computation at a time in the threads of another pool, and rests after each for as long as it took.

    Each worker's background computations therefore use at most about half of one core.

    Args:
        compute: the other pool.
        monotonic: returns monotonic seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        compute: Compute,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(2)  # starts no threads: `run` uses those of `compute`
        self._threads_of = compute
        self._monotonic = monotonic
        self._sleep = sleep
        self._turn = asyncio.Lock()

    async def run(self, owner: str, function: Callable[[*_Args], _T], *args: *_Args) -> _T:
        async with self._turn:
            begin = self._monotonic()
            try:
                return await self._threads_of.run(owner, function, *args)
            finally:
                await self._sleep(min(self._monotonic() - begin, _LONGEST_REST))


_log = logging.getLogger(__name__)

VISIT_SECONDS = 2.0
"""Seconds after which a fold pauses: its snapshot is written, and other models get a turn."""

_PAUSE_SECONDS = 1.0
_BYTES_PER_SECOND = 2_000_000
"""Snapshot bytes per additional second of pause, because each visit reads and writes the whole snapshot."""

_RETRY_SECONDS = 60.0
"""Seconds until the next visit to a model if the folds of all its lagging shadows failed."""


def shadow_folds(environment: Environment) -> DueModels:
    """Return the object that folds shadows. If a visit outlasts its lease, the store keeps the newest snapshot."""
    work = "folding the shadows"
    return DueModels(environment, Due.SHADOWS, work, _ShadowFolds(environment).visit, at_once=4, lease=10.0)


class _ShadowFolds:
    def __init__(self, environment: Environment) -> None:
        self._store = environment.store
        self._models = environment.models
        self._compute = RestingCompute(environment.compute, environment.monotonic)
        self._offset = environment.store_offset
        self._monotonic = environment.monotonic

    async def visit(self, key: ModelKey) -> bool:
        """Fold the shadows of a model, and schedule its next visit; return False, as `DueModels` asks."""
        stored = await self._store.get_model(key.name)
        shadows = [] if stored is None or stored.key != key else await self._store.read_shadows(key)
        if stored is None or not shadows:
            await self._store.unwatch(Due.SHADOWS, key)
            return False
        pause = await self._fold_all(stored, shadows)
        await self._store.put_off(Due.SHADOWS, key, self._offset(), pause)
        return False

    async def _fold_all(self, stored: StoredModel, shadows: Sequence[StoredShadow]) -> float:
        """Fold each shadow that lags; return the seconds until the next visit."""
        lagging = [each for each in shadows if each.rounds is None or each.rounds < stored.round_count]
        if not lagging:
            return _PAUSE_SECONDS
        model = await self._models.read(stored)
        pauses, newer = list[float | None](), list[NewerVersionError]()
        for shadow in lagging:
            try:
                pauses.append(await self._fold(model, shadow))
            except NewerVersionError as error:
                newer.append(error)
        if newer:
            raise newer[0]
        return max((pause for pause in pauses if pause is not None), default=_RETRY_SECONDS)

    async def _fold(self, model: Model, shadow: StoredShadow) -> float | None:
        """Fold a shadow for up to `VISIT_SECONDS`; return the seconds until its next visit, or None if it fails."""
        ends_at = self._monotonic() + VISIT_SECONDS
        try:
            replica = ShadowReplica(model, self._store, self._compute, shadow)
            if not kernels.are_ready(replica.model, SHADOWS):
                return None
            is_done = await replica.advance(lambda: self._monotonic() < ends_at)
            await replica.snapshot()
        except ShadowNotFoundError:  # removed or replaced: the next visit reads the shadows again
            return 0.0
        except (ModelNotFoundError, StoreUnavailableError, StoreFullError, NewerVersionError):
            raise
        except WagerError as error:  # this shadow must not stop the others
            _log.warning("shadow %s of model %s: %s", shadow.name, model.name, error.detail)
            return None
        return _PAUSE_SECONDS + replica.bytes / _BYTES_PER_SECOND if is_done else 0.0
