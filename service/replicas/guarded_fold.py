"""Learning from rounds that may be damaged without a sign: a state that is no state is never gone on from."""

from typing import Any

import numpy as np

from learners.base import AnyLearner, Rounds
from learners.layouts import state_bytes

_SMALL = 65_536
"""Bytes of a state that is watched in every fold. To copy and search a larger one would cost more than the fold."""

_EXTREME = 1e30
"""Where a number of a round, or 1/p, is larger, a fold is watched whatever the state's size."""


def learn(learner: AnyLearner, state: Any, rounds: Rounds) -> tuple[Any, int]:
    """Return the state after the first rounds, and how many these are: all, unless one leads to infinity or NaN."""
    if state_bytes(learner) > _SMALL and not _is_extreme(rounds):
        return learner.fold_unchecked(state, rounds), rounds.n
    before = _copied(state)
    with np.errstate(all="ignore"):
        folded = learner.fold_unchecked(state, rounds)
        if _is_finite(folded):
            return folded, rounds.n
        for n in range(rounds.n):
            folded = learner.fold_unchecked(_copied(before), rounds.rows(n, n + 1))
            if not _is_finite(folded):
                return before, n
            before = folded
    raise AssertionError("one by one, rounds fold to other bits than together")


def _is_extreme(rounds: Rounds) -> bool:
    p = rounds.propensities
    largest = max(np.abs(numbers).max(initial=0.0) for numbers in (rounds.contexts.values, rounds.evidence))
    return bool(largest > _EXTREME or ((p > 0.0) & (p < 1.0 / _EXTREME)).any())


def _copied(state: Any) -> Any:
    return type(state)(*(array.copy() for array in state))


def _is_finite(state: Any) -> bool:
    return all(np.isfinite(array).all() for array in state)
