"""Refuses what web pages of other sites ask for, where no keys are required.

A browser reaches a service on the loopback address of its machine, and sends what any page asks for. A page cannot
choose two headers of its requests:

- `Host`: the name of a page's own site may resolve to the address of the service (DNS rebinding). The page may then
  read every answer, because the browser takes the service for that site. The request still names the site.
- `Origin`: browsers send it with every write. A page of another origin cannot read the answer, but a write could take
  effect (cross-site request forgery).

Other programs can send any headers, and are not restricted. Where keys are required, a key is proof enough: no browser
adds one to what a page asks for.
"""

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from service.errors import ForeignOriginError, UnknownHostError
from service.wording.values import quoted

_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+?)\.?)(?::([0-9]{0,5}))?", re.IGNORECASE)
_DEFAULT_PORTS = {b"http": "80", b"https": "443"}
_READS = frozenset({"GET", "OPTIONS"})  # the observer has made GET of HEAD


class _Authority(NamedTuple):
    """The host and the port of a URL."""

    name: str  # lower case, without brackets and without a dot at the end
    port: str  # empty if it is the default
    is_address: bool


class OwnPages:
    """The hosts and the origins of the pages that may use the service without a key.

    Every IP address is an own host: a page of another site has a name.

    Args:
        hosts: names of the service, in addition to `localhost`.
        origins: the origins that CORS allows.
    """

    def __init__(self, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts = frozenset({"localhost", *(host.lower().removesuffix(".") for host in hosts)})
        self._origins = frozenset(origin.encode("ascii") for origin in origins)

    def check(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Check the headers of a request. A request without them is not from a browser.

        Raises:
            UnknownHostError: if `Host` is not the service's.
            ForeignOriginError: if the request writes, and `Origin` has neither that host nor a listed origin.
        """
        host, origins = None, []
        for name, value in headers:
            if name == b"host":
                host = value if host in (None, value) else host + b", " + value  # several are no host
            elif name == b"origin":  # a proxy may add one
                origins.append(value)
        if host is not None and not self._is_own(_read(host)):
            raise UnknownHostError(
                f"got the Host {_shown(host)}; without API keys, the service answers to IP addresses, localhost and "
                "the names in WAGER_ALLOWED_HOSTS"
            )
        for origin in () if method in _READS else origins:
            if origin not in self._origins and not _is_of(host, origin):
                shown = "no Host" if host is None else f"the Host {_shown(host)}"
                raise ForeignOriginError(
                    f"got the Origin {_shown(origin)} and {shown}; without API keys, only pages of the service itself "
                    "and of WAGER_CORS_ORIGINS may write"
                )

    def _is_own(self, host: _Authority | None) -> bool:
        return host is not None and (host.is_address or host.name in self._hosts)


def _is_of(host: bytes | None, origin: bytes) -> bool:
    """Check whether an origin has this host and port. The scheme may differ, as a proxy may terminate TLS."""
    scheme, _, authority = origin.partition(b"://")
    default = _DEFAULT_PORTS.get(scheme)  # None for `null`, and for pages that are files or extensions
    page, own = _read(authority), None if host is None else _read(host)
    if default is None or page is None or own is None:
        return False
    return (page.name, page.port or default) == (own.name, own.port or default)


@lru_cache(maxsize=64)  # requests repeat a few values
def _read(authority: bytes) -> _Authority | None:
    found = _AUTHORITY.fullmatch(authority.decode("latin-1"))
    if found is None:
        return None
    address, name, port = found.groups()
    return _Authority((address or name).lower(), port or "", _is_address(address or name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _shown(value: bytes) -> str:
    return quoted(value.decode("latin-1"))
