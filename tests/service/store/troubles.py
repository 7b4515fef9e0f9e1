"""Ways in which a running store refuses writes, each with its undo."""

import contextlib
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import redis

from service.errors import StoreError, StoreFullError, StoreUnavailableError
from tests.servers import raw, wait_until


class Trouble(NamedTuple):
    """One such way.

    Attributes:
        applied: causes it for the duration of the context.
        says: pattern of the error messages.
        refusal: what writes raise.
    """

    applied: Callable[[redis.Redis], Any]
    says: str
    refusal: type[StoreError]


def process_of(client: redis.Redis) -> int:
    """Return the process id of a store on this machine."""
    info: Any = client.info("server")
    return int(info["process_id"])


@contextmanager
def no_larger_files(client: redis.Redis, size: int = 0) -> Iterator[None]:
    """Keep the store's process from growing any file above a size, like a full disk; its launcher ignores SIGXFSZ."""
    pid, (soft, hard) = process_of(client), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_dump(client: redis.Redis) -> Iterator[None]:
    """Make the last dump fail in a store that persists by dumps only."""

    def ended(status: str) -> bool:
        info: Any = client.info("persistence")
        return not info["rdb_bgsave_in_progress"] and info["rdb_last_bgsave_status"] == status

    client.config_set("appendonly", "no")
    client.config_set("save", "3600 1000000")
    with no_larger_files(client):
        client.bgsave()
        wait_until(lambda: ended("err"))
        yield
    client.bgsave()
    wait_until(lambda: ended("ok"))


@contextmanager
def configured(client: redis.Redis, name: str, value: Any) -> Iterator[None]:
    """Change a setting."""
    before: Any = client.config_get(name)
    client.config_set(name, value)
    try:
        yield
    finally:
        client.config_set(name, before[name])


@contextmanager
def demoted(client: redis.Redis) -> Iterator[None]:
    """Make the store a replica of an unreachable primary."""
    client.replicaof("127.0.0.1", "1")
    try:
        yield
    finally:
        client.replicaof("NO", "ONE")


TROUBLES = {
    "full disk": Trouble(no_larger_files, r"MISCONF.*(AOF|append)", StoreFullError),
    "failed dump": Trouble(no_dump, r"MISCONF.*RDB", StoreFullError),
    "too few replicas": Trouble(
        lambda client: configured(client, "min-replicas-to-write", 1), "NOREPLICAS", StoreUnavailableError
    ),
    "a replica": Trouble(demoted, "READONLY", StoreUnavailableError),
}


@contextmanager
def in_trouble(url: str, trouble: Trouble) -> Iterator[None]:
    """Apply this failure to a store."""
    with raw(url) as client, trouble.applied(client):
        yield
