"""What must be true of the shadows of a model: each snapshot of one is the fold of the whole log by its learner."""

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from service.models.changes import FromSnapshot, read_change
from service.shadows.definition import read_definition
from service.shadows.replica import ShadowReplica
from service.store.stored_models import ModelKey
from service.store.values import ChangeEntry, LogEntry, Snapshot, StoredShadow, Tail
from tests.simulation.event_loop import run_now
from tests.simulation.log_rounds import Position, ViolationError, end_of
from tests.simulation.pace import Pace
from tests.simulation.paces import paced
from tests.simulation.reference_fold import bits_of
from tests.simulation.whole_log import WholeLog
from tests.simulation.workers import InlineCompute

if TYPE_CHECKING:
    from tests.simulation.redis_server import RedisServer
    from tests.simulation.truth import Truth


class ShadowTruth:
    """The truth about the shadows of one model.

    Args:
        server: holds their snapshots.
        truth: the truth about the model.
    """

    def __init__(self, server: "RedisServer", truth: "Truth") -> None:
        self._server, self._truth = server, truth
        self._store = WholeLog(server, truth)
        self._known = set[StoredShadow]()  # all that ever existed, without their snapshots
        self._paced = set[tuple[StoredShadow, Position]]()
        self._promoted = 0  # changes whose promotion is checked

    def check(self) -> None:
        """Check the snapshots of all shadows, and the state with which the model continues after a promotion.

        Raises:
            ViolationError: if a snapshot is not the fold of the log.
        """
        for shadow in run_now(self._store.read_shadows(self._truth.key)):
            begun = shadow._replace(rounds=None)
            self._known.add(begun)
            if shadow.rounds is not None:
                snapshot = run_now(self._store.load_shadow(self._truth.key, shadow))
                self._require(snapshot is not None and self._is_fold(begun, snapshot), f"shadow {shadow}")
                assert snapshot is not None
                self._check_pace([begun], (snapshot.round_count, snapshot.change_count))
        changes = [each for each in self._truth.entries if isinstance(each, ChangeEntry)]
        for entry in changes[min(self._promoted, len(changes)) :]:
            self._check_promotion(entry)
        self._promoted = len(changes)

    def _check_promotion(self, entry: ChangeEntry) -> None:
        change = read_change(entry.payload.decode())
        if change.promotion is None or not isinstance(change.state, FromSnapshot):
            return
        snapshot = run_now(self._store.load_kept(self._truth.key, change.state.snapshot))
        possible = [each for each in self._known if read_definition(each).learner == change.learner]
        right = snapshot is not None and any(self._is_fold(each, snapshot) for each in possible)
        self._require(right, f"the promoted shadow {change.promotion.shadow}")
        end = (entry.round_count, entry.change_count - 1)
        self._check_pace(possible, end)

    def _check_pace(self, possible: Sequence[StoredShadow], end: Position) -> None:
        """Check λ of one of some shadows at a position, once."""
        new = [(each, end) for each in possible if (each, end) not in self._paced]
        if len(new) == len(possible):
            self._require(any(self._is_paced(*each) for each in new), f"a shadow at {end}, or its λ,")
            self._paced.update(new)

    def _is_paced(self, shadow: StoredShadow, end: Position) -> bool:
        """Whether the state of a shadow at the end has the pace after each round since the shadow's start."""
        at = shadow.since_rounds, shadow.since_changes
        store, pace = _LogUntil(self._server, self._truth, at, shadow), Pace()
        replica = ShadowReplica(store.stored_model(self._truth.key), store, InlineCompute(), shadow)
        run_now(replica.advance(lambda: True))
        if not replica.model.learner.weighs_costs:
            return True
        for entry in self._truth.entries:
            if not at < end_of(entry) <= end:
                continue
            if isinstance(entry, LogEntry):
                there = self._truth.in_force(replica.change_count)
                pace = paced(pace, entry, replica.model, replica.state, there)
            store.go_on(end_of(entry))
            run_now(replica.advance(lambda: True))
        return np.allclose(pace, Pace.in_state(replica.state), rtol=1e-9, atol=1e-9)

    def _is_fold(self, shadow: StoredShadow, snapshot: Snapshot) -> bool:
        """Whether a snapshot has the state and the comparison that the fold of the log has, from the shadow's start."""
        end, begin = (snapshot.round_count, snapshot.change_count), (shadow.since_rounds, shadow.since_changes)
        if end < begin:
            return False
        store = _LogUntil(self._server, self._truth, end, shadow)
        replica = ShadowReplica(store.stored_model(self._truth.key), store, InlineCompute(), shadow)
        run_now(replica.advance(lambda: True))
        true = bits_of(replica.model, replica.state), replica.sums.encode()
        return true == (bytes(snapshot.state), bytes(snapshot.statistics))

    def _require(self, holds: bool, which: str) -> None:
        if not holds:
            raise ViolationError(f"model {self._truth.key.name}: the snapshot of {which} is not the fold of the log")


class _LogUntil(WholeLog):
    """The log until some entry, with one shadow that has no snapshot."""

    def __init__(self, server: "RedisServer", truth: "Truth", end: Position, shadow: StoredShadow) -> None:
        super().__init__(server, truth)
        self._shadow = shadow
        self.go_on(end)

    def go_on(self, end: Position) -> None:
        """Let the log go on until a later entry."""
        self._entries = list(takewhile(lambda entry: end_of(entry) <= end, self._truth.entries))
        self._end = end

    async def read_shadows(self, _: ModelKey) -> list[StoredShadow]:
        return [self._shadow]

    async def load_shadow(self, _: ModelKey, __: StoredShadow) -> Snapshot | None:
        return None

    async def read_tail(self, _: ModelKey, after: int, __: int) -> Tail:
        rounds = [each for each in self._entries if isinstance(each, LogEntry) and each.last_round > after]
        changes = tuple(each for each in self._entries if isinstance(each, ChangeEntry) and each.round_count >= after)
        return Tail(self._end[0], rounds, 0, self._end[1], changes, self.digest_at(self._end[1]))
