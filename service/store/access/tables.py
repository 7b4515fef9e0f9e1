"""Storage interfaces for access control: API key records and request counts."""

from typing import NamedTuple, Protocol


class KeyTable(Protocol):
    """The records of API keys. `service.access.keys` defines their content. Every method raises `StoreError`."""

    async def get(self, key_id: str) -> bytes | None:
        """Return the record of a key, or None."""

    async def all(self) -> dict[str, bytes]:
        """Return every record by key id."""

    async def add(self, key_id: str, record: bytes) -> bool:
        """Store a new record; return False if the id is taken."""

    async def replace(self, key_id: str, record: bytes) -> bool:
        """Replace the record of an id; return False if there is none."""

    async def remove(self, key_id: str) -> bool:
        """Remove a record; return False if there is none."""


class RequestCount(NamedTuple):
    """The requests of a key in the current window."""

    most: int  # requests allowed per window
    window: int  # seconds
    left: int  # requests left; -1 if this request exceeds the limit
    resets_in: int | None  # seconds until the next window, at least 1; None while requests are left


class RequestCounter(Protocol):
    """Counts the requests of API keys with a rate limit."""

    async def count(self, key_id: str, limit: str) -> RequestCount:
        """Count a request of a key against a limit such as `100/second`; raise `StoreError` if the store fails."""
