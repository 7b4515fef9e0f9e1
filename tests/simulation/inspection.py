"""Compares the server and the workers with the truth, after every step."""

from collections.abc import Sequence
from typing import Any

from service.rounds.sessions import ModelSession
from service.store.redis.redis_store import (
    _ACTIVATE,
    _ADD_FEEDBACK,
    _ADD_PREDICTIONS,
    _CHANGE_MODEL,
    _CLOSE_EXPIRED,
    _PUT_SHADOW,
    _SAVE_SHADOW,
    _SAVE_SNAPSHOT,
)
from tests.simulation.log_rounds import ViolationError
from tests.simulation.truths import Truths
from tests.simulation.workers import SimulatedWorker

_BEFORE_BLOCKS, _BEFORE_RECORDS = 3, 10
"""Keys and arguments of the script that stores predictions before those of its blocks."""

_OF_BLOCKS = {part for script in (_ADD_FEEDBACK, _ACTIVATE, _CLOSE_EXPIRED) for part in script}
"""The scripts that change stored blocks, by their digests and sources."""

_OF_FEEDBACK = (_ADD_FEEDBACK.sha, _ADD_FEEDBACK.source)
_OF_SHADOWS = {part for script in (_PUT_SHADOW, _SAVE_SHADOW, _CHANGE_MODEL) for part in script}
"""The scripts that concern shadows, by their digests and sources."""


class Inspection:
    """The checks of one run.

    Args:
        truths: the truths about all models.
    """

    def __init__(self, truths: Truths) -> None:
        self._truths = truths
        self._seen: dict[int, tuple[int, int, int]] = {}  # what each session had at the last check
        self.snapshots = 0

    def look(self, command: tuple[Any, ...], reply: Any) -> None:
        """Compare the server with the truth after a command.

        Raises:
            ViolationError: if the command broke a promise.
        """
        if not str(command[0]).startswith("EVAL") or not command[2]:
            return
        self._truths.look(str(command[3]))
        if command[1] in (_SAVE_SNAPSHOT.sha, _SAVE_SNAPSHOT.source):
            self._truths.check_snapshot(str(command[3]))
        if command[1] in _OF_SHADOWS:
            self._truths.check_shadows(str(command[3]))
        named, args = command[3 : 3 + command[2]], command[3 + command[2] :]
        if command[1] in _OF_BLOCKS:
            letters = [each[0] for each in reply[:-1]] if command[1] in _OF_FEEDBACK and isinstance(reply, list) else []
            self._truths.look_at_blocks(named[_BEFORE_BLOCKS:], b"".join(letters))
        if command[1] in (_ADD_PREDICTIONS.sha, _ADD_PREDICTIONS.source) and isinstance(reply, list):
            total, heads = reply[:2]
            if total is None:
                blocks = list(zip(named[_BEFORE_BLOCKS:], args[_BEFORE_RECORDS:], strict=True))
                self._truths.note_blocks(blocks, heads)

    def check(self, workers: Sequence[SimulatedWorker]) -> None:
        """Compare the states of the workers with the fold.

        Raises:
            ViolationError: if a state differs, or a worker has failed.
        """
        for worker in workers:
            if worker.loop.failures:
                raise ViolationError(f"worker {worker.name}: {worker.loop.failures[0]}")
            for session in worker.loaded:
                self._check_session(session)

    def _check_session(self, session: ModelSession) -> None:
        replica = session.replica
        seen, before = (replica.round_count, replica.change_count, replica.snapshot_rounds), self._seen.get(id(session))
        if before != seen:
            self.snapshots += before is not None and seen[2] > before[2]
            self._truths[replica.model.name].check_replica(replica)
            self._seen[id(session)] = seen
