"""How many rounds a replica reads at once, and which of them it folds."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import IntArray, Rounds
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
    most = min(STRETCH_COST // each, _STRETCH_BYTES // model.format.round_bytes)
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
    learned = (rows.table["flags"] & HOLDOUT) == 0
    if model.definition.mode == "frozen" or not learned.any():
        return
    rounds, numbers, own = model.rounds_of(rows), rows.table["round"], model.has_own_evidence(rows)
    if learned.all() and own.all():
        yield Run(rounds, numbers, True)
        return
    kinds = np.where(learned, np.where(own, 1, 2), 0)
    bounds = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    for start, stop in pairwise(bounds):
        if kinds[start]:
            yield Run(rounds.rows(start, stop), numbers[start:stop], bool(kinds[start] == 1))
