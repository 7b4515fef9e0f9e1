"""The part of the store's interface that concerns the shadows of a model. See `service.store.base`."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from service.store.kept_store import Snapshot
from service.store.stored_models import ModelKey

KEPT_FOR_SHADOWS = 100_000
"""Most rounds that a log keeps for shadows that have not folded them. A shadow that lags more begins again."""


class StoredShadow(NamedTuple):
    """A shadow as stored."""

    name: str
    id: str  # differs whenever its learner is replaced
    slot: int  # names the key of its snapshot
    text: str  # JSON: see `service.shadows.definition`
    since_rounds: int  # its fold begins after these rounds of the log,
    since_changes: int  # and after these changes
    rounds: int | None  # in its snapshot; None without one
    restarts: int = 0  # how often it had to begin again

    @property
    def folded(self) -> int:
        """The number of rounds of the log up to which it has folded, in its snapshot."""
        return self.since_rounds if self.rounds is None else self.rounds


class ShadowStore(Protocol):
    """The shadows of models. Each change is atomic."""

    async def put_shadow(self, key: ModelKey, name: str, id_: str, text: str) -> bool:
        """Give a model a shadow, or an existing shadow another learner; return False if it has too many others.

        Its fold begins with the oldest round of the log. Repeating the call with the same id changes nothing.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def read_shadows(self, key: ModelKey) -> list[StoredShadow]:
        """Return the shadows of a model in the order of their names.

        Raises:
            StoreCorruptError: if they cannot be read.
        """

    async def drop_shadow(self, key: ModelKey, name: str) -> bool:
        """Remove a shadow; return whether it existed.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def load_shadow(self, key: ModelKey, shadow: StoredShadow) -> Snapshot | None:
        """Return the snapshot of a shadow, or None; raise as `Store.load_snapshot` does."""

    async def read_comparison(self, key: ModelKey, shadow: StoredShadow) -> bytes:
        """Return the comparison in the snapshot of a shadow, without its state; b"" without a snapshot."""

    async def save_shadow(self, key: ModelKey, shadow: StoredShadow, snapshot: Snapshot) -> int | None:
        """Store a snapshot of a shadow if it is newer than the stored one; its statistics are the comparison.

        Returns:
            The number of rounds in the snapshot that is now stored; None if the shadow is gone or has another learner.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def hold_rounds(self, key: ModelKey, rounds: int, change_count: int) -> None:
        """Keep the rounds after the first `rounds` in the log until a snapshot has seen `change_count` changes.

        At most `KEPT_FOR_SHADOWS` rounds are kept. A later call replaces an earlier one.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def restart_shadow(self, key: ModelKey, shadow: StoredShadow) -> None:
        """Let a shadow begin again with the oldest round of the log, unless its snapshot has changed since.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """

    async def watch_shadows(self, models: Sequence[ModelKey]) -> None:
        """List models among those with shadows. Listing them again changes nothing."""

    async def claim_shadows(self, offset: float, limit: int, seconds: float) -> list[ModelKey]:
        """Return up to `limit` models whose shadows are due, and reserve them for some seconds.

        The clock is that of the store, plus `offset` seconds.
        """

    async def put_off_shadows(self, key: ModelKey, offset: float, seconds: float) -> None:
        """Let the shadows of a model be due in some seconds."""

    async def unwatch_shadows(self, key: ModelKey) -> None:
        """Undo `watch_shadows` for one model, which has no shadows."""
