"""Models as stored."""

from collections.abc import Iterable
from typing import NamedTuple

import xxhash

from service.errors import StoreError

DIGEST_BYTES = 8


def digest_after(digest: bytes, line: bytes) -> bytes:
    """Return the digest of a history after a further change.

    Args:
        digest: the digest of the history before the change; empty for the definition.
        line: the change as stored, or the definition.
    """
    return xxhash.xxh3_64_digest(digest + line)


def digests_of(lines: Iterable[str], before: bytes = b"") -> bytes:
    """Return the joined digests of a history after each line: the definition, then the changes.

    A store may lose a change and then receive another one with its number. The digest distinguishes the two histories.

    Args:
        lines: the stored lines.
        before: the digest before these lines; empty if the first one is the definition.
    """
    found = [before]
    for line in lines:
        found.append(digest_after(found[-1], line.encode()))
    return b"".join(found[1:])


def digest_at(digests: bytes, change_count: int) -> bytes:
    """Return the digest after some number of changes; empty if there are fewer."""
    return digests[DIGEST_BYTES * change_count : DIGEST_BYTES * (change_count + 1)]


class ModelKey(NamedTuple):
    """Identifies one incarnation of a model. A model deleted and recreated under its name has another key."""

    name: str
    incarnation: str


class StoredPolicies(NamedTuple):
    """The policies of a model that the store applies itself, as text."""

    closing: str = ""  # its rule for closing expired predictions (`service.models.policies`); "" if they are not closed
    retention: str = ""  # `retain_seconds`; "" for none
    resting: str = ""  # stored as `closing` if a change would empty it, because open predictions must still be closed


NO_POLICIES = StoredPolicies()


class StoredModel(NamedTuple):
    """A model with its definition and counters."""

    key: ModelKey
    definition: str  # JSON
    created_at: float  # seconds since the epoch
    round_count: int
    predictions: int
    correct: int
    damaged: int = 0  # number of unreadable rounds
    warnings: tuple[str, ...] = ()  # limits that the learner's state has reached
    partial: float = 0.0  # sum of the rewards between 0 and 1
    history: tuple[str, ...] = ()  # every change of the model as JSON, oldest first
    digests: bytes = b""  # see `digests_of`
    abstained: int = 0  # rounds whose answer abstained


class ListedModel(NamedTuple):
    """The list entry of a model, which lacks the definition."""

    key: ModelKey
    summary: bytes | None  # of the model after its last change; None if missing
    definition_bytes: int
    created_at: float  # seconds since the epoch
    round_count: int
    predictions: int
    correct: int
    partial: float = 0.0  # sum of the rewards between 0 and 1
    digest: bytes = b""  # of its history
    abstained: int = 0  # rounds whose answer abstained

    @property
    def name(self) -> str:
        """The model's name."""
        return self.key.name


class UnreadModel(NamedTuple):
    """The list entry of a model that cannot be read, and the reason."""

    name: str
    error: StoreError


class ModelPage(NamedTuple):
    """Models in name order, and the cursor of the next page; None on the last page."""

    models: list[ListedModel | UnreadModel]
    next_cursor: str | None
