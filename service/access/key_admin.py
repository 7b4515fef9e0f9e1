"""Where API keys are made, listed, rotated and revoked: for whoever runs the service."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import ValidationError

from service.access.keys import KeyRecord, read_record
from service.errors import InvalidInputError, NotFoundError
from service.store.access_tables import KeyTable
from service.wording.json_schemas import root_of
from service.wording.validation import explain
from service.wording.values import quoted

_NOISE_BYTES = 38  # 6 of the id, 32 of the secret


class IssuedKey(NamedTuple):
    """A new key: the only time that its text is seen."""

    id: str
    text: str


class KeyAdmin:
    """Makes, lists, rotates and revokes keys.

    Args:
        table: where the records are.
        now: seconds since the epoch.
        noise: so many random bytes that nobody can guess.
    """

    def __init__(self, table: KeyTable, now: Callable[[], float], noise: Callable[[int], bytes]) -> None:
        self._table = table
        self._now = now
        self._noise = noise

    async def create(
        self,
        name: str,
        scopes: list[str],
        models: str = "*",
        limit: str | None = None,
        expires_in: float | None = None,
    ) -> IssuedKey:
        """Makes a key.

        Raises:
            InvalidInputError: if a value is not what `KeyRecord` may have.
        """
        now = self._now()
        expires_at = None if expires_in is None else now + expires_in
        fields: dict[str, Any] = {
            "name": name,
            "scopes": scopes,
            "models": models,
            "limit": limit,
            "expires_at": expires_at,
        }
        return await self._issue(fields | {"created_at": now})

    async def rotate(self, key_id: str, overlap_seconds: float) -> IssuedKey:
        """Makes a key like another one, with as long a life, which itself is good for so many seconds more.

        Raises:
            NotFoundError: if there is no such key, or it cannot be read.
        """
        old, now = read_record(key_id, await self._table.get(key_id)), self._now()
        if old is None:
            raise _no_such(key_id)
        life = None if old.expires_at is None else now + (old.expires_at - old.created_at)
        issued = await self._issue(old.model_dump() | {"created_at": now, "expires_at": life})
        until = now + overlap_seconds if old.expires_at is None else min(old.expires_at, now + overlap_seconds)
        ending = old.model_copy(update={"expires_at": until})
        if not await self._table.replace(key_id, _encode(ending)):  # revoked meanwhile: then so is its heir
            await self._table.remove(issued.id)
            raise _no_such(key_id)
        return issued

    async def revoke(self, key_id: str) -> None:
        """Takes a key out of use, readable or not.

        Raises:
            NotFoundError: if there is no such key.
        """
        if not await self._table.remove(key_id):
            raise _no_such(key_id)

    async def all(self) -> dict[str, KeyRecord | None]:
        """Every key's record by its id, in the order of the ids; None where it cannot be read."""
        return {key_id: read_record(key_id, record) for key_id, record in sorted((await self._table.all()).items())}

    async def _issue(self, fields: dict[str, Any]) -> IssuedKey:
        noise = self._noise(_NOISE_BYTES).hex()
        key_id, text = noise[:12], f"wk_{noise[:12]}_{noise[12:]}"
        try:
            record = KeyRecord.model_validate(fields | {"digest": hashlib.sha256(text.encode()).hexdigest()})
        except ValidationError as error:
            first = explain(error.errors(include_url=False)[0], root_of(KeyRecord))
            raise InvalidInputError(first.reason, first.field) from None
        if not await self._table.add(key_id, _encode(record)):
            raise RuntimeError("a key id came up twice: the source of randomness is broken")
        return IssuedKey(key_id, text)


def _encode(record: KeyRecord) -> bytes:
    return record.model_dump_json().encode()


def _no_such(key_id: str) -> NotFoundError:
    return NotFoundError(f"no API key has the id {quoted(key_id)}")
