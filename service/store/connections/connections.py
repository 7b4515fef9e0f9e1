"""Connections to the servers that a store URL names. A connection never repeats a command that may have run."""

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
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

from service.errors import StoreUnavailableError
from service.json_values import JsonObject
from service.store import keys
from service.store.connections.addresses import Kind, StoreAddress, TlsFiles, User, parse_store_url
from service.store.connections.pipeline import Pipeline, Word
from service.store.connections.whole_copy import receive_copy
from service.store.values import StoreReadiness

_MOST_CONNECTIONS = 32
"""Maximum concurrent `call`s over redis-py, and also `call_and_wait`s, each of which needs a network connection."""

Call = Callable[..., Awaitable[Any]]
"""Sends one command, given as separate arguments, and returns the reply."""


class Primary(NamedTuple):
    """A server that accepts writes."""

    call: Call
    probe: str | None  # a key for test writes; None if the server has no hash slots, like a new node of a cluster


class Connection(Protocol):
    """Sends commands to a store over one or more network connections.

    If the store refuses a command or does not answer, its methods raise an error of redis-py or an `OSError`.

    Attributes:
        kind: the kind of deployment.
    """

    kind: Kind

    def call(self, *command: Word) -> Awaitable[Any]:
        """Send one command to the server that has the command's keys; return the reply."""

    async def call_and_wait(self, replicas: int, seconds: float, *command: Word) -> tuple[Any, int]:
        """Send one command, then wait up to `seconds` for `replicas` replicas of the server to confirm its writes.

        Returns:
            The reply, and the number of replicas that confirmed the writes.

        Raises:
            NotImplementedError: for a cluster.
        """

    async def primaries(self) -> list[Primary]:
        """Return all servers that accept writes."""

    async def copy(self, receive: Callable[[bytes], object]) -> None:
        """Pass a point-in-time copy of the server's data to `receive`, in parts that together form an RDB file.

        Raises:
            NotImplementedError: for a cluster, which has one file per server.
        """

    async def close(self) -> None:
        """Close all network connections."""


def connect(url: str, timeout: float, tls: TlsFiles, patience: float = 1.0) -> Connection:
    """Return a connection that opens on first use.

    Args:
        url: the URL of the store, in a form that `parse_store_url` accepts.
        timeout: seconds to wait for a connection and, in a cluster on Linux, for a machine to acknowledge sent data.
        tls: files for TLS, used if the URL selects TLS.
        patience: the maximum wait for a reply, as a multiple of `timeout`.

    Raises:
        ValueError: if the URL is invalid.
    """
    address = parse_store_url(url)
    options = {"socket_timeout": timeout * patience, "socket_connect_timeout": timeout, **_tls_options(address, tls)}
    if address.kind is Kind.CLUSTER:
        return _Cluster(address, options)
    if address.kind is Kind.SENTINEL:
        return _SentinelConnection(address, options)
    return _Server(address, options)


class _Packing:
    """Packs commands with hiredis, like redis-py's blocking client, because packing in Python is slow."""

    def pack_command(self, *command: Any) -> list[bytes]:
        """Return the bytes of a command."""
        return [hiredis.pack_command(command)]


@contextmanager
def _as_lost_connection() -> Iterator[None]:
    """Raise `exceptions.ConnectionError` if a connection closes during use.

    Without this, uvloop would raise a RuntimeError, and redis-py an AttributeError.
    """
    try:
        yield
    except (RuntimeError, AttributeError) as error:
        raise exceptions.ConnectionError(str(error)) from error


class _OneServer:
    """A connection to the only server that accepts writes."""

    def __init__(self, kind: Kind, redis: Redis) -> None:
        self.kind = kind
        self._redis = redis
        pool = redis.connection_pool
        pool.connection_class = type("PackingConnection", (_Packing, pool.connection_class), {})
        self._turn = asyncio.Semaphore(_MOST_CONNECTIONS)
        self._waiting = asyncio.Semaphore(_MOST_CONNECTIONS)  # apart, so that slow replicas delay no other commands

    def call(self, *command: Word) -> Awaitable[Any]:
        return self._call(*command)

    async def _call(self, *command: Word) -> Any:
        async with self._turn:
            with _as_lost_connection():
                return await self._redis.execute_command(*command)

    async def call_and_wait(self, replicas: int, seconds: float, *command: Word) -> tuple[Any, int]:
        """Use a separate network connection, because WAIT delays the commands after it."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.execute_command(*command)
        pipeline.execute_command("WAIT", replicas, round(seconds * 1000))
        async with self._waiting:
            with _as_lost_connection():
                reply, confirmed = await pipeline.execute(raise_on_error=False)
        for each in (reply, confirmed):
            if isinstance(each, Exception):
                raise each
        return reply, confirmed

    async def primaries(self) -> list[Primary]:
        return [Primary(self.call, keys.probe(""))]

    async def copy(self, receive: Callable[[bytes], object]) -> None:
        fresh = self._redis.connection_pool.make_connection()
        await receive_copy(fresh, receive)

    async def close(self) -> None:
        await self._redis.aclose()


class _Server(_OneServer):
    """A connection to a single server. Scripts, which are most of the commands, share one pipelined connection."""

    def __init__(self, address: StoreAddress, options: JsonObject) -> None:
        where = {"unix_socket_path": address.path} if address.path else address.nodes[0]._asdict()
        super().__init__(address.kind, Redis(**where, **options, **_login(address.user), db=address.db, retry=_never()))
        self._line = Pipeline(address, options["socket_timeout"], options, options["socket_connect_timeout"])

    def call(self, *command: Word) -> Awaitable[Any]:
        return self._line.call(*command) if command[0] == "EVALSHA" else super().call(*command)

    async def close(self) -> None:
        await self._line.close()
        await super().close()


class _Sentinel(Sentinel):
    """Sends one query at a time. A query reorders the list of Sentinels, so concurrent ones could lose a Sentinel."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self._turn = asyncio.Lock()

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the primary's address. Unlike redis-py, name causes in the error, not the clients' configuration."""
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
    """A connection to the primary. Each new network connection asks the Sentinels which server that is."""

    def __init__(self, address: StoreAddress, options: JsonObject) -> None:
        sentinel_options = {**options, **_login(address.sentinel_user), "retry": _never()}
        self._sentinel = _Sentinel([tuple(node) for node in address.nodes], sentinel_kwargs=sentinel_options)
        server_options = {**options, **_login(address.user), "db": address.db, "retry": _never()}
        super().__init__(address.kind, self._sentinel.master_for(address.service, **server_options))

    async def close(self) -> None:
        await super().close()
        await self._sentinel.aclose()


class _Cluster:
    """A connection to the servers of a cluster, each of which has a part of the keys.

    Repeats a command only after MOVED, ASK or TRYAGAIN, with which a server declines to run it.
    """

    def __init__(self, address: StoreAddress, options: JsonObject) -> None:
        self.kind = address.kind
        self._redis = RedisCluster(
            startup_nodes=[ClusterNode(*node) for node in address.nodes],
            reinitialize_steps=0,  # MOVED updates one slot; a refresh of all slots would abort commands in flight
            retry=_never(),
            **_login(address.user),
            **_signs_of_life(options["socket_connect_timeout"]),
            **options,
        )
        self._turn = asyncio.Semaphore(_MOST_CONNECTIONS)

    async def call(self, *command: Word, **options: Any) -> Any:
        async with self._turn:
            with _as_lost_connection():
                return await self._redis.execute_command(*command, **options)

    async def call_and_wait(self, replicas: int, seconds: float, *command: Word) -> tuple[Any, int]:
        raise NotImplementedError("the cluster client does not expose the connection of a command")

    async def copy(self, receive: Callable[[bytes], object]) -> None:
        raise NotImplementedError("a cluster has a file for each server")

    async def primaries(self) -> list[Primary]:
        await self._redis.initialize()
        own: dict[str, int] = {}  # the lowest slot of each server
        for slot, (primary, *_) in sorted(self._redis.nodes_manager.slots_cache.items()):
            own.setdefault(primary.name, slot)
        return [
            Primary(
                partial(self.call, target_nodes=node),
                keys.probe(_tag_in(own[node.name])) if node.name in own else None,
            )
            for node in self._redis.get_primaries()
        ]

    async def close(self) -> None:
        await self._redis.aclose()
        for nodes in ("nodes_cache", "startup_nodes"):  # after an error, the client itself closes none of these nodes
            await self._redis.nodes_manager.aclose(nodes)


@lru_cache(maxsize=1024)
def _tag_in(slot: int) -> str:
    """Return a hash tag that a cluster maps to this slot."""
    return next(tag for tag in map(str, itertools.count()) if key_slot(tag.encode()) == slot)


def _never() -> Retry:
    return Retry(NoBackoff(), 0)


def _signs_of_life(seconds: float) -> JsonObject:
    """On Linux, return socket options that close connections to dead machines but not to busy ones; elsewhere, none."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return {}
    silent = {socket.TCP_USER_TIMEOUT: int(seconds * 1000)}
    return {"socket_keepalive_options": silent | {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 5}}


def _login(user: User) -> JsonObject:
    return {"username": user.name, "password": user.password}


def _tls_options(address: StoreAddress, tls: TlsFiles) -> JsonObject:
    if not address.tls:
        return {}
    named = {"ssl_ca_certs": tls.ca, "ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
    files = {option: str(path) for option, path in named.items() if path is not None}
    return {"ssl": True, "ssl_check_hostname": True, **files}


class Confirmed:
    """Sends commands, and waits until replicas of the store's server confirm their writes.

    Args:
        connection: sends the commands. This object does not close it.
        replicas: number of replicas of the store's server that must confirm a write; 0 to wait for none.
        seconds: maximum wait for the replicas.
    """

    def __init__(self, connection: Connection, replicas: int, seconds: float) -> None:
        self._connection = connection
        self._replicas = replicas
        self._seconds = seconds

    def call(self, *command: Word) -> Awaitable[Any]:
        """Send one command; return its reply.

        Raises:
            StoreUnavailableError: if too few replicas confirm its writes in time. The command may be repeated.
        """
        return self._call_and_wait(*command) if self._replicas else self._connection.call(*command)

    async def _call_and_wait(self, *command: Word) -> Any:
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
        """Return a store's readiness. If replicas are required, its sentence on durability says so."""
        if not self._replicas:
            return readiness
        servers = "1 other server has" if self._replicas == 1 else f"{self._replicas} other servers have"
        promise = f"feedback is acknowledged only once {servers} confirmed it"
        return readiness._replace(persistence=f"{readiness.persistence}; {promise}")
