"""Sums that compare the served answers with the holdout's, over the same stretch of the log."""

from typing import Any, NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from service.prediction_id import are_first_answers
from service.replicas.sums import added


class ArmSums(NamedTuple):
    """Sums over the rounds of one arm: the served answers, or the holdout's."""

    rounds: int = 0
    requests: int = 0  # rounds that are the first answer of their request: each request has one draw of the arm
    reward: float = 0.0
    squares: float = 0.0  # reward²
    expired: int = 0  # rounds without feedback, which the end of their window made

    def plus(self, reward: FloatArray, first: BoolArray, expired: BoolArray) -> "ArmSums":
        """Return the sums with n more rounds, added one at a time: the result does not depend on batches."""
        return ArmSums(
            self.rounds + len(reward),
            self.requests + int(first.sum()),
            added(self.reward, reward),
            added(self.squares, reward * reward),
            self.expired + int(expired.sum()),
        )


class UpliftSums(NamedTuple):
    """Sums of both arms over the rounds whose predictions had seen the last change of the holdout, and drew their arm.

    Until the next change, each request had the same probability of being held out, whenever it came. So both arms
    describe the same time, and a drift of the world does not distort their comparison.
    """

    since_change: int = 0  # number of the change that set the holdout; 0 if the model began with it
    since_round: int = 1  # the first round after that change
    share: float = 0.0  # the holdout's share of the requests; 0 if there is no holdout, and nothing is counted
    served: ArmSums = ArmSums()
    holdout: ArmSums = ArmSums()


NO_UPLIFT = UpliftSums()


class ArmRows(NamedTuple):
    """The next n rounds of a log."""

    changes_seen: IntArray  # (n,), the number of changes that each prediction had seen
    tokens: IntArray  # (n,), see `service.prediction_id`
    foreign: BoolArray  # (n,), whether another policy than the model's and its holdout's answered
    held: BoolArray  # (n,), whether the holdout answered
    reward: FloatArray  # (n,)
    expired: BoolArray  # (n,), whether the round was made without feedback


def with_arms(sums: UpliftSums, rows: ArmRows) -> UpliftSums:
    """Return the sums with n more rounds; the result does not depend on batches."""
    if not sums.share:
        return sums
    counted, first = (rows.changes_seen >= sums.since_change) & ~rows.foreign, are_first_answers(rows.tokens)
    ours, theirs = counted & ~rows.held, counted & rows.held
    served = sums.served.plus(rows.reward[ours], first[ours], rows.expired[ours])
    holdout = sums.holdout.plus(rows.reward[theirs], first[theirs], rows.expired[theirs])
    return sums._replace(served=served, holdout=holdout)


def read_uplift(fields: Any) -> UpliftSums:
    """Read sums from decoded JSON; raise `ValueError` or `TypeError` if they are not as `UpliftSums` describes."""
    change, first, share, served, holdout = fields
    sums = UpliftSums(change, first, share, ArmSums(*served), ArmSums(*holdout))
    numbers = np.array([change, first, share, *served, *holdout], np.float64)
    if not (np.isfinite(numbers).all() and (numbers >= 0.0).all() and sums.share < 1.0):
        raise ValueError("invalid sums of the holdout's comparison")
    return sums
