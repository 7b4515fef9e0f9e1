"""The use cases of kept snapshots: take, list and delete."""

from service import errors
from service.environment import Environment
from service.error_messages.values import quoted
from service.models.changes import FromSnapshot, read_change
from service.models.reading import reading_cost
from service.registry.registry import stored_under
from service.registry.round_log import moment
from service.rounds.sessions import SessionCache
from service.schemas.lifecycle import SnapshotAnswer, SnapshotList, SnapshotRequest
from service.store.stored_models import DIGEST_BYTES, StoredModel
from service.store.values import MOST_KEPT, Keeping, KeptNote

_ATTEMPTS = 10  # attempts to keep or delete a snapshot while the log changes


class Snapshots:
    """The kept snapshots of all models."""

    def __init__(self, environment: Environment, sessions: SessionCache) -> None:
        self._environment, self._store, self._sessions = environment, environment.store, sessions

    async def take(self, name: str, request: SnapshotRequest, by: str | None) -> SnapshotAnswer:
        """Keep a snapshot that has seen every round acknowledged so far.

        A request that is repeated with the same id and note returns the first snapshot; another note raises
        `SnapshotExistsError`.
        """
        id_ = request.id or self._environment.new_id()
        for _ in range(_ATTEMPTS):
            stored = await stored_under(self._store, name)
            for note in await self._store.list_kept(stored.key):
                if note.id == id_ and note.note != request.note:
                    detail = f"snapshot {quoted(note.id)} has the note {quoted(note.note)}"
                    raise errors.SnapshotExistsError(detail, "id")
                if note.id == id_:
                    return _answer(note)
            model, snapshot = await self._sessions.current(name)
            seen, size = (snapshot.round_count, snapshot.change_count), len(snapshot.state)
            note = KeptNote(id_, *seen, self._environment.now(), by, request.note, size)
            kept = await self._store.keep_snapshot(model.key, note, snapshot)
            if kept is Keeping.DONE:
                return _answer(note)
            if kept is Keeping.FULL:
                detail = f"the model has {MOST_KEPT} snapshots, the most that it may have; delete one"
                raise errors.TooManySnapshotsError(detail)
        detail = f"the log of model {quoted(name)} changes too fast for a snapshot; try again"
        raise errors.StoreUnavailableError(detail)

    async def list(self, name: str) -> SnapshotList:
        """Return the kept snapshots of a model, the oldest first."""
        notes = await self._store.list_kept((await stored_under(self._store, name)).key)
        return SnapshotList(snapshots=[_answer(note) for note in notes], most=MOST_KEPT)

    async def drop(self, name: str, id_: str) -> None:
        """Delete a kept snapshot; raise `SnapshotNeededError` if a change in the log needs it."""
        for _ in range(_ATTEMPTS):
            stored = await stored_under(self._store, name)
            run, cost = self._environment.compute.run_in_thread_if_costly, reading_cost(stored)
            needed_by = (await run(cost, name, last_uses, stored)).get(id_, 0)
            dropped = await self._store.drop_kept(stored.key, id_, stored.digests[-DIGEST_BYTES:], needed_by)
            match dropped:
                case Keeping.DONE:
                    return
                case Keeping.ABSENT:
                    raise errors.SnapshotNotFoundError(f"the model has no snapshot {quoted(id_)}", "snapshot")
                case Keeping.NEEDED:
                    detail = f"change {needed_by} continues from it, and the log keeps this change until"
                    raise errors.SnapshotNeededError(f"{detail} enough rounds follow", "snapshot")
        raise errors.StoreUnavailableError(f"model {quoted(name)} changes too fast; try again")


def _answer(note: KeptNote) -> SnapshotAnswer:
    return SnapshotAnswer(
        id=note.id,
        rounds=note.round_count,
        changes=note.change_count,
        at=moment(note.at),
        by=note.by,
        note=note.note,
        bytes=note.bytes,
    )


def last_uses(stored: StoredModel) -> dict[str, int]:
    """Return the ids of the kept snapshots from which changes continue, with the number of the last such change."""
    states = [read_change(line).state for line in stored.history]
    return {each.snapshot: number for number, each in enumerate(states, 1) if isinstance(each, FromSnapshot)}
