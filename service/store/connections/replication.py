"""What is acknowledged only when replicas have it too, so that it outlives the primary.

WAIT counts the replicas that have what its own connection wrote last, so it goes with the command, on one connection.
Feedback may wait so because it writes each time: a duplicate is counted. A command that wrote nothing would wait for
nothing.
"""

from typing import Any

from service.errors import StoreUnavailableError
from service.store.base import StoreReadiness
from service.store.connections.connections import Call, Connection


class Confirmed:
    """A way to send commands that answers when replicas have what a command wrote; as it is where none are asked for.

    Args:
        connection: sends the commands; whoever made it closes it.
        replicas: how many must have it.
        seconds: the longest wait for them.
    """

    def __init__(self, connection: Connection, replicas: int, seconds: float) -> None:
        self._connection = connection
        self._replicas = replicas
        self._seconds = seconds

    async def call(self, *command: Any) -> Any:
        """Sends one command; brings its reply.

        Raises:
            StoreUnavailableError: if too few replicas have what it wrote, which may be repeated.
        """
        if not self._replicas:
            return await self._connection.call(*command)
        reply, replicas = await self._connection.call_and_wait(self._replicas, self._seconds, *command)
        if replicas < self._replicas:
            detail = f"written, but to {replicas} of {self._replicas} replicas within {self._seconds:g} s"
            raise StoreUnavailableError(f"{detail}: it may be lost with the primary")
        return reply

    @property
    def way(self) -> Call | None:
        """The way that waits for replicas; None where none are asked for."""
        return self.call if self._replicas else None

    def promised(self, readiness: StoreReadiness) -> StoreReadiness:
        """The facts, with what this adds to them."""
        if not self._replicas:
            return readiness
        servers = "1 other server has" if self._replicas == 1 else f"{self._replicas} other servers have"
        return readiness._replace(persistence=f"{readiness.persistence}; {servers} it, too")
