"""Folds rounds that may contain undetected damage. Stops before a round that puts infinity or NaN into the state."""

from typing import Any, Protocol

import numpy as np

from learners.base import NO_LABEL, AnyLearner, BoolArray, FloatArray, Rounds, State
from learners.evaluation.progressive import Terms, progress_unchecked
from learners.layouts import size_in_bytes
from service.choice.choice import Choice
from service.choice.prices import Bills

_SMALL = 65_536
"""Bytes up to which a state is always checked. Copying and scanning a larger state may cost more than the fold."""

_EXTREME = 1e30
"""Rounds with an absolute context value, evidence or inverse propensity above this are extreme."""


class Folder(Protocol):
    """An object that folds rounds with a learner."""

    def fold_unchecked(self, state: State, rounds: Rounds, bills: Bills | None, /) -> State:
        """Return the state after these rounds; may change the given state in place."""


def learn(folder: Folder, state: State, rounds: Rounds, bills: Bills | None = None) -> tuple[Any, int]:
    """Fold rounds up to, but not including, the first that produces infinity or NaN.

    Return the state and the number of rounds folded. A state above `_SMALL` bytes is only checked if the rounds contain
    an extreme number.
    """
    if size_in_bytes(state) > _SMALL and not _is_extreme(rounds):
        return folder.fold_unchecked(state, rounds, bills), rounds.n
    before = _copied(state)
    with np.errstate(all="ignore"):
        folded = folder.fold_unchecked(state, rounds, bills)
        if is_finite(folded):
            return folded, rounds.n
        for n in range(rounds.n):
            one = None if bills is None else bills.rows(n, n + 1)
            folded = folder.fold_unchecked(_copied(before), rounds.rows(n, n + 1), one)
            if not is_finite(folded):
                return before, n
            before = folded
    raise AssertionError("folding rounds one by one gives another state than folding them together")


def _is_extreme(rounds: Rounds) -> bool:
    p = rounds.propensities
    largest = max(np.abs(numbers).max(initial=0.0) for numbers in (rounds.contexts.values, rounds.evidence))
    return bool(largest > _EXTREME or ((p > 0.0) & (p < 1.0 / _EXTREME)).any())


def _copied(state: State) -> Any:
    return type(state)(*(array.copy() for array in state))


def is_finite(state: State) -> bool:
    """Check that a state contains neither infinity nor NaN."""
    # A sum of finite numbers may overflow, so only a finite sum is conclusive.
    return all([np.isfinite(np.add.reduce(array, None)) or np.isfinite(array).all() for array in state])


class Recomputing(Folder):
    """Folds rounds that another learner answered, with evidence from the given learner's own decisions.

    Its decisions have the rules, costs and budget of `choice`, so that they are what the learner would answer in the
    place of the model.
    """

    def __init__(self, learner: AnyLearner, choice: Choice) -> None:
        self._learner, self._terms = learner, Terms(limits=choice.limits, budget=choice.budget)
        self._probabilities: list[FloatArray] = []

    def fold_unchecked(self, state: State, rounds: Rounds, bills: Bills | None) -> State:
        """Fold the rounds that `usable` selects. Keep the learner's probabilities of all served labels until `take`."""
        learnt = usable(self._learner, rounds)
        terms = self._terms if bills is None else self._terms._replace(prices=bills.prices, lags=bills.lags)
        state, probabilities = progress_unchecked(self._learner, state, rounds, learnt, terms=terms)
        self._probabilities.append(probabilities)
        return state

    def take(self, n: int) -> FloatArray:
        """Return the probabilities of the served labels in the n rounds that `learn` has just folded, (n,).

        The learner computed each one before it learned that round.
        """
        # If a fold fails, `learn` repeats its rounds one by one, so the other parts repeat what the first part covers.
        parts, self._probabilities = self._probabilities, []
        return np.concatenate(parts[1:] or parts)[:n]


def usable(learner: AnyLearner, rounds: Rounds) -> BoolArray:
    """Return which of n rounds have the feedback that a learner needs, (n,).

    An abstention has a reward between 0 and 1, but its true label is known, so every learner can use it.
    """
    mask: BoolArray = np.ones(rounds.n, np.bool_)
    if not learner.accepts_rewards:
        mask &= (rounds.rewards == 0.0) | (rounds.rewards == 1.0) | (rounds.true_labels != NO_LABEL)
    if learner.needs_true_label:
        mask &= rounds.true_labels != NO_LABEL
    return mask
