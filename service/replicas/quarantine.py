"""The damaged rounds of a log, which every worker skips.

The damage record in the store is authoritative. A worker that finds unreadable rounds records them before it continues.
Other workers may have folded these rounds before they were damaged; these workers then start again and skip the rounds
as well. They detect a new record by its version, which comes with every tail of the log. If the stored snapshot already
includes some of the rounds, nothing is recorded: the worker starts from that snapshot and no longer needs the rounds.
"""

import logging
from collections.abc import Sequence

from service.errors import StoreCorruptError
from service.models.model import Model
from service.store.capabilities import DamageRecords
from service.store.log_entries import Stretch, read_entries
from service.store.records.records import RecordFormat
from service.store.values import Damage, LogEntry

_log = logging.getLogger(__name__)


class Quarantine:
    """The rounds that one replica skips."""

    def __init__(self, model: Model, store: DamageRecords) -> None:
        self.version = 0  # version of the damage record when it was last read
        self._model = model
        self._store = store
        self._left_out: list[Damage] = []

    async def refresh(self, rounds: int) -> bool:
        """Reread the damage record; return whether it lists new damage that begins in the first `rounds` rounds."""
        record = await self._store.read_damage(self._model.key)
        known = {(each.first, each.last) for each in self._left_out}
        self._left_out = [each for each in record.found if not each.snapshot]
        self.version = record.version
        return any(each.first <= rounds and (each.first, each.last) not in known for each in self._left_out)

    async def read(self, form: RecordFormat, entries: Sequence[LogEntry], after: int) -> Stretch | None:
        """Read the entries after a round; return None if the replica must start from the snapshot.

        Args:
            form: the format of the model's rounds.
            entries: consecutive entries of its log.
            after: the number of the last round before these entries.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
            StoreCorruptError: if rounds are missing.
            NewerVersionError: if a newer version wrote part of a round.
        """
        stretch = self._read(form, entries, after)
        while stretch.damaged:
            if not await self._record(stretch.damaged):
                return None
            await self.refresh(after)
            stretch = self._read(form, entries, after)
        return stretch

    async def add(self, number: int, reason: str) -> bool:
        """Record a damaged round; return False if the replica must start from the snapshot instead.

        With the next tail, the replica notices the record, starts from the snapshot, and folds the other rounds again.

        Raises:
            ModelNotFoundError: if this incarnation of the model is gone.
        """
        return await self._record([Damage(number, number, number, reason)])

    async def _record(self, found: Sequence[Damage]) -> bool:
        for each in found:
            _log.error("model %s: rounds %d to %d: %s", self._model.name, each.first, each.last, each.reason)
        return await self._store.record_damage(self._model.key, found)

    def _read(self, form: RecordFormat, entries: Sequence[LogEntry], after: int) -> Stretch:
        last = entries[-1].last_round if entries else after
        left_out = [each for each in self._left_out if after < each.last and each.first <= last]
        return read_entries(form, entries, after, left_out)


class UnrecordedQuarantine(Quarantine):
    """The rounds that a fold skips which only reads. Damage that no worker has recorded ends this fold."""

    async def _record(self, found: Sequence[Damage]) -> bool:
        first, last, reason = found[0].first, found[-1].last, found[0].reason
        raise StoreCorruptError(f"rounds {first:,} to {last:,} of the log are damaged: {reason}")
