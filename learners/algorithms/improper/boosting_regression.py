"""BoostReg: a regression that adjusts scores by a predicted label, and the costs for the next weak learner.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022, Algorithm 3 and Appendix C. Printed errors are corrected: BoostReg outputs ŝ, and the costs are
C(y, k) = (σ_k - σ_y + 1)/K, for true label y and σ = softmax(s). Predicted labels may come from any source.
"""

import math
from typing import NamedTuple

import numpy as np

from learners.algorithms.improper.folklore import learn, predict, regret_bound, surrogate_constant
from learners.base import FloatArray, Problem
from learners.kernels import compiled
from learners.mathematics.exploration import softmax
from learners.mathematics.linear_algebra import packed_identity

_BOUND = 2.0  # B of the FOLKLORE in BoostReg: at least ‖(1, α/2)‖ for every |α| <= 2


class BoostReg(NamedTuple):
    """Algorithm 3: learns online which multiple α in [-2, 2] of the predicted label to add to the scores."""

    inverse: FloatArray  # (10,), A⁻¹ of FOLKLORE, a packed triangle
    solution: FloatArray  # (4,), h of FOLKLORE
    horizon: int  # T

    @classmethod
    def start(cls, horizon: int) -> "BoostReg":
        """Return BoostReg before the first round; the norm bound of its FOLKLORE is 1 + ln T."""
        inverse = np.zeros(10)
        packed_identity(inverse, _BOUND / (2.0 * (1.0 + math.log(horizon))), 4)
        return cls(inverse, np.zeros(4), horizon)

    def predict(self, s: FloatArray, named: int) -> tuple[FloatArray, FloatArray]:
        """Return the logits ζ (2,) and the scores ŝ (K,), given the scores s (K,) and the predicted label, 0 … K-1."""
        zeta = np.empty(2)
        predict(self.inverse, self.solution, regressors(s, named, self.horizon), zeta)
        return zeta, boosted(s, named, zeta)

    def learn(self, s: FloatArray, named: int, zeta: FloatArray, y: int) -> None:
        """Learn in place whether the predicted label was the true one, given s and ζ as they were at the prediction."""
        constant = surrogate_constant(_BOUND, 1.0 + math.log(self.horizon), 2)
        learn(self.inverse, self.solution, constant, regressors(s, named, self.horizon), zeta, int(named != y))


def boosting_regret_bound(horizon: int) -> float:
    """Return a bound on BoostReg's loss after T rounds minus that of the best α in [-2, 2], fixed for all rounds."""
    two = Problem(2, 2, 1.0 + math.log(horizon))
    return math.exp(2.0) / horizon + regret_bound(_BOUND, two, horizon)


@compiled
def regressors(s: FloatArray, named: int, horizon: int) -> FloatArray:
    """Return (x̃, 1), where x̃ is half the log-odds of the predicted label, clipped to ± ln T."""
    limit = math.log(horizon)
    half = (s[named] - _log_sum_of_others(s, named)) / 2.0
    return np.array([max(-limit, min(limit, half)), 1.0])


@compiled
def boosted(s: FloatArray, named: int, zeta: FloatArray) -> FloatArray:
    """Return ŝ (K,): ζ_1 for the predicted label, and the other scores shifted so that their ln Σ exp(ŝ_k) is ζ_2."""
    result = np.empty(len(s))
    result[:] = s + (zeta[1] - _log_sum_of_others(s, named))
    result[named] = zeta[0]
    return result


@compiled
def _log_sum_of_others(s: FloatArray, named: int) -> float:
    top = -math.inf
    for k in range(len(s)):
        if k != named:
            top = max(top, s[k])
    total = 0.0
    for k in range(len(s)):
        if k != named:
            total += math.exp(s[k] - top)
    return top + math.log(total)


@compiled
def costs_of(s: FloatArray) -> FloatArray:
    """Return C (K, K): C(y, k) = (σ_k - σ_y + 1)/K for k ≠ y, σ = softmax(s); 0 for k = y. Row y sums to 1 - σ_y."""
    K = len(s)
    sigma, result = np.empty(K), np.zeros((K, K))
    softmax(s, sigma)
    for y in range(K):
        for k in range(K):
            if k != y:
                result[y, k] = (sigma[k] - sigma[y] + 1.0) / K
    return result
