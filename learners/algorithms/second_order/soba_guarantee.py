"""The guarantees of SOBA with its full matrix, for each choice of its hyperparameters."""

import math

from learners.base import Problem
from learners.mathematics.guarantees import AT_ONCE, uncovered

_LOSS = (
    "Expected mistakes exceed the η-loss of any U, an interpolation of hinge and squared hinge, for every "
    "0 < η ≤ min(1, 2/(2X max‖U_k‖ + 1)), by at most"
)
_SOURCE = "Beygelzimer, Orabona and Zhang 2017"


def soba_guarantee(exploration: str | float, regularization: float, problem: Problem) -> str:
    """Return what is proved, where, and under which assumptions."""
    if not isinstance(exploration, str):
        return (
            f"{_LOSS} a η‖U‖²/(2 - η) + d K² ln(1 + 2TX²/(a d K))/(γ η (2 - η)) + γT after T rounds, where γ = "
            f"{exploration:g} and a = {regularization:g} ({_SOURCE}, Theorem 2). {AT_ONCE}"
        )
    if exploration == "anytime":
        return uncovered(
            "exploration √(K/t) has no analysis", "a fixed exploration, or adaptive with a regularization of X²"
        )
    if not math.isclose(regularization, problem.norm_bound**2):
        return uncovered(
            "adaptive exploration is analysed only with a regularization of X²",
            "a regularization of X², or a fixed exploration",
        )
    return f"{_LOSS} Õ(K √(d T)/η) after T rounds, for any T ({_SOURCE}, Theorem 5). {AT_ONCE}"
