"""Folds rounds that another learner has predicted: their evidence is made anew, round by round, as they are folded."""

from typing import Any

import numpy as np

from learners.base import NO_LABEL, AnyLearner, BoolArray, FloatArray, Rounds
from learners.evaluation.progressive import progress_unchecked


class Recomputing:
    """A learner whose decisions on rounds of another one supply their evidence.

    Args:
        learner: answers with single labels.
    """

    def __init__(self, learner: AnyLearner) -> None:
        self._learner = learner
        self._probabilities: list[FloatArray] = []

    def fold_unchecked(self, state: Any, rounds: Rounds) -> Any:
        """See `Learner.fold_unchecked`. Leaves out the rounds that `usable` leaves out."""
        state, probabilities = progress_unchecked(self._learner, state, rounds, usable(self._learner, rounds))
        self._probabilities.append(probabilities)
        return state

    def take(self, n: int) -> FloatArray:
        """Return the probabilities of the served labels in the last n rounds folded by `guarded_fold.learn`, (n,).

        They are the learner's own, before it learned each round.
        """
        # After a fold that failed, `learn` folds the rounds again one by one.
        parts, self._probabilities = self._probabilities, []
        return np.concatenate(parts[1:] or parts)[:n]


def usable(learner: AnyLearner, rounds: Rounds) -> BoolArray:
    """Return which of n rounds have the feedback that a learner needs, (n,)."""
    mask: BoolArray = np.ones(rounds.n, np.bool_)
    if not learner.accepts_rewards:
        mask &= (rounds.rewards == 0.0) | (rounds.rewards == 1.0)
    if learner.needs_true_label:
        mask &= rounds.true_labels != NO_LABEL
    return mask
