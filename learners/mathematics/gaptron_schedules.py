"""The step sizes and exploration rates of Gaptron's theorems.

Van der Hoeven 2020, Table 2 and Theorems 1-6, with the printed errors corrected. The anytime rate follows
from the same proofs by dual averaging.
"""

import math

from learners.base import Problem
from learners.mathematics.losses import LossName

_LN2 = math.log(2.0)


def safe_step(loss: LossName, problem: Problem, gamma: float | None = None) -> float:
    """Return the largest step η with a surrogate gap ≤ 0 in Theorems 1-3; given γ, that of Theorems 4-6, η = κγ."""
    K, X = problem.n_labels, problem.norm_bound
    full = {"logistic": _LN2 / (2 * K * X**2), "hinge": (K - 1) / (K**2 * X**2), "smooth_hinge": 1 / (4 * K * X**2)}
    return full[loss] if gamma is None else full[loss] * gamma / K


def tuned_exploration(loss: LossName, problem: Problem, radius: float, horizon: int) -> float:
    """Return the γ in (0, 1] that Theorems 4-6 tune for a known number of rounds T = horizon."""
    K, X, D = problem.n_labels, problem.norm_bound, radius
    squared = {
        "logistic": K**2 * X**2 * D**2 / _LN2,
        "hinge": K**4 * X**2 * D**2 / (2 * (K - 1) ** 2),
        "smooth_hinge": 2 * K**2 * X**2 * D**2,
    }[loss]
    return float(min(1.0, math.sqrt(squared / horizon)))


def anytime_constant(loss: LossName, problem: Problem, radius: float) -> float:
    """Return c = (D/2) sqrt(K / (κ (K - 1))); γ_t = min(1, c/√t) needs no horizon, but a bound √2 times as large."""
    K = problem.n_labels
    kappa = safe_step(loss, problem, gamma=1.0)
    return float(radius / 2 * math.sqrt(K / (kappa * (K - 1))))
