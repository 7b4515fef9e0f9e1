"""The step sizes and exploration rates of Gaptron's theorems.

Van der Hoeven 2020, Table 2 and Theorems 1-6, with the printed errors corrected. The anytime rate follows
from the same proofs by dual averaging. D is the radius of the ball of W, η the step, γ the exploration rate.
"""

import math

from learners.base import Problem
from learners.mathematics.losses import LossName

_LN2 = math.log(2.0)


def safe_step(loss: LossName, problem: Problem, gamma: float | None = None) -> float:
    """Return the largest step η with a surrogate gap ≤ 0 in Theorems 1-3; given γ, the step η = κγ of Theorems 4-6."""
    K, X = problem.n_labels, problem.norm_bound
    full = {"logistic": _LN2 / (2 * K * X**2), "hinge": (K - 1) / (K**2 * X**2), "smooth_hinge": 1 / (4 * K * X**2)}
    return full[loss] if gamma is None else full[loss] * gamma / K


def least_gap(problem: Problem, radius: float) -> float:
    """Return a_min = min(1/2, q/(1 + q)), a lower bound on the logistic loss's gap for all W in the ball (Theorem 4).

    Scores differ by at most √2 D X, so the K - 1 other labels have at least q = (K - 1) exp(-√2 D X) times the
    probability of the leader. The printed ((1 - γ) e^(-2DX) + γ)/K is no lower bound on propensities; a_min/K is.
    """
    q = (problem.n_labels - 1) * math.exp(-math.sqrt(2.0) * radius * problem.norm_bound)
    return min(0.5, q / (1.0 + q))


def tuned_exploration(loss: LossName, problem: Problem, radius: float, horizon: int) -> float:
    """Return the γ in (0, 1] that Theorems 4-6 choose for a known number of rounds, T = horizon."""
    K, X, D = problem.n_labels, problem.norm_bound, radius
    squared = {
        "logistic": K**2 * X**2 * D**2 / _LN2,
        "hinge": K**4 * X**2 * D**2 / (2 * (K - 1) ** 2),
        "smooth_hinge": 2 * K**2 * X**2 * D**2,
    }[loss]
    return float(min(1.0, math.sqrt(squared / horizon)))


def tuned_bound(loss: LossName, problem: Problem, radius: float, horizon: int) -> float:
    """Return the bound of Theorems 4-6 on expected mistakes minus the loss of any W in the ball, at the tuned γ."""
    K, X, D = problem.n_labels, problem.norm_bound, radius
    scale = 2 * K * X * D
    constant, growing = {
        "logistic": (scale**2 / (2 * _LN2), scale * math.sqrt(horizon / _LN2)),
        "hinge": (K**3 * X**2 * D**2 / (K - 1), scale * math.sqrt(horizon / 2)),
        "smooth_hinge": (scale**2, scale * math.sqrt(2 * horizon)),
    }[loss]
    return max(constant, growing)


def anytime_constant(loss: LossName, problem: Problem, radius: float) -> float:
    """Return c of the rate γ_t = min(1, c/√t), which needs no T and whose bound is √2 times that of the tuned γ.

    c = (D/2) √(K / (κ (K - 1))), with κ = η/γ.
    """
    K = problem.n_labels
    kappa = safe_step(loss, problem, gamma=1.0)
    return float(radius / 2 * math.sqrt(K / (kappa * (K - 1))))
