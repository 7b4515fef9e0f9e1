"""Exploration rates of the SOBA family: fixed, or falling with the rounds."""

import math
from typing import Annotated, Literal, TypeAlias

import pydantic

from learners.base import FloatArray, IntArray, Problem
from learners.hyperparameters import ExplorationRate
from learners.kernels import compiled
from learners.mathematics.exploration import adaptive_rate

Exploration: TypeAlias = Annotated[
    Literal["anytime", "adaptive"] | ExplorationRate,
    pydantic.Field(
        description="γ, `anytime` for γ_t = min(1, sqrt(K/t)), or `adaptive` for Theorem 5's min(1, sqrt(K(1 + Q)/t)), "
        "which falls far more slowly."
    ),
]

_ANYTIME, _ADAPTIVE = -1.0, 0.0  # encode the schedules in the kernels, where a fixed γ is positive


def least_exploration(exploration: Exploration, problem: Problem) -> float:
    """Return γ, or the rate that a schedule reaches after a million rounds."""
    return min(1.0, math.sqrt(problem.n_labels / 1e6)) if isinstance(exploration, str) else exploration


def exploration_code(exploration: Exploration) -> float:
    """Return γ, or the number that encodes a schedule in the kernels."""
    if isinstance(exploration, str):
        return _ANYTIME if exploration == "anytime" else _ADAPTIVE
    return exploration


@compiled
def exploration_rate(code: float, n_labels: int, quadratic_sum: FloatArray, rounds: IntArray) -> float:
    """Return γ for the next decision: fixed, Theorem 5's from the state's sums, or `anytime`, the same with Q = 0."""
    if code > 0.0:
        return code
    return adaptive_rate(n_labels, quadratic_sum.item() if code == _ADAPTIVE else 0.0, rounds.item())
