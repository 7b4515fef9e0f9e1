"""How many rounds a replica reads at once, and which of them it folds."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from learners.base import BoolArray, IntArray, Rounds
from service.models.model import Model
from service.store.records.layout import HOLDOUT
from service.store.records.parts import LogRows

TAIL_LIMIT = 512
"""Maximum rounds per read. A request waits for the read, and the read blocks the store."""

STRETCH_COST = 1_000_000_000
"""Multiply-adds, about one second, after which a fold checks whether its model still exists."""

TYPICAL_NONZEROS = 1000
"""Assumed entries of a sparse context, to estimate costs before a context is read."""

_STRETCH_BYTES = 2**22
"""Maximum bytes of rounds with dense contexts per read."""


def most_rounds(model: Model) -> int:
    """Return the maximum number of rounds of a model per read, at least 1."""
    each = max(1, model.learner.fold_cost(min(model.learner.problem.n_features, TYPICAL_NONZEROS)))
    most = min(STRETCH_COST // each, _STRETCH_BYTES // model.choice.records.round_bytes)
    return max(1, min(TAIL_LIMIT, most))


class Run(NamedTuple):
    """Consecutive rounds that a model learns from."""

    rounds: Rounds
    numbers: IntArray  # (n,), of the rounds
    has_evidence: bool  # whether they hold the evidence of its learner


def learnable(model: Model, rows: LogRows) -> Iterator[Run]:
    """Yield the rounds of the log that a model learns from.

    A frozen model learns from no round, and no model from rounds of its holdout.
    """
    found = learned_spans(model, (rows.table["flags"] & HOLDOUT) != 0, rows.table["changes_seen"])
    if not found:
        return
    rounds, numbers = model.rounds_of(rows), rows.table["round"]
    for start, stop, has_evidence in found:
        some = rounds if stop - start == rounds.n else rounds.rows(start, stop)
        yield Run(some, numbers[start:stop], has_evidence)


def learned_spans(model: Model, held_out: BoolArray, changes_seen: IntArray) -> list[tuple[int, int, bool]]:
    """Return which of n consecutive rounds a model learns from, without those of its holdout.

    Args:
        model: the model at the place of the rounds in the log.
        held_out: (n,), which rounds its holdout answered.
        changes_seen: (n,), the changes that their predictions took into account.

    Returns:
        The begin and the end of spans of rounds, and whether they hold the evidence of the model's learner.
    """
    if model.definition.mode == "frozen":
        return []
    learned, own = (~held_out).tolist(), model.has_own_evidence(changes_seen).tolist()
    kinds = list(zip(learned, own, strict=True))
    bounds = [i for i, kind in enumerate(kinds) if not i or kind != kinds[i - 1]]
    return [(start, stop, own[start]) for start, stop in pairwise([*bounds, len(kinds)]) if learned[start]]
