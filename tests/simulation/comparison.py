"""`python -m tests.simulation.comparison URL`: compare the simulated server with a real one.

Runs a simulation without faults, then sends the same commands to the real server, in the same order.
"""

import logging
import sys
from typing import Any

import redis

from service.store.redis.redis_store import _CLAIM_DUE, _DELETE_MODEL
from tests.simulation.event_loop import Clock
from tests.simulation.models import CHANGED, FLAG, MODELS
from tests.simulation.redis_server import RedisServer
from tests.simulation.world import World

_STEPS, _SEED = 15_000, 5
_OF_CLOCK = {*_CLAIM_DUE, *_DELETE_MODEL}
"""The scripts whose replies depend on the server's clock."""

_MOMENTS = (b"at", b":promotion:at")
"""The fields, of a snapshot and of a promotion, that have the moment of the server's clock."""


class _NotingServer(RedisServer):
    """Notes commands and replies."""

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(lambda: self.clock.now)
        self.noted: list[tuple[tuple[Any, ...], Any]] = []

    def call(self, *command: Any) -> Any:
        """See `RedisServer.call`."""
        reply = super().call(*command)
        self.noted.append((command, reply))
        return reply


def simulated() -> list[tuple[tuple[Any, ...], Any]]:
    """Return the commands of a simulation, and their replies."""
    server = _NotingServer()
    never_closes = {**MODELS[CHANGED], "on_expiry": "drop", "budget": None}
    world = World(_SEED, [], models={CHANGED: never_closes, FLAG: MODELS[FLAG]}, clock=server.clock, server=server)
    world.run(_STEPS)
    world.close()
    return server.noted


def differences(url: str) -> tuple[int, list[str]]:
    """Return the number of commands, and those that a real server answers in another way. Empties that server."""
    client = redis.Redis.from_url(url, protocol=2)
    client.flushall()
    connection: Any = client.connection_pool.get_connection()
    found = list[str]()
    compared = simulated()
    for command, expected in compared:
        connection.send_command(*command)
        try:
            reply = connection.read_response()
        except redis.ResponseError as error:
            reply = error
        if _plain(command, reply) != _plain(command, expected):
            found.append(f"{command[:2]}: {reply!r:.200}, simulated {expected!r:.200}")
    return len(compared), found


def _plain(command: tuple[Any, ...], reply: Any) -> Any:
    """Return a reply without what may differ."""
    if isinstance(reply, Exception):
        return type(reply)
    if command[0] == "SCAN" or (len(command) > 1 and command[1] in _OF_CLOCK):  # servers have other pages
        return None
    if command[0] == "HGETALL":
        fields = dict(zip(reply[::2], reply[1::2], strict=True))
        return {name: value for name, value in fields.items() if name not in _MOMENTS}
    return reply


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    n, different = differences(sys.argv[1])
    sys.stdout.write("\n".join([*different, f"{len(different)} of {n} replies differ", ""]))
    sys.exit(bool(different))
