"""Reads a model's log for clients: one line per round, in pages."""

from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from service import costs
from service.compute import Compute
from service.error_messages.values import quoted
from service.errors import StoreUnavailableError
from service.json_values import JsonObject
from service.models.model import Model
from service.prediction_id import PredictionId
from service.replicas.starts import model_after
from service.schemas.rounds import LoggedAction, RoundLine
from service.store.capabilities import Store
from service.store.log_entries import read_page
from service.store.records.layout import EXPIRED, HOLDOUT
from service.store.records.optional_fields import ANOTHERS, GIVEN_COSTS, LogRows
from service.store.records.outcomes import bit_of
from service.store.values import LogEntry, Tail

_PAGE_BYTES = 2**19  # bytes of the log per page, not counting contexts whose size varies
_ATTEMPTS = 20  # maximum attempts to read the log and the model while others change it


class LogReader:
    """Reads the log of one model."""

    def __init__(self, model: Model, store: Store, compute: Compute) -> None:
        self._model = model
        self._store = store
        self._compute = compute

    async def read(self, after: int, limit: int) -> AsyncIterator[Sequence[RoundLine]]:
        """Return up to `limit` rounds after round `after`, in pages. Raise the errors of the first page immediately."""
        return self._pages(*await self._page(after, limit), limit)

    async def _pages(self, lines: list[RoundLine], last: int | None, limit: int) -> AsyncIterator[Sequence[RoundLine]]:
        while True:
            if lines:
                yield lines
            limit -= len(lines)
            if last is None or limit <= 0:
                return
            lines, last = await self._page(last, limit)

    async def _page(self, after: int, limit: int) -> tuple[list[RoundLine], int | None]:
        """Return the lines of a page, and the number of the last round read; None if the log has no more rounds."""
        most = max(1, min(limit, _PAGE_BYTES // self._model.choice.records.round_bytes))
        tail = await self._read_tail(after, most)
        model = self._model
        entries = _following(tail.entries, after)
        cost = sum(len(entry.payload) for entry in entries) * costs.PRINTED_BYTE
        lines = await self._compute.run_in_thread_if_costly(cost, model.name, _lines_after, model, entries, after)
        return lines[:limit], entries[-1].last_round if entries else None

    async def _read_tail(self, after: int, most: int) -> Tail:
        """Read a part of the log; read the model again until it has the same history as the log.

        The model may have changed since it was read, or the store may have lost changes.
        """
        for _ in range(_ATTEMPTS):
            tail = await self._store.read_tail(self._model.key, after, most)
            if tail.digest == self._model.digest:
                return tail
            self._model = await model_after(self._store, self._compute, self._model)
        raise StoreUnavailableError(f"model {quoted(self._model.name)} changes too fast; try again")


def _following(entries: Sequence[LogEntry], after: int) -> list[LogEntry]:
    """Leave out entries that end no later than an earlier one: a damaged log may contain such entries."""
    found = list[LogEntry]()
    for entry in entries:
        if entry.last_round > after:
            found.append(entry)
            after = entry.last_round
    return found


def _lines_after(model: Model, entries: list[LogEntry], after: int) -> list[RoundLine]:
    ends, stretches = [entry.last_round for entry in entries], read_page(model.choice.records, entries)
    lines = [
        line
        for stretch in stretches
        if stretch.rows is not None
        for line in _lines(model, stretch.rows, lambda number: entries[bisect_left(ends, number)])
    ]
    return [line for line in lines if line.round > after]


def _lines(model: Model, rows: LogRows, entry_of: Callable[[int], LogEntry]) -> Iterator[RoundLine]:
    table = rows.table
    for i, line in enumerate(table):
        (answer, right, context, actions), entry = model.choice.logged(rows, i), entry_of(int(line["round"]))
        reward = float(line["reward"])
        correct = bit_of(reward)
        id_ = PredictionId(model.name, entry.block, int(line["token"]))
        yield RoundLine(
            round=int(line["round"]),
            prediction_id=str(id_),
            label=answer.label,
            labels=answer.labels,
            propensity=float(line["propensity"]),
            outcome="expired" if line["kind"] == EXPIRED else "feedback",
            correct=correct,
            reward=reward,
            abstained=correct is None and right.label is not None,
            true_label=right.label,
            true_labels=right.labels,
            context=context,
            actions=None if actions is None else [LoggedAction(**each._asdict()) for each in actions.actions],
            action_count=None if actions is None else actions.n,
            eligible=_eligible(model, rows, i),
            holdout=bool(line["flags"] & HOLDOUT),
            **price_of(model, rows, i),
            rounds_seen=int(line["rounds_seen"]),
            changes_seen=int(line["changes_seen"]),
            changes=entry.change_count,
            predicted_at=moment(line["predicted_at"]),
            feedback_at=moment(line["feedback_at"]),
        )


def price_of(model: Model, rows: LogRows, i: int) -> JsonObject:
    """Return the fields `cost`, `cost_weight` and `costs` of a round; nothing if it has no price."""
    prices, costs = rows.parts.prices, rows.parts.costs
    if not prices.size or np.isnan(prices[i, 0]):
        return {}
    weight, cost = prices[i].tolist()
    found = {"cost": cost, "cost_weight": None if weight == ANOTHERS else weight}
    if costs[i]:
        given = np.frombuffer(costs[i], GIVEN_COSTS).tolist()
        found["costs"] = {model.definition.labels[label]: each for label, each in given}
    return found


def _eligible(model: Model, rows: LogRows, i: int) -> list[str] | None:
    eligible = rows.parts.eligible
    if not eligible.shape[1] or eligible[i].all():
        return None
    return [model.definition.labels[k] for k in np.flatnonzero(eligible[i])]


def moment(seconds: Any) -> datetime:
    """Convert seconds since the epoch to a UTC datetime."""
    return datetime.fromtimestamp(float(seconds), UTC)
