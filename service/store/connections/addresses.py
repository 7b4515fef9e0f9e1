"""Parses store URLs. Each names one server (by TCP or a unix socket), a cluster, or servers watched by Sentinels."""

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

FORMS = "redis://, redis+cluster:// or redis+sentinel:// (rediss for TLS in each), or unix://"

_STORE_PORT = 6379
_SENTINEL_PORT = 26379


class Kind(StrEnum):
    """The kind of deployment that a store URL names. Each value is a URL scheme without TLS."""

    SERVER = "redis"
    CLUSTER = "redis+cluster"
    SENTINEL = "redis+sentinel"
    SOCKET = "unix"


_OPTIONS = {  # the query parameters that each kind of URL may have
    Kind.SERVER: {"db", "username", "password"},
    Kind.SOCKET: {"db", "username", "password"},
    Kind.CLUSTER: set[str](),
    Kind.SENTINEL: {"sentinel_username", "sentinel_password"},
}


class Node(NamedTuple):
    """The address of a server."""

    host: str
    port: int


class User(NamedTuple):
    """Credentials for a server."""

    name: str | None = None  # None for the default user
    password: str | None = None  # None if none is needed


class TlsFiles(NamedTuple):
    """PEM files for TLS. The authorities in `ca` are trusted in addition to the system's."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


NO_FILES = TlsFiles()


class StoreAddress(NamedTuple):
    """A parsed store URL."""

    kind: Kind
    tls: bool
    nodes: list[Node]  # the server, servers of the cluster, or the Sentinels; empty for a socket
    path: str  # the path of the socket; "" for other kinds
    service: str  # the name under which the Sentinels watch the servers; "" for other kinds
    db: int
    user: User  # the credentials for the servers
    sentinel_user: User  # the credentials for the Sentinels; its fields are None if the URL contains none


def parse_store_url(url: str) -> StoreAddress:
    """Parse a store URL. It may contain a password, so errors quote nothing from it but the name of an unknown option.

    Raises:
        ValueError: if the URL is invalid.
    """
    if not url.isprintable() or " " in url:  # urlsplit silently drops some of these
        raise ValueError("must not contain spaces or control characters: percent-encode them")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("must have a valid host: an IPv6 address in brackets, such as redis://[::1]:6379") from None
    tls = parts.scheme.startswith("rediss")
    kind = _kind(parts.scheme)
    options = _options(kind, parts)
    userinfo, _, hosts = parts.netloc.rpartition("@")
    path = unquote(parts.path)
    service, db = _service_and_db(kind, path, options)
    return StoreAddress(
        kind=kind,
        tls=tls,
        nodes=_nodes(kind, hosts),
        path=_socket_path(path) if kind is Kind.SOCKET else "",
        service=service,
        db=db,
        user=_user(userinfo, options.get("username"), options.get("password")),
        sentinel_user=User(options.get("sentinel_username"), options.get("sentinel_password")),
    )


def _kind(scheme: str) -> Kind:
    plain = "redis" + scheme.removeprefix("rediss") if scheme.startswith("rediss") else scheme
    try:
        return Kind(plain)
    except ValueError:
        raise ValueError(f"must begin with {FORMS}") from None


def _options(kind: Kind, parts: SplitResult) -> dict[str, str]:
    if parts.fragment:
        raise ValueError("must not have a #: write %23 if it is part of the password")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - _OPTIONS[kind])
    if unknown:
        known = ", ".join(sorted(_OPTIONS[kind])) or "none"
        if "@" in parts.query:  # then the name of an option may contain the end of a password
            raise ValueError("has an unknown option (write %3F for a ? in the password)")
        raise ValueError(f"has the unknown option {unknown[0]!r}; options of {kind}:// are: {known}")
    return options


def _nodes(kind: Kind, hosts: str) -> list[Node]:
    if kind is Kind.SOCKET:
        return []
    names = hosts.split(",")
    if kind is Kind.SERVER and len(names) > 1:
        raise ValueError("must name one host; only redis+cluster:// and redis+sentinel:// allow several")
    return [_node(name, _SENTINEL_PORT if kind is Kind.SENTINEL else _STORE_PORT) for name in names]


def _node(text: str, default_port: int) -> Node:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must have valid hosts and port numbers from 1 to 65535") from None
    if not host:
        raise ValueError("must name a host: redis://host:6379/0, redis+cluster://host:6379,host:6380")
    try:
        host.encode("idna")  # opening a connection will encode the name in the same way
    except UnicodeError:
        raise ValueError("must name hosts whose parts between dots have 1 to 63 characters") from None
    if port == 0:
        raise ValueError("must have port numbers from 1 to 65535")
    return Node(host, port or default_port)


def _socket_path(path: str) -> str:
    if not path:
        raise ValueError("must name the path of a socket: unix:///path/to/socket")
    if "\0" in path:
        raise ValueError("must name a path without %00")
    return path


def _service_and_db(kind: Kind, path: str, options: dict[str, str]) -> tuple[str, int]:
    """Return the name of the service that the Sentinels watch ("" for other kinds), and the number of the database."""
    if kind is Kind.SOCKET:
        return "", _db(options.get("db", ""))
    service, _, db = path.strip("/").rpartition("/")
    if kind is Kind.SENTINEL:
        service, db = (service, db) if service else (db, "")
        if not service:
            raise ValueError("must name the service that Sentinel watches: redis+sentinel://host:26379/service-name")
        return service, _db(db)
    if kind is Kind.CLUSTER and db not in {"", "0"}:
        raise ValueError("must not name a database: a cluster has only database 0")
    if service:
        raise ValueError("must have only a database number as its path: redis://host:6379/0")
    return "", _db(options.get("db", db))


def _db(text: str) -> int:
    if text and not text.isdecimal():
        raise ValueError("must have a database number: redis://host:6379/0")
    return int(text or 0)


def _user(userinfo: str, name: str | None, password: str | None) -> User:
    before, _, after = userinfo.partition(":")
    return User(unquote(before) or name, unquote(after) or password)
