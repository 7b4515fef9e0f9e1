"""Creates, lists, rotates and revokes API keys; builds the access control of a worker."""

import hashlib
from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

from pydantic import ValidationError

from service.access.keys import Gatekeeper, KeyRecord, WrongKeys, read_record
from service.access.usage import UsageMeter
from service.environment import Environment
from service.error_messages.json_schemas import root_of
from service.error_messages.validation import explain
from service.error_messages.values import quoted
from service.errors import InvalidInputError, NotFoundError, StoreCorruptError
from service.json_values import JsonMapping, JsonObject
from service.store.access_tables import KeyTable, UsageCounter
from service.store.redis.open_store import OpenStore

_NOISE_BYTES = 38  # 6 for the id, 32 for the secret


class IssuedKey(NamedTuple):
    """A new key. `text` is the whole key, of which the store has only the SHA-256 digest."""

    id: str
    text: str


class KeyAdmin:
    """Manages keys. `now` returns seconds since the epoch; `noise(n)` returns n unpredictable bytes."""

    def __init__(self, table: KeyTable, now: Callable[[], float], noise: Callable[[int], bytes]) -> None:
        self._table = table
        self._now = now
        self._noise = noise

    async def create(
        self,
        name: str,
        scopes: list[str],
        models: str = "*",
        expires_in: float | None = None,
        budgets: JsonMapping = MappingProxyType({}),
    ) -> IssuedKey:
        """Create a key that expires in `expires_in` seconds or, if None, never. `budgets` has fields of `KeyBudgets`.

        Raises InvalidInputError.
        """
        now = self._now()
        fields = {"name": name, "scopes": scopes, "models": models, "budgets": dict(budgets), "created_at": now}
        return await self._issue(fields | {"expires_at": None if expires_in is None else now + expires_in})

    async def rotate(self, key_id: str, overlap_seconds: float) -> IssuedKey:
        """Issue a key with the fields and the lifetime of an old one. The old key expires after the overlap.

        If the old key was to expire earlier, it still does. Raises NotFoundError if it is missing, and
        StoreCorruptError if it is unreadable.
        """
        stored, now = await self._table.get(key_id), self._now()
        if stored is None:
            raise _no_such(key_id)
        old = read_record(key_id, stored)
        if old is None:
            raise StoreCorruptError(f"the record of API key {quoted(key_id)} is unreadable; it can only be revoked")
        life = None if old.expires_at is None else now + (old.expires_at - old.created_at)
        issued = await self._issue(old.model_dump() | {"created_at": now, "expires_at": life})
        until = now + overlap_seconds if old.expires_at is None else min(old.expires_at, now + overlap_seconds)
        ending = old.model_copy(update={"expires_at": until})
        if not await self._table.replace(key_id, ending.model_dump_json().encode()):
            # The old key was revoked in the meantime, so revoke the new one too.
            await self._table.remove(issued.id)
            raise _no_such(key_id)
        return issued

    async def revoke(self, key_id: str) -> None:
        """Revoke a key, even an unreadable one. Raises NotFoundError if the key does not exist."""
        if not await self._table.remove(key_id):
            raise _no_such(key_id)

    async def all(self) -> dict[str, KeyRecord | None]:
        """Return all records by key id, in the order of the ids. An unreadable record is None."""
        return {key_id: read_record(key_id, record) for key_id, record in sorted((await self._table.all()).items())}

    async def _issue(self, fields: JsonObject) -> IssuedKey:
        noise = self._noise(_NOISE_BYTES).hex()
        key_id, text = noise[:12], f"wk_{noise[:12]}_{noise[12:]}"
        try:
            record = KeyRecord.model_validate(fields | {"digest": hashlib.sha256(text.encode()).hexdigest()})
        except ValidationError as error:
            first = explain(error.errors(include_url=False)[0], root_of(KeyRecord))
            raise InvalidInputError(first.reason, first.field) from None
        if not await self._table.add(key_id, record.model_dump_json().encode()):
            raise RuntimeError("duplicate key id: the source of randomness is broken")
        return IssuedKey(key_id, text)


def _no_such(key_id: str) -> NotFoundError:
    return NotFoundError(f"no API key has the id {quoted(key_id)}")


class AccessControl(NamedTuple):
    """Identifies callers, counts what keys with budgets use, and counts wrong keys per address."""

    gatekeeper: Gatekeeper
    counter: UsageCounter
    meter: UsageMeter
    wrong_keys: WrongKeys


def access_control(
    opened: OpenStore, environment: Environment, cache_seconds: float, note_compute: Callable[[str, float], None]
) -> AccessControl:
    """Build the access control of one worker, which caches key records for `cache_seconds`.

    `note_compute` gets the id of a key and the processor time that it has used, in seconds.
    """
    counter, monotonic = opened.usage_counter, environment.monotonic
    meter = UsageMeter(opened.store, counter, monotonic, note_compute)
    gatekeeper = Gatekeeper(opened.api_keys, environment.now, cache_seconds)
    return AccessControl(gatekeeper, counter, meter, WrongKeys(monotonic))
