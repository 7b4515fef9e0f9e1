"""Computation in the background that leaves most of the processor to requests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from service.compute import Compute

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
