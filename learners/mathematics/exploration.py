"""Distributions from scores, draws from distributions, and schedules of exploration."""

import math
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, IntArray
from learners.checks import check_draw
from learners.kernels import compiled, label_at, narrow, widen
from learners.mathematics.linear_algebra import score_row

_ALMOST_ONE = 1.0 - 2.0**-53

LEAST_PROPENSITY = 2.0**-1022
"""The smallest normal float64, whose reciprocal is finite; smaller probabilities are reported as this propensity."""


@compiled
def as_propensity(probability: float) -> float:
    """Clip a probability with rounding errors to `LEAST_PROPENSITY` … 1; NaN stays NaN, for the caller to refuse."""
    if np.isnan(probability):
        return probability
    return min(1.0, max(LEAST_PROPENSITY, probability))


@compiled
def settle(distribution: FloatArray) -> None:
    """Clip each entry of a distribution (K,) to [0, 1], in place; entries below `LEAST_PROPENSITY` become 0."""
    for k in range(len(distribution)):
        p = distribution[k]
        if not np.isnan(p):  # the caller refuses NaN
            distribution[k] = min(1.0, p) if p >= LEAST_PROPENSITY else 0.0


@compiled
def settle_each(distributions: FloatArray) -> None:
    """Apply `settle` to each row of distributions (n, K)."""
    for i in range(len(distributions)):
        settle(distributions[i])


def draw(distributions: FloatArray, uniforms: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Draw a label from each distribution (n, K) by inverse CDF, with uniforms (n,) in [0, 1).

    Returns labels (n,): the smallest k whose cumulative probability exceeds u, or the last label of positive
    probability if rounding leaves none; propensities (n,): the probability of that label, exactly as drawn, in (0, 1];
    and residual uniforms (n,): (u - the cumulative probability before the label) / propensity, in [0, 1). They are
    uniform and independent of the label, for further random choices. Raises `InvalidArrayError`, which names the field,
    if the arrays are invalid.
    """
    check_draw(distributions, uniforms)
    return draw_unchecked(distributions, uniforms)


def draw_unchecked(distributions: FloatArray, uniforms: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Do the same as `draw`, for checked arrays: invalid ones may crash the interpreter."""
    labels = np.empty(len(distributions), dtype=np.int64)
    propensities = np.empty(len(distributions), dtype=np.float64)
    residual_uniforms = np.empty(len(distributions), dtype=np.float64)
    draw_into(distributions, uniforms, labels, propensities, residual_uniforms)
    return labels, propensities, residual_uniforms


def draw_among(
    probabilities: FloatArray, starts: IntArray, uniforms: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Do the same as `draw_unchecked` for n distributions, concatenated in (m,), which begin at starts (n + 1,)."""
    n = len(uniforms)
    positions, propensities, residual_uniforms = np.empty(n, np.int64), np.empty(n), np.empty(n)
    _draw_among_into(probabilities, starts, uniforms, positions, propensities, residual_uniforms)
    return positions, propensities, residual_uniforms


@compiled
def _draw_among_into(
    probabilities: FloatArray,
    starts: IntArray,
    uniforms: FloatArray,
    positions: IntArray,
    propensities: FloatArray,
    residual_uniforms: FloatArray,
) -> None:
    for i in range(len(uniforms)):
        own = probabilities[starts[i] : starts[i + 1]]
        positions[i], before = draw_one(own, uniforms[i])
        propensities[i] = as_propensity(own[positions[i]])
        residual_uniforms[i] = max(0.0, min(_ALMOST_ONE, (uniforms[i] - before) / propensities[i]))


@compiled
def draw_into(
    distributions: FloatArray,
    uniforms: FloatArray,
    labels: IntArray,
    propensities: FloatArray,
    residual_uniforms: FloatArray,
) -> None:
    """Do the same as `draw_unchecked`, but write to given arrays."""
    for i in range(len(uniforms)):
        labels[i], before = draw_one(distributions[i], uniforms[i])
        propensities[i] = as_propensity(distributions[i, labels[i]])
        residual_uniforms[i] = max(0.0, min(_ALMOST_ONE, (uniforms[i] - before) / propensities[i]))


@compiled
def draw_one(distribution: FloatArray, uniform: float) -> tuple[int, float]:
    """Return the label that a uniform number in [0, 1) selects from a distribution (K,), and the mass before it."""
    cumulated, last_possible, before = 0.0, 0, 0.0
    for k in range(len(distribution)):
        probability = distribution[k]
        if cumulated + probability > uniform:
            return k, cumulated
        if probability > 0.0:
            last_possible, before = k, cumulated
        cumulated += probability
    return last_possible, before


@compiled
def leader(scores: FloatArray) -> int:
    """Return the argmax; ties go to the lowest index."""
    best = 0
    for k in range(1, len(scores)):
        if scores[k] > scores[best]:
            best = k
    return best


@compiled
def leader_except(scores: FloatArray, excluded: int) -> int:
    """Return the argmax over all labels except one; ties go to the lowest index."""
    best = 1 if excluded == 0 else 0
    for k in range(best + 1, len(scores)):
        if k != excluded and scores[k] > scores[best]:
            best = k
    return best


@compiled
def condition(eligible: BoolArray, i: int, distribution: FloatArray) -> None:
    """Condition a distribution (K,) on the labels eligible for context i; make it uniform if they have no mass."""
    if eligible.shape[1] == 0:
        return
    n, total = narrow(eligible, i, distribution), 0.0
    for k in range(n):
        total += distribution[k]
    for k in range(n):
        distribution[k] = distribution[k] / total if total > 0.0 else 1.0 / n
    settle(distribution[:n])
    widen(eligible, i, distribution)


@compiled
def leading_rival(eligible: BoolArray, i: int, scores: FloatArray, label: int) -> int:
    """Return the argmax over the labels eligible for context i except `label`, or -1; ties go to the lowest index."""
    if eligible.shape[1] == 0:
        return leader_except(scores, label)
    best = -1
    for k in range(len(scores)):
        if k != label and eligible[i, k] and (best < 0 or scores[k] > scores[best]):
            best = k
    return best


@compiled
def mix_with_uniform(top: int, share: float, distribution: FloatArray) -> None:
    """Write (1 - share) e_top + (share / K) 1 to distribution (K,), for share in [0, 1]."""
    distribution[:] = share / len(distribution)
    distribution[top] += 1.0 - share
    settle(distribution)


@compiled
def lead(scores: FloatArray, share: float, distribution: FloatArray) -> int:
    """Write the distribution of the leader, mixed with a share of uniform exploration; return the leader."""
    top = leader(scores)
    mix_with_uniform(top, share, distribution)
    return top


@compiled
def lead_eligible(eligible: BoolArray, i: int, s: FloatArray, share: float, distribution: FloatArray) -> int:
    """Do the same as `lead` among the labels eligible for context i; overwrite the scores s (K,)."""
    n = narrow(eligible, i, s)
    top = lead(s[:n], share, distribution[:n])
    widen(eligible, i, distribution)
    return label_at(eligible, i, top)


@compiled
def decide_greedily(
    weights: FloatArray, rate: float, contexts: Contexts, eligible: BoolArray, distributions: FloatArray
) -> None:
    """Write, for each context, the distribution of `lead` for the scores W x, with the share `rate` of exploration."""
    s = np.empty(weights.shape[1])
    for i in range(len(distributions)):
        score_row(weights, contexts, i, s)
        lead_eligible(eligible, i, s, rate, distributions[i])


@compiled
def softmax(scores: FloatArray, result: FloatArray) -> None:
    """Write the softmax of scores (K,) to result (K,), shifted so that nothing overflows."""
    top = scores[leader(scores)]
    total = 0.0
    for k in range(len(scores)):
        result[k] = np.exp(scores[k] - top)
        total += result[k]
    for k in range(len(scores)):
        result[k] /= total


@compiled
def logistic(scores: FloatArray) -> None:
    """Replace scores s (K,) by probabilities 1/(1 + exp(-s)), in place."""
    for k in range(len(scores)):
        scores[k] = 1.0 / (1.0 + np.exp(-scores[k]))


@compiled
def weigh_by_gap(values: FloatArray, gap_weight: float, share: float, distribution: FloatArray) -> None:
    """Write the inverse-gap weighting of predicted rewards (K,) in [0, 1], with a share of uniform exploration.

    Each label k but the leader gets 1/(K + γ (v_leader - v_k)), and the leader the rest, with γ = gap_weight >= 0; then
    the share is mixed in. Abe, Biermann and Long 2003; Foster and Rakhlin 2020, Algorithm 1.
    """
    K, top, others = len(values), leader(values), 0.0
    for k in range(K):
        if k != top:
            probability = 1.0 / (K + gap_weight * (values[top] - values[k]))
            others += probability
            distribution[k] = (1.0 - share) * probability + share / K
    distribution[top] = (1.0 - share) * (1.0 - others) + share / K
    settle(distribution)


_LEAST_GAP_WEIGHT = 10.0  # γ is at least 10 K, as in the theorem of FastCB


class GapWeight(NamedTuple):
    """γ of `weigh_by_relative_gap`, tuned to the past: γ = max(10 K, c √(K (1 + min(L, K R))))."""

    scale: float  # c
    n_labels: int  # K
    losses: float  # L, the sum of past losses, 1 - reward
    rewards: float  # R, the sum of past rewards


@compiled
def weigh_by_relative_gap(
    values: FloatArray, penalties: FloatArray, weight: GapWeight, share: float, distribution: FloatArray
) -> None:
    """Do the same as `weigh_by_gap`, relative to the leader's predicted loss l = 1 - v_leader, for rewards in (0, 1).

    Each other label gets l / (K l + γ (v_leader - v_k)): Foster and Krishnamurthy 2021, Algorithm 1, with the loss
    1 - reward. Where rewards are rarer, l is K times the leader's reward. With exactly one right label, uniform answers
    earn 1/K, so l differs from the loss only if even the leader earns hardly more than that.

    `penalties` (K,), or (0,) for none, are subtracted from the values, in place; the least is 0. The loss is then
    1 - reward + penalty, so that l is the most that any label can gain over the leader, and L is what it would be if
    each past round had paid the leader's penalty.
    """
    most, penalty = values[leader(values)], 0.0
    loss = 1.0 - most
    if len(penalties) > 0:
        values -= penalties
        top = leader(values)
        loss, penalty = 1.0 - values[top], penalties[top]
    c, K, losses, rewards = weight
    losses += penalty * (losses + rewards)
    gap_weight = max(_LEAST_GAP_WEIGHT * K, c * math.sqrt(K * (1.0 + min(losses, K * max(0.0, rewards)))))
    weigh_by_gap(values, gap_weight / min(loss, len(values) * most), share, distribution)


@compiled
def soften(scores: FloatArray, sharpness: float, share: float, distribution: FloatArray) -> None:
    """Write (1 - share) softmax(sharpness · scores) + (share / K) 1 to distribution (K,)."""
    K = len(scores)
    for k in range(K):
        distribution[k] = sharpness * scores[k]
    softmax(distribution, distribution)
    for k in range(K):
        distribution[k] = (1.0 - share) * distribution[k] + share / K
    settle(distribution)


class Schedule(NamedTuple):
    """An exploration rate γ_t = min(1, max(least, (constant / t)^power)); a fixed γ has constant 0 and least γ."""

    constant: float
    power: float
    least: float


def scheduled(exploration: float | str, n_labels: int, least: float = 0.0) -> Schedule:
    """Return the schedule of a fixed γ, or of `anytime`: √(K/t), clipped to [least, 1]."""
    return Schedule(float(n_labels), 0.5, least) if isinstance(exploration, str) else Schedule(0.0, 1.0, exploration)


@compiled
def scheduled_rate(schedule: Schedule, rounds: int) -> float:
    """Return γ_t for t = rounds + 1."""
    falling: float = (schedule.constant / (rounds + 1.0)) ** schedule.power
    return min(1.0, max(schedule.least, falling))


@compiled
def adaptive_rate(n_labels: int, quadratic_sum: float, rounds: int) -> float:
    """Return γ_t = min(1, √(K (1 + Q) / t)) for Q = quadratic_sum and t = rounds + 1, as in Theorem 5 of SOBA."""
    return min(1.0, math.sqrt(n_labels * (1.0 + quadratic_sum) / (rounds + 1)))
