"""Identifies callers by their API keys, and counts wrong keys. `service.access.key_admin` creates keys."""

import hashlib
import hmac
import ipaddress
import logging
import math
import re
from collections import OrderedDict
from collections.abc import Callable
from fnmatch import translate
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError, model_validator

from service.error_messages.patterns import DIGEST, KEY_GLOB, KEY_LIMIT
from service.error_messages.values import quoted
from service.errors import UnauthenticatedError
from service.store.access_tables import KeyTable

MOST_WRONG_KEYS = 20  # for each address, in each window
WINDOW_SECONDS = 60.0
_MOST_ADDRESSES = 4096  # maximum number of addresses with counts
_MOST_CACHED = 4096  # maximum number of cached keys


class WrongKeys:
    """Counts wrong keys per address, in windows, each opened by a wrong key. `now` is monotonic, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()  # by source: end of window, and wrong keys

    def count(self, address: str) -> int | None:
        """Count a wrong key; return the seconds to wait if there are too many, else None."""
        source, now = _source(address), self._now()
        ends, seen = self._windows.pop(source, (0.0, 0))
        if ends <= now:
            ends, seen = now + WINDOW_SECONDS, 0
        self._windows[source] = ends, seen + 1
        if len(self._windows) > _MOST_ADDRESSES:
            self._windows.popitem(last=False)
        return max(1, math.ceil(ends - now)) if seen >= MOST_WRONG_KEYS else None


def _source(address: str) -> str:
    """Return the address or network that counts as the source: all addresses of an IPv6 /64 network count as one."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:  # `address` is the path of a Unix socket, or empty
        return address
    if known.version == 4:
        return address
    return str(known.ipv4_mapped or ipaddress.ip_network((int(known) >> 64 << 64, 64)))


_log = logging.getLogger(__name__)

Scope = Literal["predict", "feedback", "read", "admin"]
SCOPES: tuple[Scope, ...] = ("predict", "feedback", "read", "admin")

_KEY = re.compile(r"wk_([0-9a-f]{12})_[0-9a-f]{64}")
_REFUSED = "the API key is malformed, unknown, expired or revoked"


class Names:
    """The model names that match a pattern, in which `*` matches any number of characters."""

    def __init__(self, glob: str) -> None:
        self.glob = glob
        self.all = glob == "*"
        self._matches = re.compile(translate(glob)).match
        self.prefix = prefix = glob.partition("*")[0]
        # A cursor before all names with the prefix: 0x7F sorts after every character of a name.
        self.before = prefix[:-1] + chr(ord(prefix[-1]) - 1) + "\x7f" if prefix else ""

    def __contains__(self, name: str) -> bool:
        return self.all or self._matches(name) is not None

    def ended_by(self, name: str) -> bool:
        """Return True only if no match sorts after this name."""
        return name > self.prefix and not name.startswith(self.prefix)


_RECORD = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


class KeyBudgets(BaseModel):
    """The budgets of an API key. Null: no limit."""

    model_config = _RECORD

    requests: Annotated[str, Field(pattern=KEY_LIMIT)] | None = None
    """Maximum rate of requests, such as `100/second`."""
    models: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of models that the key allows. At this number, it creates no further ones."""
    open_bytes: Annotated[ByteSize, Field(ge=1)] | None = None
    """Maximum bytes of the open predictions of these models. Above it, the key makes no further predictions."""
    compute_seconds: Annotated[float, Field(ge=0.001, le=86_400)] | None = None
    """Maximum processor time that its requests take within a minute."""


NO_BUDGETS = KeyBudgets()


class KeyRecord(BaseModel):
    """The stored record of an API key."""

    model_config = _RECORD

    digest: Annotated[str, Field(pattern=DIGEST, repr=False)]
    """SHA-256 of the key, in hex."""
    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Owner or purpose, in free text."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))]
    """`admin` includes all other scopes."""
    models: Annotated[str, Field(pattern=KEY_GLOB)] = "*"
    """The key allows the models whose names match this pattern."""
    budgets: KeyBudgets = NO_BUDGETS
    created_at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Seconds since the epoch."""
    expires_at: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Seconds since the epoch; None for never."""

    @model_validator(mode="after")
    def _scopes_differ(self) -> Self:
        if len(set(self.scopes)) < len(self.scopes):
            raise ValueError("scopes must be unique")
        return self


class Caller:
    """The caller of a request, with the permissions of its API key."""

    def __init__(self, key_id: str, record: KeyRecord) -> None:
        self.key_id = key_id
        self.record = record
        self.names = Names(record.models)
        self.digest = bytes.fromhex(record.digest)
        self.budgets = record.budgets
        self.scopes = frozenset(SCOPES if "admin" in record.scopes else record.scopes)


class Gatekeeper:
    """Identifies callers by their keys. `now` returns seconds since the epoch.

    Key records are cached, so a revocation takes effect within `cache_seconds`.
    """

    def __init__(self, table: KeyTable, now: Callable[[], float], cache_seconds: float) -> None:
        self._table = table
        self._now = now
        self._cache_seconds = cache_seconds
        self._cache: OrderedDict[str, tuple[float, Caller]] = OrderedDict()

    async def identify(self, key: str) -> Caller:
        """Return the caller whose key this is. Raises UnauthenticatedError if the key is not valid, or StoreError."""
        if (shape := _KEY.fullmatch(key)) is None:
            raise UnauthenticatedError(_REFUSED)
        now, key_id = self._now(), shape[1]
        caller: Caller | None
        until, caller = self._cache.get(key_id, (0.0, None))
        if not now < until <= now + self._cache_seconds:  # not cached, expired, or the clock was set back
            caller = await self._look_up(key_id, now + self._cache_seconds)
        if caller is None or not _is_key_of(caller, key):
            raise UnauthenticatedError(_REFUSED)
        if caller.record.expires_at is not None and caller.record.expires_at <= now:
            raise UnauthenticatedError(_REFUSED)
        return caller

    def known_id(self, key: str) -> str:
        """Return the id of a key that was valid when its record was last read; an empty text for all others."""
        shape = _KEY.fullmatch(key)
        _, caller = self._cache.get(shape[1] if shape else "", (0.0, None))
        return caller.key_id if caller is not None and _is_key_of(caller, key) else ""

    async def _look_up(self, key_id: str, until: float) -> Caller | None:
        record = read_record(key_id, await self._table.get(key_id))
        self._cache.pop(key_id, None)
        if record is None:  # not cached: unknown keys must not displace known ones
            return None
        caller = Caller(key_id, record)
        self._cache[key_id] = until, caller
        if len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return caller


def _is_key_of(caller: Caller, key: str) -> bool:
    return hmac.compare_digest(hashlib.sha256(key.encode()).digest(), caller.digest)


def is_well_formed(key: str) -> bool:
    """Check whether a text has the form of a key."""
    return _KEY.fullmatch(key) is not None


def read_record(key_id: str, stored: bytes | None) -> KeyRecord | None:
    """Decode a stored record; return None if it is missing or unreadable."""
    if stored is None:
        return None
    try:
        return KeyRecord.model_validate_json(stored)
    except ValidationError as error:
        _log.error("the record of API key %s is unreadable, so the key is refused: %s", quoted(key_id), _reason(error))
        return None


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{quoted(place)}: {first['type']}" if place else first["type"]
