"""Compares a replica's position with a tail of the log, and selects the rounds to read and to fold.

A tail may begin with the last entry that the state includes, so that this entry can be compared with the log's.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from learners.base import BoolArray, IntArray, Rounds
from service import costs
from service.choice.prices import Bills
from service.models.model import Model
from service.store.log_entries import begin_of
from service.store.records.layout import HOLDOUT
from service.store.records.optional_fields import LogRows
from service.store.records.records import RecordFormat
from service.store.values import ChangeEntry, LogEntry, Tail


class Position(NamedTuple):
    """How much of a log a state includes: the log's first `round_count` rounds and `change_count` changes."""

    round_count: int
    change_count: int


class News(NamedTuple):
    """The entries of a tail that a state lacks."""

    entries: Sequence[LogEntry]
    changes: Sequence[ChangeEntry]


def news_in(tail: Tail, seen: Position) -> News:
    """Return the entries of a tail that a state at position `seen` lacks."""
    entries = [entry for entry in tail.entries if entry.last_round > seen.round_count]
    return News(entries, [change for change in tail.changes if change.change_count > seen.change_count])


def has_diverged(form: RecordFormat, tail: Tail, seen: Position) -> bool:
    """Check whether a tail shows that the log lacks entries that a state includes, or has others in their place."""
    if tail.round_count < seen.round_count or tail.change_count < seen.change_count:
        return True
    for change in tail.changes:
        is_later, is_new = change.round_count - seen.round_count, change.change_count > seen.change_count
        if (is_later < 0 and is_new) or (is_later > 0 and not is_new):
            return True
    first = tail.entries[0] if tail.entries else None
    return first is not None and first.last_round != seen.round_count and _holds(form, first, seen.round_count)


def _holds(form: RecordFormat, entry: LogEntry, number: int) -> bool:
    """Check whether an entry contains round `number`; return False if that is unknown."""
    begin = begin_of(form, entry)
    return begin is not None and begin <= number <= entry.last_round


def entry_at(tail: Tail, seen: Position) -> ChangeEntry | LogEntry | None:
    """Return the last entry that a state at position `seen` includes; None if the tail does not have it."""
    last: list[ChangeEntry | LogEntry] = [change for change in tail.changes if change[:2] == seen]
    last += [entry for entry in tail.entries[:1] if entry.last_round == seen.round_count]
    return last[0] if last else None


def has_gap(form: RecordFormat, tail: Tail, seen: Position) -> bool:
    """Check whether a tail lacks the entry that follows the position `seen` in the log, or a change after it."""
    entries, changes = news_in(tail, seen)
    numbers = [seen.change_count, *(change.change_count for change in changes)]
    if any(later != number + 1 for number, later in pairwise(numbers)):
        return True
    if not entries and not changes:
        return (tail.round_count, tail.change_count) > seen
    if changes and (not entries or changes[0].round_count <= seen.round_count):
        return changes[0].round_count != seen.round_count
    # Only rounds that a snapshot includes are trimmed. A state without rounds has no snapshot, so the log is whole and
    # its first entry starts with round 1, even if the entry does not say so.
    after = seen.round_count if len(entries) < len(tail.entries) else None
    if after is None and seen.round_count == 0 and begin_of(form, entries[0]) is None:
        after = 0
    return begin_of(form, entries[0], after) != seen.round_count + 1


TAIL_LIMIT = 512
"""Maximum rounds per read of the log: a request waits for the read, which blocks the store."""

_STRETCH_BYTES = 2**22
"""Maximum bytes of rounds per read of the log. Contexts of varying size are not counted."""


def most_rounds(model: Model) -> int:
    """Return the maximum number of rounds of a model per read, at least 1."""
    each = max(1, model.learner.fold_cost(min(model.learner.problem.n_features, costs.TYPICAL_NONZEROS)))
    most = min(costs.STRETCH // each, _STRETCH_BYTES // model.choice.records.round_bytes)
    return max(1, min(TAIL_LIMIT, most))


class Run(NamedTuple):
    """Consecutive rounds to learn from."""

    rounds: Rounds
    numbers: IntArray  # (n,), the round numbers
    has_evidence: bool  # whether they contain the evidence of the model's learner
    bills: Bills | None


def learnable(model: Model, rows: LogRows) -> Iterator[Run]:
    """Yield the runs of logged rounds that a model learns from.

    A frozen model learns from no round, and no model learns from its holdout.
    """
    found = learned_spans(model, (rows.table["flags"] & HOLDOUT) != 0, rows.table["changes_seen"])
    if not found:
        return
    rounds, numbers, bills = model.rounds_of(rows), rows.table["round"], model.choice.bills(rows)
    for start, stop, has_evidence in found:
        some = rounds if stop - start == rounds.n else rounds.rows(start, stop)
        yield Run(some, numbers[start:stop], has_evidence, None if bills is None else bills.rows(start, stop))


def learned_spans(model: Model, held_out: BoolArray, changes_seen: IntArray) -> list[tuple[int, int, bool]]:
    """Return the spans, among n consecutive rounds, that a model learns from. They exclude its holdout.

    Args:
        model: the model as it is at these rounds of the log.
        held_out: (n,), the mask of rounds that belong to the holdout.
        changes_seen: (n,), the number of changes that each prediction took into account.

    Returns:
        The start and end of each span, and whether its rounds contain the evidence of the model's learner.
    """
    if model.definition.mode == "frozen":
        return []
    learned, own = (~held_out).tolist(), model.has_own_evidence(changes_seen).tolist()
    kinds = list(zip(learned, own, strict=True))
    bounds = [i for i, kind in enumerate(kinds) if not i or kind != kinds[i - 1]]
    return [(start, stop, own[start]) for start, stop in pairwise([*bounds, len(kinds)]) if learned[start]]
