"""Sums that compare the served answers with the holdout's, over the same stretch of the log.

The answers to one request share its arm and its user, so their rewards are not independent, and their rounds may be far
apart in the log. Random groups of requests give the variance of a mean with bounded memory, as if each were one request
(Kirk M. Wolter, "Introduction to Variance Estimation", 2007, chapter 2). A group is a hash of the time of the decision,
which all answers to a request share. Requests that were decided at the same time, in a batch, are in one group.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from learners.base import BoolArray, FloatArray, IntArray
from service.prediction_id import are_first_answers
from service.replicas.sums import added

GROUPS = 128
"""Random groups of requests: a variance has a standard error of 12.5 %, unless there are fewer requests or batches."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: Knuth's multiplicative hash
_SHIFT = np.uint64(64 - 7)  # GROUPS is 2⁷


class ArmSums(NamedTuple):
    """Sums over the rounds of one arm: the served answers, or the holdout's."""

    rounds: int = 0
    requests: int = 0  # rounds that are the first answer of their request: each request has one draw of the arm
    reward: float = 0.0
    squares: float = 0.0  # reward²
    expired: int = 0  # rounds without feedback, which the end of their window made
    slots: int = 1  # the most answers that a request has, as far as the rounds show
    group_rounds: tuple[int, ...] = ()  # by group; empty without a round, as most models have no holdout
    group_rewards: tuple[float, ...] = ()  # sums of their rewards

    def plus(self, rows: "ArmRows", among: BoolArray) -> "ArmSums":
        """Return the sums with those rows that a mask marks, added one at a time, so batches do not matter."""
        if not among.any():
            return self
        reward, tokens, group = rows.reward[among], rows.tokens[among], _groups(rows.predicted_at[among])
        slots = tokens[~are_first_answers(tokens)] + 1
        return ArmSums(
            self.rounds + len(reward),
            self.requests + int(are_first_answers(tokens).sum()),
            added(self.reward, reward),
            added(self.squares, reward * reward),
            self.expired + int(rows.expired[among].sum()),
            max(self.slots, int(slots.max(initial=1))),
            _in_groups(self.group_rounds, group, 1),
            _in_groups(self.group_rewards, group, reward),
        )


def _groups(predicted_at: FloatArray) -> IntArray:
    hashed = np.ascontiguousarray(predicted_at).view(np.uint64) * _GOLDEN
    return np.asarray((hashed >> _SHIFT).astype(np.int64))


def _in_groups(before: tuple[Any, ...], groups: IntArray, terms: FloatArray | int) -> tuple[Any, ...]:
    totals = np.array(before or (0,) * GROUPS, np.asarray(terms).dtype)
    np.add.at(totals, groups, terms)  # in the order of the rounds
    return tuple(totals.tolist())


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
    predicted_at: FloatArray  # (n,), when the request was decided, in seconds since the epoch


def with_arms(sums: UpliftSums, rows: ArmRows) -> UpliftSums:
    """Return the sums with n more rounds; the result does not depend on batches."""
    if not sums.share:
        return sums
    counted = (rows.changes_seen >= sums.since_change) & ~rows.foreign
    served, holdout = sums.served.plus(rows, counted & ~rows.held), sums.holdout.plus(rows, counted & rows.held)
    return sums._replace(served=served, holdout=holdout)


def read_uplift(fields: Any) -> UpliftSums:
    """Read sums from decoded JSON; raise `ValueError` or `TypeError` if they are not as `UpliftSums` describes."""
    change, first, share, served, holdout = fields
    sums = UpliftSums(change, first, share, ArmSums(*served), ArmSums(*holdout))
    if not (0 <= change < math.inf and 0 <= first < math.inf and 0.0 <= share < 1.0 and all(map(_holds, sums[3:]))):
        raise ValueError("invalid sums of the holdout's comparison")
    return sums


def _holds(arm: ArmSums) -> bool:
    numbers = np.array([*arm[:-2], *arm.group_rounds, *arm.group_rewards], np.float64)
    sizes = {len(arm.group_rounds), len(arm.group_rewards)}
    whole = sizes == {GROUPS if arm.rounds else 0} and sum(arm.group_rounds) == arm.rounds
    return whole and arm.slots >= 1 and bool(np.isfinite(numbers).all() and (numbers >= 0.0).all())
