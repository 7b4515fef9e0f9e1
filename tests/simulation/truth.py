"""What must be true of one model, checked after every command of the server and after every turn of a worker.

The truth is the log as the server appended it, entry after entry, and its sequential fold. Neither snapshots nor
trimming touch it. If a fault lets the server lose commands, the truth loses the same rounds.
"""

import bisect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from learners.base import Prices
from service.choice.requests import NO_OPTIONS, Options
from service.models.model import Model
from service.models.policies import closes
from service.prediction_id import STICKY
from service.replicas.replica import Replica
from service.store import keys
from service.store.log_entries import mark_of
from service.store.records.layout import EXPIRED, INACTIVE, KEY_BYTES, PENDING, ROUND
from service.store.records.optional_fields import GIVEN_COSTS, LogRows, OptionalFields
from service.store.redis.entry_codec import decode_entry
from service.store.stored_models import ModelKey
from service.store.values import ChangeEntry, DamagedSnapshotError, LogEntry
from tests.simulation.counters import Counters
from tests.simulation.event_loop import run_now
from tests.simulation.histories import Histories, Since
from tests.simulation.log_rounds import Asked, Own, Position, Round, Stored, ViolationError, end_of, split
from tests.simulation.pace import Pace
from tests.simulation.paces import InForce, paced
from tests.simulation.prices_in_force import PricesInForce
from tests.simulation.redis_server import RedisServer
from tests.simulation.reference_fold import ReferenceFold, bits_of
from tests.simulation.rules_in_force import RulesInForce, read_change
from tests.simulation.whole_log import WholeLog

_TOLERANCE = 1e-12
_ROUNDING = 1e-9  # of λ, relative


class Truth:
    """The truth about one model.

    Args:
        server: holds the model.
        key: the model.
        reach: returns the earliest and the latest moment that any clock may have shown.
        elapsed: returns the seconds since the simulation began.
        asked: the options of requests, by their contexts.
        most_open_bytes: of the predictions of a model; 0 for any.
    """

    def __init__(
        self,
        server: RedisServer,
        key: ModelKey,
        reach: Callable[[], tuple[float, float]],
        elapsed: Callable[[], float],
        asked: Mapping[Asked, Options],
        most_open_bytes: int = 0,
    ) -> None:
        self._server = server
        self._elapsed = elapsed
        self._reach = reach
        self._asked = asked
        self.key = key
        self.entries: list[LogEntry | ChangeEntry] = []
        self.change_count = 0
        self.rounds: list[Round] = []
        self.closed: dict[Own, int] = {}  # the number of its round
        self.histories, self._books = Histories(), Counters(most_open_bytes)
        self.acknowledged: dict[Own, tuple[int | None, float]] = {}  # round, if known, and reward
        self._evaluations: dict[tuple[Asked, int, int], set[str]] = {}  # the blocks of each user
        self.losses = 0
        self.newest = 0  # the newest acknowledged round
        self._acknowledged_at = [(-math.inf, 0)]  # moments, and the newest acknowledged round since
        self.lost: set[Own] = set()  # predictions that the server has lost; some are stored again
        self._store = WholeLog(server, self)
        first = self._store.stored_model(key)
        self._first = InForce(RulesInForce.at_first(first), PricesInForce.at_first(first))
        self._paces: dict[Position, Pace] = {(0, 0): Pace()}
        self._snapshot_at: Position = (0, 0)
        self._fold = ReferenceFold(self._store, key)
        self._fold.learn(None)

    @property
    def position(self) -> Position:
        """The rounds and changes of the log."""
        return len(self.rounds), self.change_count

    @property
    def model(self) -> Model:
        """The model after all changes of the log."""
        return self._fold.model

    @property
    def labels(self) -> list[str]:
        """The labels of the model that are not retired."""
        return [label for label in self.model.definition.labels if label not in self.model.retired]

    def look(self) -> bool:
        """Take the entries that the server has appended; return whether this incarnation of the model exists.

        Raises:
            ViolationError: if they break a promise.
        """
        there = self._counters()
        if there is None:
            left = self._server.look("EXISTS", *keys.lasting(*self.key)[1:])
            self._require(not left, f"{left} keys of {self.key} exist after its deletion")
            return False
        if there == self.position:
            return True
        last = f"({self.position[0]}-{self.position[1]}"
        for number, fields in self._server.look("XRANGE", keys.log(*self.key), last, "+"):
            before = self.position
            self._take(decode_entry(number, fields))
            self._fold.learn(self._mark)
            self._paces[self.position] = self._pace_after(before, self.entries[-1])
        self._require(there == self.position, f"the counters say {there}, the log {self.position}")
        return True

    def in_force(self, change_count: int) -> InForce:
        """Return the rules and prices after the first changes of the log."""
        rules, prices = self._first
        return InForce(rules.after(self.entries, change_count), prices.after(self.entries, change_count))

    def _pace_after(self, before: Position, entry: LogEntry | ChangeEntry) -> Pace:
        pace, point = self._paces[before], self._fold.points[before]
        if isinstance(entry, LogEntry):
            return paced(pace, entry, point.model, point.state, self.in_force(before[1]))
        state = read_change(entry.payload).get("state")
        if state is None:
            return pace
        if state == "initial":
            return Pace()
        if state.get("then_folds"):  # `ShadowTruth` checks it
            return Pace.in_state(self._fold.points[self.position].state)
        kept = run_now(self._store.load_kept(self.key, state["snapshot"]))
        assert kept is not None
        return self._paces[kept.round_count, kept.change_count]

    def _store_now(self) -> float:
        seconds, microseconds = self._server.look("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def _counters(self) -> Position | None:
        """Return the counters of the model; None if it was deleted."""
        own, rounds, changes = self._server.look("HMGET", keys.model(self.key.name), "incarnation", "rounds", "changes")
        return (int(rounds), int(changes or 0)) if own == self.key.incarnation.encode() else None

    @property
    def exists(self) -> bool:
        """Whether this incarnation of the model exists."""
        return self._counters() is not None

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise ViolationError(f"model {self.key.name}: {otherwise}")

    def _take(self, entry: LogEntry | ChangeEntry) -> None:
        rounds, changes = self.position
        self.entries.append(entry)
        if isinstance(entry, ChangeEntry):
            at = (entry.round_count, entry.change_count)
            self._require(at == (rounds, changes + 1), f"change {at} follows {(rounds, changes)}")
            self.change_count += 1
            return
        parts = self.model.choice.records.rows([entry.payload]).parts
        for i, record in enumerate(split(entry.payload)):
            row = np.frombuffer(record, ROUND.dtype(self.model.choice.answers.codec.dtype), 1)[0]
            self._take_round(entry.block, row, _price_of(parts, i))
        self._require(entry.last_round == len(self.rounds), f"entry {entry.last_round} ends with {len(self.rounds)}")

    def _take_round(self, block: str, row: Any, price: bytes) -> None:
        own, at = (block, int(row["token"])), int(row["round"])
        stored = self.histories.stored.get(own)
        self._require(at == len(self.rounds) + 1, f"round {at} has the wrong place")
        self._require(own not in self.closed, f"{own} is closed by rounds {self.closed.get(own)} and {at}")
        self._require(not self.histories.is_inactive(own), f"{own} is not activated, and has a round")
        logged = (row["output"].tobytes(), float(row["propensity"]), price)
        same = stored and (stored.output, stored.propensity, stored.price) == logged
        self._require(bool(same), f"round {at} of {own} is not the stored prediction {stored}")
        of_history = stored and stored.digest == self._store.digest_at(stored.changes_seen)
        self._require(bool(of_history), f"round {at} of {own} has seen changes that the server has lost")
        early = self.waits(own) and stored is not None and self._store_now() < stored.expires_at
        self._require(not early, f"{own} is closed before the end of its window")
        self.rounds.append(Round(own, float(row["reward"]), int(row["kind"]) == EXPIRED))
        self.closed[own] = len(self.rounds)

    @property
    def _mark(self) -> bytes | None:
        return mark_of(self.entries[-1]) if self.entries else None

    def note_stored(self, block: str, record: bytes) -> None:
        """Note a block of predictions that the server has stored.

        Raises:
            ViolationError: if a propensity is not that of the state after the rounds that the prediction has seen,
                under the rules and prices after the changes that it has seen, or if its price is another one.
        """
        waiting = self.model.choice.records.waiting(record)
        assert waiting is not None
        table, contexts, parts = rows = waiting.rows
        seen = int(table["rounds_seen"][0]), int(table["changes_seen"][0])
        point = self._fold.points.get(seen)
        if point is None:
            raise ViolationError(f"model {self.key.name}: a prediction has seen {seen}, the log has {self.position}")
        self._require(seen[1] == self.change_count, f"a prediction of {self.position} has seen {seen}")
        there = self.in_force(seen[1])
        prepared, prices = point.model.choice.prepared(contexts), self._prices(block, rows, there.prices, seen)
        decisions = point.model.learner.decide(point.state, prepared, parts.eligible, prices)
        for i, row in enumerate(table):
            own, output = (block, int(row["token"])), row["output"]
            nearest = there.rules.nearest_to(decisions.distributions[i].tolist(), parts.eligible[i].tolist())
            true, drawn = float(nearest[int(output)]), float(row["propensity"])
            self._require(abs(true - drawn) <= _TOLERANCE, f"{own} has the propensity {drawn}, and not {true}")
            self._require_forgotten(own)
            (shown,), price = point.model.choice.answers.show(table["output"][i : i + 1]), _price_of(parts, i)
            context: Asked = tuple(contexts.rows(i, i + 1).values.tolist())
            answer = context, output.tobytes(), str(shown.label), drawn, price
            stored = Stored(*answer, waiting.expires_at, *seen, waiting.history[1], self._server.moment)
            self._require_sticky(block, context)
            is_inactive = waiting.kinds[i] == INACTIVE
            asked = self._asked.get(context, NO_OPTIONS)
            self._require(is_inactive != asked.activated, f"{own} is stored as if activated were {not is_inactive}")
            self.histories.store(own, stored, is_inactive=is_inactive)
        self._books.open(block, record)
        self._require(self._books.has_room(0, int(self._store_now())), f"there was no room for block {block}")

    def _require_sticky(self, block: str, context: Asked) -> None:
        """Check that a user has one evaluation in each period, as the workers' clocks count them, until a change."""
        if not block.startswith(STICKY):
            return
        seconds = self.model.definition.ofrep.sticky_seconds
        first, last = (int(moment // seconds) for moment in self._reach())
        there = self._evaluations.setdefault((context, self.change_count, self.losses), set())
        there.add(block)
        self._require(len(there) <= last - first + 1, f"{there} are evaluations for one user")

    def _require_forgotten(self, own: Own) -> None:
        """Forget the round of a prediction that is stored again, which is right only if its key has expired."""
        before = self.histories.stored.get(own)
        self._require(before is None or self._may_end(before), f"{own} is stored twice")
        self.closed.pop(own, None)
        self.acknowledged.pop(own, None)

    def look_at_block(self, block: str) -> None:
        """Take what a command has changed in a block."""
        record = self._server.look("GET", keys.block(*self.key, block))
        if record is not None and self.model.choice.records.waiting(record) is None:
            self._books.close(block, record)
        for own, kind in self._open_in(block).items():
            if kind != INACTIVE:
                self.histories.activate(own, self._server.moment)

    def note_statuses(self, letters: bytes) -> None:
        """Note what a script says of feedback; see `Counters.note_statuses`."""
        self._books.note_statuses(letters)

    def note_refused(self, record: bytes, others: int) -> None:
        """Note that the server has no room for a block.

        Args:
            record: of the block.
            others: bytes for which the same script has counted room that it did not need.
        """
        has_room = self._books.has_room(others + len(record) + KEY_BYTES, int(self._store_now()))
        self._require(not has_room, "a block is refused, but there is room for it")
        self._books.refuse_predictions(record)

    def check_counters(self) -> None:
        """Check the counters after a script.

        Raises:
            ViolationError: if one is wrong.
        """
        difference = self._books.difference(self._fields(), int(self._store_now()))
        self._require(not difference, difference)

    def _fields(self) -> dict[bytes, bytes]:
        words = iter(self._server.look("HGETALL", keys.model(self.key.name)))
        return dict(zip(words, words, strict=True))

    def since(self, max_lag_seconds: float) -> Since:
        """Return what is true now, at the arrival of a request for a model with such a freshness."""
        newest = self.newest_before(max_lag_seconds) if max_lag_seconds else self.newest
        return Since(self._server.moment, self.losses, newest, self.change_count)

    def _prices(self, block: str, rows: LogRows, there: PricesInForce, seen: Position) -> Prices:
        """Return the prices of new predictions, and check that they are stored."""
        found = list[tuple[float, list[float]]]()
        for i in range(len(rows.table)):
            options = self._asked.get(tuple(rows.contexts.rows(i, i + 1).values.tolist()), NO_OPTIONS)
            true, stored = there.of(options, self._paces[seen]), _price_of(rows.parts, i)
            right = true is None and not stored
            weight, costs = true or (0.0, [0.0] * len(there.labels))
            if true is not None and stored:
                drawn, cost = rows.parts.prices[i].tolist()
                named = [
                    (there.labels[label], each) for label, each in np.frombuffer(stored[16:], GIVEN_COSTS).tolist()
                ]
                own = cost == costs[int(rows.table["output"][i])], named == list(options.costs or ())
                right, weight = all(own) and math.isclose(drawn, weight, rel_tol=_ROUNDING), drawn
            self._require(right, f"a prediction of {block} after {seen} stores the price {stored!r}, and not {true}")
            found.append((weight, costs))
        weights, costs_of_all = zip(*found, strict=True)
        return Prices(np.array(weights), np.array(costs_of_all))

    def acknowledge(self, own: Own, number: int | None, reward: float, since: Since) -> None:
        """Note feedback that a worker acknowledges, unless the server has lost it, or the prediction's key has expired.

        Args:
            own: the prediction.
            number: of its round, if known.
            reward: as answered.
            since: the arrival of the feedback.

        Raises:
            ViolationError: if the log has had no such round since then.
        """
        there = None if number is None or number > len(self.rounds) else self.rounds[number - 1]
        is_there = there is not None and (there.own, there.reward) == (own, reward)
        if not is_there and since.losses < self.losses:
            return
        self._require(
            is_there or number is None,
            f"feedback {reward} for {own} is acknowledged as round {number}, which is {there}",
        )
        if len(self.histories.stored_since(own, since.moment)) == 1:
            self.acknowledged[own] = (number, reward)
        self.newest = max(self.newest, number or 0)
        self._acknowledged_at.append((self._elapsed(), self.newest))

    def newest_before(self, seconds: float) -> int:
        """Return the newest round that was acknowledged more than some time ago."""
        place = bisect.bisect_left(self._acknowledged_at, (self._elapsed() - seconds, 0)) - 1
        return self._acknowledged_at[max(place, 0)][1]

    def lose(self) -> list[Own]:
        """Note that the server has lost its last commands; return the predictions whose acknowledged rounds it lost."""
        self.losses += 1
        if (counters := self._counters()) is None:
            return []
        rounds, changes = counters
        self._snapshot_at = (0, 0)
        self.newest = min(self.newest, rounds)
        self._acknowledged_at = [(at, min(newest, rounds)) for at, newest in self._acknowledged_at]
        undone = self.rounds[rounds:]
        self.rounds, self.change_count = self.rounds[:rounds], changes
        for number, each in enumerate(undone, rounds + 1):
            self.histories.undo(number, each)
            self.closed.pop(each.own, None)
        self.entries = [entry for entry in self.entries if end_of(entry) <= (rounds, changes)]
        for own in [own for own in self.histories.stored if not self._has(own)]:
            self.lost.add(own)
            self.histories.forget(own)
        for own in self.histories.once_inactive:
            if self._open_in(own[0]).get(own) == INACTIVE:
                self.histories.deactivate(own)
        self._require(self.position == (rounds, changes), "a loss split an entry")
        self._paces = {at: pace for at, pace in self._paces.items() if at <= (rounds, changes)}
        self._fold.cut((rounds, changes), self._mark)
        self._books.lose(self._fields(), self._open_record)
        gone = [own for own in self.acknowledged if own not in self.closed and not self._holds_feedback(own)]
        for own in gone:
            self.acknowledged.pop(own, None)
        return gone

    def _has(self, own: Own) -> bool:
        return own in self.closed or bool(self._server.look("EXISTS", keys.block(*self.key, own[0])))

    def waits(self, own: Own) -> bool:
        """Whether feedback for a prediction may wait for the end of its window."""
        return self.model.definition.learn == "at_window_close" and own not in self.closed

    def has_expired(self, own: Own) -> bool:
        """Whether a prediction was closed without feedback."""
        number = self.closed.get(own)
        return own not in self._open_in(own[0]) if number is None else self.rounds[number - 1].is_expired

    def may_have_expired(self, own: Own, since: Since) -> bool:
        """Whether the window of what was stored since a moment as a prediction may have ended, by some clock.

        No clock of a later moment is later than the one that judged by more than the clocks differ.
        """
        return any(map(self._may_end, self.histories.stored_since(own, since.moment)))

    def _may_end(self, stored: Stored) -> bool:
        return stored.expires_at < self._reach()[1]

    def _holds_feedback(self, own: Own) -> bool:
        """Whether feedback for a prediction waits for the end of its window."""
        return self._open_in(own[0]).get(own) == PENDING

    def _open_record(self, block: str) -> bytes | None:
        """Return the record of a block; None if it is gone, or if each of its predictions has a round."""
        record: bytes | None = self._server.look("GET", keys.block(*self.key, block))
        return record if record is not None and self.model.choice.records.waiting(record) is not None else None

    def _open_in(self, block: str) -> dict[Own, int]:
        """Return the predictions of a block that have no round, with the kinds of their outcomes."""
        record = self._server.look("GET", keys.block(*self.key, block))
        waiting = None if record is None else self.model.choice.records.waiting(record)
        if waiting is None:
            return {}
        tokens = waiting.rows.table["token"].tolist()
        return {(block, token): kind for token, kind in zip(tokens, waiting.kinds, strict=True)}

    def check_replica(self, replica: Replica) -> None:
        """Check that a state of a worker is the fold.

        Raises:
            ViolationError: if not.
        """
        if replica.lock.locked() or replica.state is None or replica.model.key != self.key:
            return
        at = replica.round_count, replica.change_count
        point, mark = self._fold.points.get(at), replica.seen().last_at
        if point is None or mark != point.mark:  # the worker has not noticed a loss, or does not know the mark
            self._require(self.losses > 0 or (point is not None and mark is None), f"a state at {at}, {mark!r}")
            return
        self._require(
            bits_of(replica.model, replica.state) == point.bits,
            f"the state of a worker after {at} is not the fold of the log",
        )

    def check_snapshot(self) -> None:
        """Check that the stored snapshot is the fold, and newer than the one before.

        Raises:
            ViolationError: if not.
        """
        try:
            snapshot = run_now(self._store.stored_snapshot(self.key))
        except DamagedSnapshotError as error:
            raise ViolationError(f"model {self.key.name}: the stored snapshot is damaged: {error}") from error
        if snapshot is None:
            return
        at = snapshot.round_count, snapshot.change_count
        point = self._fold.points.get(at)
        right = point is not None and bytes(snapshot.state) == point.bits
        self._require(right, f"the snapshot of {at} is not the fold of the log")
        self._require(at >= self._snapshot_at, f"the snapshot of {self._snapshot_at} is replaced by one of {at}")
        self._snapshot_at = at

    def check_end(self, due: float) -> None:
        """Check the model after all requests have ended.

        Args:
            due: the moment, by the store's clock, before which all windows must be closed.
        """
        self.look()
        if not self.exists:
            return
        for own, (number, reward) in self.acknowledged.items():
            closed_by = self.closed.get(own)
            if number is not None or closed_by is not None:
                there = None if closed_by is None else self.rounds[closed_by - 1]
                self._require(there is not None and there.reward == reward, f"{own}: {number}, {reward} became {there}")
        for own, stored in self.histories.stored.items():
            name = keys.block(*self.key, own[0])
            self._require(self._server.look("PTTL", name) != -1, f"{name} is never deleted")
            is_due = closes(self.model.definition) and stored.expires_at < due
            self._require(not (is_due and own in self._open_in(own[0])), f"{own} is open after its window")
        late = self._server.look("ZRANGEBYSCORE", keys.deadlines(*self.key), "-inf", repr(due))
        self._require(not late, f"{len(late)} blocks are not closed after their windows")
        counted = self._server.look("HMGET", keys.model(self.key.name), "correct", "expired")
        right, expired = (int(each or 0) for each in counted)
        true = (sum(each.reward == 1 for each in self.rounds), sum(each.is_expired for each in self.rounds))
        self._require((right, expired) == true, f"the counters say {(right, expired)}, the log {true}")


def _price_of(parts: OptionalFields, i: int) -> bytes:
    """Return the price of a prediction or a round: λ, the cost and the costs that the request gave; b"" without one."""
    if not parts.prices.size or np.isnan(parts.prices[i]).all():
        return b""
    price: bytes = parts.prices[i].tobytes()
    return price + (parts.costs[i] if parts.costs else b"")
