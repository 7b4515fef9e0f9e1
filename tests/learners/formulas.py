"""The papers' formulas in plain numpy, independent of the learners' code.

As in the papers, W is (K, d): its rows are the weight vectors of the labels.
"""

from typing import Any

import numpy as np

from learners.algorithms.first_order.gaptron import Gaptron
from learners.base import FloatArray, IntArray, Problem
from learners.mathematics.losses import LossName

LN2 = np.log(2.0)
LOSSES: tuple[LossName, ...] = ("logistic", "hinge", "smooth_hinge")


def theorem(problem: Problem, **hyperparameters: Any) -> Gaptron:
    chosen: dict[str, Any] = {"loss": "logistic", "exploration": "theorem", "learning_rate": "theorem", "radius": 1.0}
    learner: Gaptron = Gaptron(problem=problem, **(chosen | hyperparameters))
    return learner


def margins(s: FloatArray, y: IntArray) -> FloatArray:
    """Return s_y - max_{k≠y} s_k for rows of scores (n, K)."""
    rows = np.arange(len(s))
    others = s.copy()
    others[rows, y] = -np.inf
    return np.asarray(s[rows, y] - others.max(axis=1))


def losses_of(loss: LossName, s: FloatArray, y: IntArray) -> FloatArray:
    """Return the surrogate losses of rows of scores (n, K), the hinge loss without the learner's zero branch."""
    if loss == "logistic":
        top = s.max(axis=1, keepdims=True)
        total = np.log2(np.exp(s - top).sum(axis=1))
        return np.asarray(total - (s - top)[np.arange(len(s)), y] / LN2)
    m = margins(s, y)
    return np.maximum(1 - m, 0) if loss == "hinge" else np.select([m <= 0, m < 1], [1 - 2 * m, (1 - m) ** 2], 0.0)


def gap_of(loss: LossName, s: FloatArray) -> FloatArray:
    """Return Gaptron's gap map a for rows of scores (n, K)."""
    if loss == "logistic":
        p = 1 / np.exp(s - s.max(axis=1, keepdims=True)).sum(axis=1)
        return np.where(p < 0.5, 1.0, 1 - p)
    m = margins(s, s.argmax(axis=1))
    return np.where(m >= 1 / s.shape[1] - 1e-12, 0.0, 1 - m) if loss == "hinge" else (1 - np.minimum(1, m)) ** 2


def gradient(loss: LossName, s: FloatArray, y: int, x: FloatArray) -> FloatArray:
    """Return the gradient (K, d) of Gaptron's loss at scores s (K,), the hinge loss with its zero branch."""
    own = np.eye(len(s))[y]
    if loss == "logistic":
        p = np.exp(s - s.max())
        return np.asarray(np.outer(p / p.sum() - own, x) / LN2)
    rival = np.eye(len(s))[np.argmax(np.where(own, -np.inf, s))]
    m = float((own - rival) @ s)
    slope = float(m <= 1 / len(s)) if loss == "hinge" else float(np.clip(2 * (1 - m), 0.0, 2.0))
    return np.asarray(slope * np.outer(rival - own, x))


def projected(W: FloatArray, radius: float) -> FloatArray:
    return W * min(1.0, radius / max(float(np.linalg.norm(W)), 1e-300))
