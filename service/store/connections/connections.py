"""Clients of the servers behind a store's URL. None of them sends a write twice."""

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import hiredis
from redis import exceptions
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.crc import key_slot

from service.store import keys
from service.store.connections.addresses import Kind, StoreAddress, TlsFiles, User, parse_store_url
from service.store.connections.pipeline import Pipeline

Call = Callable[..., Awaitable[Any]]
"""Sends one command, its parts as arguments; brings the reply."""


class Primary(NamedTuple):
    """A server that takes writes."""

    call: Call
    probe: str | None  # a key that it has and nothing else uses; None where it has no keys, as when it is new


class Connection(Protocol):
    """A way to send commands, with as many connections of the network as it takes.

    Attributes:
        kind: how the servers hang together.
    """

    kind: Kind

    async def call(self, *command: Any) -> Any:
        """Sends one command, to the server that has its keys."""

    async def call_and_wait(self, replicas: int, seconds: float, *command: Any) -> tuple[Any, int]:
        """As `call`, then waits until so many replicas have what it wrote; the reply, and how many have it."""

    async def primaries(self) -> list[Primary]:
        """Each server that takes writes."""

    async def close(self) -> None:
        """Closes everything."""


def connect(url: str, timeout: float, tls: TlsFiles, patience: float = 1.0) -> Connection:
    """A connection that is opened when it is first used.

    Args:
        url: as `parse_store_url` takes it.
        timeout: seconds to wait for a connection, and for a sign of life of the machine at its other end.
        tls: the files, where the URL asks for TLS.
        patience: times the timeout to wait for each reply.
    """
    address = parse_store_url(url)
    options = {"socket_timeout": timeout * patience, "socket_connect_timeout": timeout, **_tls_options(address, tls)}
    if address.kind is Kind.CLUSTER:
        return _Cluster(address, options)
    if address.kind is Kind.SENTINEL:
        return _SentinelConnection(address, options)
    return _Server(address, options)


class _Packing:
    """Makes a connection write commands by hiredis, as redis-py's blocking client does; Python is slow at it."""

    def pack_command(self, *command: Any) -> list[bytes]:
        """The bytes of a command."""
        return [hiredis.pack_command(command)]


class _OneServer:
    """One server that takes the writes.

    Args:
        kind: how it is found.
        redis: its client.
    """

    def __init__(self, kind: Kind, redis: Redis) -> None:
        self.kind = kind
        self._redis = redis
        pool = redis.connection_pool
        pool.connection_class = type("PackingConnection", (_Packing, pool.connection_class), {})

    async def call(self, *command: Any) -> Any:
        return await self._redis.execute_command(*command)  # type: ignore[no-untyped-call]

    async def call_and_wait(self, replicas: int, seconds: float, *command: Any) -> tuple[Any, int]:
        """On one connection, and not on a line: a server that waits leaves alone what comes after."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.execute_command(*command)
        pipeline.execute_command("WAIT", replicas, round(seconds * 1000))
        reply, confirmed = await pipeline.execute(raise_on_error=False)
        for each in (reply, confirmed):
            if isinstance(each, Exception):
                raise each
        return reply, confirmed

    async def primaries(self) -> list[Primary]:
        return [Primary(self.call, keys.probe(""))]

    async def close(self) -> None:
        await self._redis.aclose()


class _Server(_OneServer):
    """The server of an address: scripts, which are nearly all there is to do, go by a line of their own."""

    def __init__(self, address: StoreAddress, options: dict[str, Any]) -> None:
        where = {"unix_socket_path": address.path} if address.path else address.nodes[0]._asdict()
        super().__init__(address.kind, Redis(**where, **options, **_login(address.user), db=address.db, retry=_never()))
        self._line = Pipeline(address, options["socket_timeout"], options, options["socket_connect_timeout"])

    async def call(self, *command: Any) -> Any:
        if command[0] == "EVALSHA":
            return await self._line.call(*command)
        return await super().call(*command)

    async def close(self) -> None:
        await self._line.close()
        await super().close()


class _Sentinel(Sentinel):
    """Asks one question at a time: two at once may lose a Sentinel from the list that both of them reorder."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._turn = asyncio.Lock()

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """See `Sentinel.discover_master`; where it fails, the error tells why, and not how the clients are set up."""
        try:
            async with self._turn:
                found: tuple[str, int] = await super().discover_master(service_name)
                return found
        except MasterNotFoundError:
            answers = await asyncio.gather(*(each.ping() for each in self.sentinels), return_exceptions=True)
            reasons = "; ".join(str(each) for each in answers if isinstance(each, Exception))
            raise MasterNotFoundError(
                f"no Sentinel names a primary for {service_name!r}: {reasons or 'unknown to them'}"
            ) from None


class _SentinelConnection(_OneServer):
    """The one of several servers that Sentinel says takes the writes; asked anew for each connection."""

    def __init__(self, address: StoreAddress, options: dict[str, Any]) -> None:
        sentinel_options = {**options, **_login(address.sentinel_user), "retry": _never()}
        self._sentinel = _Sentinel([tuple(node) for node in address.nodes], sentinel_kwargs=sentinel_options)
        server_options = {**options, **_login(address.user), "db": address.db, "retry": _never()}
        super().__init__(address.kind, self._sentinel.master_for(address.service, **server_options))

    async def close(self) -> None:
        await super().close()
        await self._sentinel.aclose()


class _Cluster:
    """The servers of a cluster, each with its part of the keys.

    Follows MOVED, ASK and TRYAGAIN, which a server answers instead of running a command; and nothing else.
    """

    def __init__(self, address: StoreAddress, options: dict[str, Any]) -> None:
        self.kind = address.kind
        self._redis = RedisCluster(
            startup_nodes=[ClusterNode(*node) for node in address.nodes],
            reinitialize_steps=0,  # a MOVED changes one slot; a refresh of them all would cut what is in flight
            retry=_never(),
            **_login(address.user),
            **_signs_of_life(options["socket_connect_timeout"]),
            **options,
        )

    async def call(self, *command: Any) -> Any:
        try:
            return await self._redis.execute_command(*command)
        # Of a connection that another command has just closed, uvloop raises one, and redis-py the other.
        except (RuntimeError, AttributeError) as error:
            raise exceptions.ConnectionError(str(error)) from error

    async def call_and_wait(self, replicas: int, seconds: float, *command: Any) -> tuple[Any, int]:
        raise NotImplementedError("the client of a cluster does not say on which connection it sends a command")

    async def primaries(self) -> list[Primary]:
        await self._redis.initialize()
        own: dict[str, int] = {}  # of each server one slot, the lowest
        for slot, (primary, *_) in sorted(self._redis.nodes_manager.slots_cache.items()):
            own.setdefault(primary.name, slot)
        return [
            Primary(
                partial(self._redis.execute_command, target_nodes=node),
                keys.probe(_tag_in(own[node.name])) if node.name in own else None,
            )
            for node in self._redis.get_primaries()
        ]

    async def close(self) -> None:
        await self._redis.aclose()
        for nodes in ("nodes_cache", "startup_nodes"):  # of which the client closes none after an error
            await self._redis.nodes_manager.aclose(nodes)


@lru_cache(maxsize=1024)
def _tag_in(slot: int) -> str:
    """A text whose slot this is."""
    return next(tag for tag in map(str, itertools.count()) if key_slot(tag.encode()) == slot)


def _never() -> Retry:
    return Retry(NoBackoff(), 0)


def _signs_of_life(seconds: float) -> dict[str, Any]:
    """Ends connections to machines that are gone; to ones that are merely busy they stay (Linux: TCP_USER_TIMEOUT)."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return {}
    silent = {socket.TCP_USER_TIMEOUT: int(seconds * 1000)}
    return {"socket_keepalive_options": silent | {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 5}}


def _login(user: User) -> dict[str, Any]:
    return {"username": user.name, "password": user.password}


def _tls_options(address: StoreAddress, tls: TlsFiles) -> dict[str, Any]:
    if not address.tls:
        return {}
    named = {"ssl_ca_certs": tls.ca, "ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
    files = {option: str(path) for option, path in named.items() if path is not None}
    return {"ssl": True, "ssl_check_hostname": True, **files}
