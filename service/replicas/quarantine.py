"""What a worker leaves out of a log, the same as every other worker.

The record in the store decides. A worker that meets rounds it cannot read records them before it goes on, so that
others, which may have folded them before they were damaged, leave them out as well; they notice by the version of the
record, which comes with every tail of the log. A snapshot that has seen the rounds settles it the other way: then it
is started from, and they are no longer asked for.
"""

import logging
from collections.abc import Sequence

from service.models.model import Model
from service.store.base import LogEntry, Store
from service.store.damage import Damage
from service.store.log_entries import Stretch, read_entries

_log = logging.getLogger(__name__)


class Quarantine:
    """What one replica leaves out."""

    def __init__(self, model: Model, store: Store) -> None:
        self.version = 0  # of the record, as far as it is heeded
        self._model = model
        self._store = store
        self._left_out: list[Damage] = []

    async def heed(self, rounds: int) -> bool:
        """Read the record again; tell whether something new in it is among the first rounds."""
        record = await self._store.read_damage(self._model.key)
        known = {(each.first, each.last) for each in self._left_out}
        self._left_out = [each for each in record.found if not each.snapshot]
        self.version = record.version
        return any(each.first <= rounds and (each.first, each.last) not in known for each in self._left_out)

    async def read(self, entries: Sequence[LogEntry], after: int) -> Stretch | None:
        """Return what can be read of entries behind some round; None if the snapshot is to be started from.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if rounds are missing.
        """
        stretch = self._read(entries, after)
        while stretch.damaged:
            if not await self._record(stretch.damaged):
                return None
            await self.heed(after)
            stretch = self._read(entries, after)
        return stretch

    async def add(self, number: int, reason: str) -> bool:
        """Record a round; tell whether it is on record, or else the snapshot is to be started from.

        It is heeded with the next tail: what was learned behind it is learned again.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """
        return await self._record([Damage(number, number, number, reason)])

    async def _record(self, found: Sequence[Damage]) -> bool:
        for each in found:
            _log.error("model %s: rounds %d to %d: %s", self._model.name, each.first, each.last, each.reason)
        return await self._store.record_damage(self._model.key, found)

    def _read(self, entries: Sequence[LogEntry], after: int) -> Stretch:
        last = entries[-1].last_round if entries else after
        left_out = [each for each in self._left_out if after < each.last and each.first <= last]
        return read_entries(self._model.format, entries, after, left_out)
