"""API keys for tests."""

import hashlib
import itertools
from collections.abc import Callable

from service.access.key_admin import IssuedKey, KeyAdmin
from service.store.access_tables import KeyTable
from tests.service.workers import Clock

_numbers = itertools.count()


def noise(size: int) -> bytes:
    return hashlib.blake2b(str(next(_numbers)).encode(), digest_size=size).digest()


class MemoryTable:
    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.asked = 0

    async def get(self, key_id: str) -> bytes | None:
        self.asked += 1
        return self.records.get(key_id)

    async def all(self) -> dict[str, bytes]:
        return dict(self.records)

    async def add(self, key_id: str, record: bytes) -> bool:
        return self.records.setdefault(key_id, record) is record

    async def replace(self, key_id: str, record: bytes) -> bool:
        if key_id not in self.records:
            return False
        self.records[key_id] = record
        return True

    async def remove(self, key_id: str) -> bool:
        return self.records.pop(key_id, None) is not None


def key_admin_at(table: KeyTable, now: Callable[[], float] | None = None) -> KeyAdmin:
    return KeyAdmin(table, now or Clock(), noise)


def bearer(key: IssuedKey | str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key if isinstance(key, str) else key.text}"}
