"""API keys for the tests."""

import hashlib
import itertools
from collections.abc import Callable

from service.access.key_admin import IssuedKey, KeyAdmin
from service.store.access_tables import KeyTable
from tests.service.workers import Clock

_numbers = itertools.count()


def noise(size: int) -> bytes:
    """Bytes that no other call of this process gives."""
    return hashlib.blake2b(str(next(_numbers)).encode(), digest_size=size).digest()


class MemoryTable:
    """A table of records that needs no store, and counts how often it is asked."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.asked = 0

    async def get(self, key_id: str) -> bytes | None:
        """The record of a key."""
        self.asked += 1
        return self.records.get(key_id)

    async def all(self) -> dict[str, bytes]:
        """Every key's record by its id."""
        return dict(self.records)

    async def add(self, key_id: str, record: bytes) -> bool:
        """Stores a new record; False if the id is taken."""
        return self.records.setdefault(key_id, record) is record

    async def replace(self, key_id: str, record: bytes) -> bool:
        """Stores another record for an id; False if there is none."""
        if key_id not in self.records:
            return False
        self.records[key_id] = record
        return True

    async def remove(self, key_id: str) -> bool:
        """Removes a record; False if there is none."""
        return self.records.pop(key_id, None) is not None


def key_admin_at(table: KeyTable, now: Callable[[], float] | None = None) -> KeyAdmin:
    """A key admin that makes keys nobody else makes."""
    return KeyAdmin(table, now or Clock(), noise)


def bearer(key: IssuedKey | str) -> dict[str, str]:
    """The header that presents a key."""
    return {"Authorization": f"Bearer {key if isinstance(key, str) else key.text}"}
