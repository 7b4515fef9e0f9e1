"""Models as stored."""

from collections.abc import Iterable
from typing import NamedTuple

import xxhash

from service.errors import StoreError

DIGEST_BYTES = 8


def digest_after(digest: bytes, line: bytes) -> bytes:
    """Return the digest of a history after a further change.

    Args:
        digest: the digest of the history before the change; empty if `line` is the definition.
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
    """Return the digest after `change_count` changes from joined digests; empty if there are fewer changes."""
    return digests[DIGEST_BYTES * change_count : DIGEST_BYTES * (change_count + 1)]


class Version(NamedTuple):
    """Identifies a definition of a model, as its ETag does."""

    incarnation: bytes
    digest: bytes  # of the history up to the last change


class ModelKey(NamedTuple):
    """Identifies one incarnation of a model. A model deleted and recreated under its name has another key."""

    name: str
    incarnation: str


class StoredPolicies(NamedTuple):
    """The policies of a model that the store applies itself, as text."""

    closing: str = ""  # the rule for closing expired predictions (`service.models.policies`); "" if they are not closed
    retention: str = ""  # `retain_seconds`; "" for none
    resting: str = ""  # replaces an empty `closing` if the model had a rule before: its open predictions must be closed
    bulk: str = ""  # "1" if the model is one of the flags that a bulk evaluation answers


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
    digests: bytes = b""  # the result of `digests_of` for the definition and the history
    abstained: int = 0  # rounds whose answer abstained


class ListedModel(NamedTuple):
    """The list entry of a model, which lacks the definition."""

    key: ModelKey
    summary: bytes | None  # summary of the model after its last change; None if missing
    definition_bytes: int
    created_at: float  # seconds since the epoch
    round_count: int
    predictions: int
    correct: int
    partial: float = 0.0  # sum of the rewards between 0 and 1
    digest: bytes = b""  # digest of the whole history
    abstained: int = 0  # rounds whose answer abstained
    damaged: int = 0  # number of unreadable rounds
    overview: bytes = b""  # what the published statistics say in short; empty if none were published

    @property
    def name(self) -> str:
        """The model's name."""
        return self.key.name


class UnreadModel(NamedTuple):
    """The list entry of a model that cannot be read, with the reason."""

    name: str
    error: StoreError
