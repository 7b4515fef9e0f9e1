"""What every group of store commands needs."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any

from service.store.connections.connections import Connection
from service.store.connections.replication import Confirmed
from service.store.scripts import Script, script

_ENLIST = script("enlist")


class Commands(ABC):
    """Sends commands and scripts. `service.store.redis.redis_store.RedisStore` joins all groups."""

    _connection: Connection
    _bulk: Connection  # for large values
    _confirmed: Confirmed  # waits for replicas

    @abstractmethod
    def _call(self, *command: Any, connection: Connection | Confirmed | None = None) -> Awaitable[Any]:
        """Send one command."""

    @abstractmethod
    async def _run(
        self,
        script: Script,
        named: Sequence[str],
        args: Sequence[Any],
        connection: Connection | Confirmed | None = None,
    ) -> Any:
        """Run a script on some keys."""

    async def _enlist(self, listed: str, *args: Any) -> None:
        """Change a list of models like ZADD, also beyond the store's memory limit."""
        await self._run(_ENLIST, [listed], args)
