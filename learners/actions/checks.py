"""Checks of candidates and of rounds with actions, once per batch, before compiled code reads them."""

import numpy as np

from learners.actions.base import ActionRounds, Candidates
from learners.base import InvalidArrayError
from learners.context_checks import BOOL, FLOAT, INT, check_contexts, expect_array


def check_candidates(candidates: Candidates, n_features: int) -> None:
    """Refuse candidates that compiled code could not read.

    Raises:
        InvalidArrayError: if a field is invalid; the message names it.
    """
    vectors, starts, eligible = candidates
    check_contexts(vectors, n_features)
    expect_array("starts", starts, INT, 1)
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != vectors.n or (np.diff(starts) < 1).any():
        raise InvalidArrayError("starts: must begin with 0, increase, and end with the number of candidates")
    expect_array("eligible", eligible, BOOL, 1, (vectors.n if len(eligible) else 0,))
    if len(eligible) and not np.logical_or.reduceat(eligible, starts[:-1]).all():
        raise InvalidArrayError("eligible: each round needs an eligible candidate")


def check_action_rounds(rounds: ActionRounds, n_features: int) -> None:
    """Refuse rounds that cannot result from a decision.

    Raises:
        InvalidArrayError: if a field is invalid; the message names it.
    """
    check_contexts(rounds.chosen, n_features)
    n = rounds.chosen.n
    expect_array("rewards", rounds.rewards, FLOAT, 1, (n,))
    expect_array("propensities", rounds.propensities, FLOAT, 1, (n,))
    expect_array("counts", rounds.counts, INT, 1, (n,))
    for name, valid, words in (
        ("rewards", (rounds.rewards >= 0.0) & (rounds.rewards <= 1.0), "from 0 to 1"),
        ("propensities", (rounds.propensities > 0.0) & (rounds.propensities <= 1.0), "above 0 and at most 1"),
        ("counts", rounds.counts >= 1, "at least 1"),
    ):
        if not valid.all():
            raise InvalidArrayError(f"{name}: must be {words} (round {int(valid.argmin())})")
