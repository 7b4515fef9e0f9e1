"""What the store keeps for the access to the service: the records of API keys, and counts of their requests."""

from typing import NamedTuple, Protocol


class KeyTable(Protocol):
    """The records of API keys; `service.access.keys` says what is in one. Every method raises `StoreError`."""

    async def get(self, key_id: str) -> bytes | None:
        """The record of a key."""

    async def all(self) -> dict[str, bytes]:
        """Every key's record by its id."""

    async def add(self, key_id: str, record: bytes) -> bool:
        """Stores a new record; False if the id is taken."""

    async def replace(self, key_id: str, record: bytes) -> bool:
        """Stores another record for an id; False if there is none."""

    async def remove(self, key_id: str) -> bool:
        """Removes a record; False if there is none."""


class RequestCount(NamedTuple):
    """The requests of a key in its window."""

    most: int  # requests in a window
    window: int  # seconds
    left: int  # requests; -1 if this one was too many
    resets_in: int | None  # seconds until the next window, at least 1; given only where none is left


class RequestCounter(Protocol):
    """Counts the requests of keys with a limit."""

    async def count(self, key_id: str, limit: str) -> RequestCount:
        """Counts a request of a key, whose limit is such as `100/second`; raises `StoreError`."""
