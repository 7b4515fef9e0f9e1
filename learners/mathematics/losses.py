"""Gaptron's three multiclass surrogate losses, their gradients and their gap maps.

Van der Hoeven 2020, "Exploiting the Surrogate Gap in Online Multiclass Classification", Table 1. Each loss
is a function of the scores s = W x and the label y. Its gradient in W is c ⊗ x: a vector c of K coefficients times
the context.
"""

import math
from typing import Literal, TypeAlias

from learners.base import FloatArray
from learners.kernels import compiled
from learners.mathematics.exploration import leader_except, softmax

LossName: TypeAlias = Literal["logistic", "hinge", "smooth_hinge"]

LOGISTIC, HINGE, SMOOTH_HINGE = 0, 1, 2
# Theorem 2 holds for either choice at a margin of exactly β; the slack prevents rounding from making the choice.
_TIE_SLACK = 1e-12

LOSS_CODES: dict[str, int] = {"logistic": LOGISTIC, "hinge": HINGE, "smooth_hinge": SMOOTH_HINGE}


@compiled
def surrogate(loss: int, scores: FloatArray, y: int, coefficients: FloatArray) -> float:
    """Return the loss at label y; write the coefficients c (K,) of its gradient c ⊗ x.

    The logistic loss has base 2. The hinge loss is zero if the true label leads by at least β = 1/K, because the gap
    map does not explore then (Theorem 2).
    """
    coefficients[:] = 0.0
    if loss == LOGISTIC:
        return _logistic(scores, y, coefficients)
    rival = leader_except(scores, y)
    margin = scores[y] - scores[rival]
    if loss == HINGE:
        value, slope = _hinge(margin, len(scores))
    else:
        value, slope = _smooth_hinge(margin)
    coefficients[rival] = slope
    coefficients[y] = -slope
    return value


@compiled
def _logistic(scores: FloatArray, y: int, coefficients: FloatArray) -> float:
    softmax(scores, coefficients)
    value = -math.log2(coefficients[y])
    coefficients[y] -= 1.0
    for k in range(len(scores)):
        coefficients[k] /= math.log(2.0)
    return value


@compiled
def _hinge(margin: float, n_labels: int) -> tuple[float, float]:
    if _clear(margin, n_labels):
        return 0.0, 0.0
    return 1.0 - margin, 1.0


@compiled
def _clear(margin: float, n_labels: int) -> bool:
    """Check whether a leader's margin reaches β = 1/K, where the hinge variant neither explores nor learns."""
    return margin >= (1.0 - _TIE_SLACK) / n_labels


@compiled
def _smooth_hinge(margin: float) -> tuple[float, float]:
    if margin <= 0.0:
        return 1.0 - 2.0 * margin, 2.0
    if margin < 1.0:
        return (1.0 - margin) ** 2, 2.0 * (1.0 - margin)
    return 0.0, 0.0


@compiled
def gap_share(loss: int, scores: FloatArray, top: int) -> float:
    """Return the share a in [0, 1] of uniform exploration that the surrogate gap pays for, at leader `top`."""
    if loss == LOGISTIC:
        total = 0.0
        for k in range(len(scores)):
            total += math.exp(scores[k] - scores[top])
        top_probability = 1.0 / total
        return 1.0 if top_probability < 0.5 else 1.0 - top_probability
    if len(scores) == 1:
        return 0.0
    margin = scores[top] - scores[leader_except(scores, top)]
    if loss == HINGE:
        return 0.0 if _clear(margin, len(scores)) else 1.0 - margin
    shortfall: float = 1.0 - min(1.0, margin)
    return shortfall * shortfall
