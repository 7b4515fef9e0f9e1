"""Ways in which a store that answers takes no writes, and how each ends."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import redis

from tests.servers import raw, wait_until


class Trouble(NamedTuple):
    """One way.

    Attributes:
        applied: brings it about for as long as it lasts.
        says: what the refusals say, a regular expression.
    """

    applied: Callable[[redis.Redis], Any]
    says: str


def process_of(client: redis.Redis) -> int:
    """The process of a store on this machine."""
    info: Any = client.info("server")
    return int(info["process_id"])


@contextmanager
def no_larger_files(client: redis.Redis) -> Iterator[None]:
    """The store's process can make no file larger, as on a full disk; its launcher ignores SIGXFSZ."""
    pid, (soft, hard) = process_of(client), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_dump(client: redis.Redis) -> Iterator[None]:
    """The last dump failed, and a dump is all that is kept."""

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
    """Another setting."""
    before: Any = client.config_get(name)
    client.config_set(name, value)
    try:
        yield
    finally:
        client.config_set(name, before[name])


@contextmanager
def demoted(client: redis.Redis) -> Iterator[None]:
    """The store is the replica of nobody who answers."""
    client.replicaof("127.0.0.1", "1")
    try:
        yield
    finally:
        client.replicaof("NO", "ONE")


TROUBLES = {
    "full disk": Trouble(no_larger_files, r"MISCONF.*(AOF|append)"),
    "failed dump": Trouble(no_dump, r"MISCONF.*RDB"),
    "full memory": Trouble(lambda client: configured(client, "maxmemory", 1), "memory limit"),
    "too few replicas": Trouble(lambda client: configured(client, "min-replicas-to-write", 1), "NOREPLICAS"),
    "a replica": Trouble(demoted, "READONLY"),
}


@contextmanager
def in_trouble(url: str, trouble: Trouble) -> Iterator[None]:
    """A store in this trouble."""
    with raw(url) as client, trouble.applied(client):
        yield
