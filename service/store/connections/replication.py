"""Acknowledges writes only after replicas have them, so that they survive the loss of the primary.

WAIT counts the replicas that have the last write of the same connection, so it is sent with the command on one
connection. This works for feedback because every feedback writes: even a duplicate is counted. After a command without
writes, WAIT would not confirm anything.
"""

from collections.abc import Awaitable
from typing import Any

from service.errors import StoreUnavailableError
from service.store.base import StoreReadiness
from service.store.connections.connections import Call, Connection


class Confirmed:
    """Sends commands and returns once replicas have their writes; with 0 replicas, returns without waiting.

    Args:
        connection: sends the commands. Its creator closes it.
        replicas: number of replicas that must have a write.
        seconds: maximum wait for the replicas.
    """

    def __init__(self, connection: Connection, replicas: int, seconds: float) -> None:
        self._connection = connection
        self._replicas = replicas
        self._seconds = seconds

    def call(self, *command: Any) -> Awaitable[Any]:
        """Send one command; return its reply.

        Raises:
            StoreUnavailableError: if too few replicas have its writes. The command may be repeated.
        """
        return self._call_and_wait(*command) if self._replicas else self._connection.call(*command)

    async def _call_and_wait(self, *command: Any) -> Any:
        reply, replicas = await self._connection.call_and_wait(self._replicas, self._seconds, *command)
        if replicas < self._replicas:
            detail = f"written, but only to {replicas} of {self._replicas} replicas within {self._seconds:g} s"
            raise StoreUnavailableError(f"{detail}: the write may be lost with the primary")
        return reply

    @property
    def way(self) -> Call | None:
        """The call that waits for replicas; None if no replicas are required."""
        return self.call if self._replicas else None

    def promised(self, readiness: StoreReadiness) -> StoreReadiness:
        """Add the required replicas to a store's readiness."""
        if not self._replicas:
            return readiness
        servers = "1 other server has" if self._replicas == 1 else f"{self._replicas} other servers have"
        return readiness._replace(persistence=f"{readiness.persistence}; {servers} it as well")
