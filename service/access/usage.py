"""What API keys use of their budgets, and the refusal of those that have used one up.

The store counts requests and models, exactly, for all workers. A worker counts processor time itself, tells the store
once a second, and then also reads how many bytes the open predictions of the key's models have. So a key may exceed
these two budgets, by what all workers do for it within about a second.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from service.access.keys import Caller, Scope
from service.errors import ComputeSpentError, OpenBytesSpentError, StoreError
from service.store.access_tables import MINUTE, MOST_AHEAD, UsageCounter
from service.store.capabilities import ModelTable

_log = logging.getLogger(__name__)

_KEPT_SECONDS = 60.0  # for which a worker follows a key after its last request
_AHEAD_SECONDS = 3.0  # by which a key may be ahead of its even pace, so that it never occupies the workers for long


class _Use:
    """What a worker knows about one key."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.asked_at = 0.0  # of the last request, on the monotonic clock
        self.unreported = 0.0  # seconds of processor time that the store does not know
        self.refused = 0  # requests, since the last one within the pace
        # When the pace makes up for what all workers have reported, on the monotonic clock; None until the store tells.
        self.within_at: float | None = None
        self.open_bytes: int | None = None  # None until the store tells

    def ahead(self, budget: float, now: float) -> float:
        """Return the seconds that the pace needs for the processor time that this worker knows of."""
        reported = 0.0 if self.within_at is None else max(self.within_at - now, 0.0)
        return reported + self.unreported / budget * MINUTE


class UsageMeter:
    """Follows the keys with budgets that ask one worker.

    Args:
        models: the models of all keys.
        counter: counts the usage of all workers.
        now: returns seconds on a monotonic clock.
        note: gets the id of a key and the processor time that it has used since the last call, in seconds.
    """

    def __init__(
        self,
        models: ModelTable,
        counter: UsageCounter,
        now: Callable[[], float],
        note: Callable[[str, float], None],
    ) -> None:
        self._models, self._counter, self._now, self._note = models, counter, now, note
        self._uses: dict[str, _Use] = {}

    async def check(self, caller: Caller, scope: Scope | None) -> None:
        """Raise `ComputeSpentError` or, before predictions, `OpenBytesSpentError` if a budget is used up.

        A request that needs no scope may always ask what the key has used.
        """
        budgets = caller.budgets
        use = self._uses.setdefault(caller.key_id, _Use(caller))
        use.caller, use.asked_at = caller, self._now()
        if scope is not None and budgets.compute_seconds is not None:
            await self._check_compute(use, budgets.compute_seconds)
        if scope == "predict" and budgets.open_bytes is not None:
            if use.open_bytes is None:
                use.open_bytes = await self._open_bytes(caller)
            self.check_open_bytes(caller)

    async def _check_compute(self, use: _Use, budget: float) -> None:
        if use.within_at is None:
            use.within_at = self._now() + await self._counter.spend(use.caller.key_id, 0.0, budget)
        wait = use.ahead(budget, self._now()) - _AHEAD_SECONDS
        if wait <= 0.0:
            use.refused = 0
            return
        # Clients that wait come one after another: together, their requests would delay those of other keys.
        later = use.refused * min(wait, _AHEAD_SECONDS) % MINUTE
        use.refused += 1
        detail = f"the API key may use {budget:g} s of processor time a minute, at an even pace"
        raise ComputeSpentError(detail, retry_after=math.ceil(min(wait + later, MOST_AHEAD)))

    def check_open_bytes(self, caller: Caller) -> None:
        """Raise `OpenBytesSpentError` if the open predictions of a key's models have too many bytes.

        A body may arrive long after its head, so this is checked after the body, too.
        """
        most, use = caller.budgets.open_bytes, self._uses.get(caller.key_id)
        if most is not None and use is not None and (use.open_bytes or 0) > most:
            detail = f"the open predictions of the API key's models have more than {most:,} bytes"
            raise OpenBytesSpentError(f"{detail}; feedback and expiry make room")

    def charge(self, caller: Caller, seconds: float) -> None:
        """Count processor time that a request of a key has used."""
        self._uses.setdefault(caller.key_id, _Use(caller)).unreported += seconds

    async def run(self) -> None:
        """Exchange what all keys have used with the store. Errors of the store are only logged."""
        self._uses = {
            key_id: use
            for key_id, use in self._uses.items()
            if use.unreported or self._now() < use.asked_at + _KEPT_SECONDS
        }
        # All end before the next run, which would report the same seconds again. Unexpected errors come first.
        ended = await asyncio.gather(*map(self._exchange, self._uses.values()), return_exceptions=True)
        for error in sorted(filter(None, ended), key=lambda each: isinstance(each, StoreError)):
            if not isinstance(error, StoreError):
                raise error
            _log.warning("counting what API keys use: %s", error.detail)
            return

    async def _exchange(self, use: _Use) -> None:
        caller = use.caller
        if (budget := caller.budgets.compute_seconds) is not None:
            seconds, now, use.unreported = use.unreported, self._now(), 0.0
            self._note(caller.key_id, seconds)
            # What the store misses binds in this worker, at the same pace.
            use.within_at = max(use.within_at or 0.0, now) + min(seconds / budget * MINUTE, MOST_AHEAD)
            ahead = await self._counter.spend(caller.key_id, seconds, budget)
            use.within_at = max(use.within_at, self._now() + ahead)
        if caller.budgets.open_bytes is not None:
            use.open_bytes = await self._open_bytes(caller)

    async def used(self, caller: Caller) -> dict[str, float]:
        """Return what a key has used of each of its budgets but that of requests, by the names of the budgets."""
        used, budgets = dict[str, float](), caller.budgets
        if budgets.models is not None:
            used["models"] = len(await self._names(caller))
        if budgets.open_bytes is not None:
            used["open_bytes"] = await self._open_bytes(caller)
        if budgets.compute_seconds is not None:
            ahead = await self._counter.spend(caller.key_id, 0.0, budgets.compute_seconds)
            used["compute_seconds"] = ahead / MINUTE * budgets.compute_seconds
        return used

    async def _open_bytes(self, caller: Caller) -> int:
        """Return the bytes of the open predictions of all models that a key allows, as of the last second."""
        if (noted := await self._counter.open_bytes(caller.key_id)) is not None:
            return noted
        sum_ = await self._models.sum_open_bytes(await self._names(caller))
        sum_ += await self._models.sum_deleted_bytes(lambda name: name in caller.names)
        await self._counter.note_open_bytes(caller.key_id, sum_)
        return sum_

    async def _names(self, caller: Caller) -> list[str]:
        return [name for name in await self._models.list_names(-1, caller.names.prefix) if name in caller.names]
