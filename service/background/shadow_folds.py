"""Folds the shadows of every model, whether or not this worker has loaded the model.

The store reserves each model for one worker at a time. A visit starts from the stored snapshots and ends by writing new
ones, so any worker can continue, and a worker that dies costs only a repetition.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from service.compute import Compute
from service.environment import Environment
from service.errors import (
    ModelNotFoundError,
    ShadowNotFoundError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    WagerError,
)
from service.models.model import Model
from service.shadows.replica import ShadowReplica
from service.store.base import StoredShadow
from service.store.stored_models import ModelKey, StoredModel

_T = TypeVar("_T")

_LONGEST_REST = 1.0
"""Seconds. A computation that compiles a kernel takes longer, once."""


class RestingCompute(Compute):
    """Runs one computation at a time in the threads of another pool, and rests as long as each one took.

    Computations in the background therefore take at most half of one core of each worker.

    Args:
        compute: the threads.
        monotonic: returns seconds.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        compute: Compute,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(2)  # starts no thread: `run` uses those of `compute`
        self._threads_of = compute
        self._monotonic = monotonic
        self._sleep = sleep
        self._turn = asyncio.Lock()

    async def run(self, owner: str, function: Callable[..., _T], *args: Any) -> _T:
        """See `Compute.run`."""
        async with self._turn:
            begin = self._monotonic()
            try:
                return await self._threads_of.run(owner, function, *args)
            finally:
                await self._sleep(min(self._monotonic() - begin, _LONGEST_REST))


_log = logging.getLogger(__name__)

_MODELS_AT_ONCE = 4
"""Models visited concurrently."""

VISIT_SECONDS = 2.0
"""Seconds after which a fold pauses: its snapshot is written, and other models get a turn."""

_LEASE_SECONDS = 10.0
"""Seconds for which a claimed model is left to one worker. If it takes longer, two workers fold the same rounds, and
the snapshot that has more of them is kept."""

_PAUSE_SECONDS = 1.0
_BYTES_PER_SECOND = 2_000_000
"""A visit reads and writes each snapshot, so shadows with a large state rest longer between visits."""

_RETRY_SECONDS = 60.0
"""Seconds after which to try again to fold the shadows of a model that cannot be read."""


class Shadowing:
    """Folds shadows.

    Args:
        environment: provides the store, the offset of its clock, and worker threads.
    """

    def __init__(self, environment: Environment) -> None:
        self._store = environment.store
        self._models = environment.models
        self._compute = RestingCompute(environment.compute, environment.monotonic)
        self._offset = environment.store_offset
        self._monotonic = environment.monotonic

    async def run(self) -> None:
        """Fold the shadows that are due; log errors."""
        try:
            while due := await self._store.claim_shadows(self._offset(), _MODELS_AT_ONCE, _LEASE_SECONDS):
                await asyncio.gather(*map(self._visit, due))
        except StoreError as error:  # the next run repeats it
            _log.warning("folding shadows: %s", error.detail)

    async def _visit(self, key: ModelKey) -> None:
        """Fold the shadows of a model, and let it be due again."""
        try:
            stored = await self._store.get_model(key.name)
            shadows = [] if stored is None or stored.key != key else await self._store.read_shadows(key)
            if stored is None or not shadows:
                await self._store.unwatch_shadows(key)
                return
            pause = await self._fold_all(stored, shadows)
        except (StoreUnavailableError, StoreFullError):
            raise
        except ModelNotFoundError:  # deleted since; the next visit removes it from the list
            return
        except WagerError as error:  # this model must not stop the others
            _log.warning("folding the shadows of model %s: %s", key.name, error.detail)
            pause = _RETRY_SECONDS
        await self._store.put_off_shadows(key, self._offset(), pause)

    async def _fold_all(self, stored: StoredModel, shadows: Sequence[StoredShadow]) -> float:
        """Fold each shadow that lags; return the seconds until the next visit."""
        lagging = [each for each in shadows if each.rounds is None or each.rounds < stored.round_count]
        if not lagging:
            return _PAUSE_SECONDS
        model = await self._models.read(stored)
        pauses = [await self._fold(model, shadow) for shadow in lagging]
        return max(pauses)

    async def _fold(self, model: Model, shadow: StoredShadow) -> float:
        """Fold a shadow for a while; return the seconds until it needs the next visit."""
        ends_at = self._monotonic() + VISIT_SECONDS
        try:
            replica = ShadowReplica(model, self._store, self._compute, shadow)
            is_done = await replica.advance(lambda: self._monotonic() < ends_at)
            await replica.snapshot()
        except ShadowNotFoundError:
            return 0.0
        except (ModelNotFoundError, StoreUnavailableError, StoreFullError):
            raise
        except WagerError as error:  # this shadow must not stop the others
            _log.warning("shadow %s of model %s: %s", shadow.name, model.name, error.detail)
            return _RETRY_SECONDS
        return _PAUSE_SECONDS + replica.bytes / _BYTES_PER_SECOND if is_done else 0.0
