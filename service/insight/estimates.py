"""Estimates with confidence intervals: observed rewards, and what other policies would have earned."""

from typing import NamedTuple

from learners.evaluation.intervals import empirical_bernstein, wilson
from service.replicas.sums.label_sums import LabelSums

LEVEL = 0.95
"""The confidence level of every interval."""


class Estimate(NamedTuple):
    """A mean reward in [0, 1] with its interval; the mean is None without any round."""

    mean: float | None
    low: float
    high: float
    rounds: float  # that carry it; for a weighted mean, the effective number


UNKNOWN = Estimate(None, 0.0, 1.0, 0.0)


def observed(rounds: int, total: float, squares: float) -> Estimate:
    """Return the mean of observed rewards: with Wilson's interval if each is 0 or 1, else with empirical Bernstein.

    Args:
        rounds: the number of rewards.
        total: their sum.
        squares: the sum of their squares, which equals `total` only if each is 0 or 1.
    """
    if not rounds:
        return UNKNOWN
    total = min(total, float(rounds))
    bits = squares == total
    low, high = wilson(total, rounds, LEVEL) if bits else empirical_bernstein(total, squares, rounds, 0.0, 1.0, LEVEL)
    return Estimate(total / rounds, low, high, rounds)


class WeightedSums(NamedTuple):
    """Sums over rounds with weights w = 1/p, and rewards r."""

    weights: float = 0.0
    rewards: float = 0.0  # r·w
    squares: float = 0.0  # w²
    reward_squares: float = 0.0  # r·w²
    squared_rewards: float = 0.0  # (r·w)²


def weighted(sums: WeightedSums) -> Estimate:
    """Return the self-normalized weighted mean (SNIPS), with Wilson's interval at its effective number of rounds.

    The effective number is the smaller one of Kish's, (Σw)²/Σw², and of the number of plain rounds whose mean would
    have the estimated variance Σw²(r - v)²/(Σw)².
    """
    if not sums.weights > 0.0:
        return UNKNOWN
    mean = min(1.0, sums.rewards / sums.weights)
    effective = sums.weights**2 / sums.squares
    spread = sums.squared_rewards - 2.0 * mean * sums.reward_squares + mean * mean * sums.squares
    if spread > 0.0:
        variance = spread / sums.weights**2
        effective = min(effective, max(1.0, mean * (1.0 - mean) / variance)) if 0.0 < mean < 1.0 else effective
    low, high = wilson(mean * effective, effective, LEVEL)
    return Estimate(mean, low, high, effective)


def label_reward(sums: LabelSums, label: int) -> Estimate:
    """Return the mean reward of the rounds that answered a label."""
    if label >= len(sums.rounds):
        return UNKNOWN
    return observed(sums.rounds[label], sums.rewards[label], sums.squares[label])


def label_value(sums: LabelSums, label: int, *, has_contexts: bool) -> Estimate:
    """Return the estimated mean reward of always answering a label, where it is eligible.

    Args:
        sums: the sums by label.
        label: its number.
        has_contexts: whether rounds have contexts. Without any, the rounds that answered the label are like all others.
    """
    if not has_contexts:
        return label_reward(sums, label)
    return weighted(_weighted_sums(sums, slice(label, label + 1)))


def uniform_value(sums: LabelSums) -> Estimate:
    """Return the estimated mean reward of drawing uniformly among the eligible labels."""
    return weighted(_weighted_sums(sums, slice(None)))


def _weighted_sums(sums: LabelSums, labels: slice) -> WeightedSums:
    columns = (
        sums.weights,
        sums.reward_weights,
        sums.squared_weights,
        sums.reward_squared_weights,
        sums.squared_reward_weights,
    )
    return WeightedSums(*(sum(column[labels]) for column in columns))
