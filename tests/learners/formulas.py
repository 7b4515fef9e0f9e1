"""The papers' formulas in plain numpy, independent of the learners' code.

As in the papers, W is (K, d): its rows are the weight vectors of the labels.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from learners.algorithms.first_order.gaptron import Gaptron
from learners.base import FloatArray, IntArray, Problem
from learners.mathematics.losses import LossName

LN2 = np.log(2.0)
LOSSES: tuple[LossName, ...] = ("logistic", "hinge", "smooth_hinge")


# --- Gaptron


def theorem(problem: Problem, **hyperparameters: Any) -> Gaptron:
    """Return Gaptron as its theorems define it; by default with the logistic loss in the unit ball."""
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
    """Return Π_D(W), the nearest point of the Frobenius ball of this radius."""
    return W * min(1.0, radius / max(float(np.linalg.norm(W)), 1e-300))


# --- SOBA


class Accepted(NamedTuple):
    """SOBA's numbers for a correct round before the update, the decision, and A and θ after it."""

    accepted: bool
    leader_wrong: bool
    c: float
    u: FloatArray  # (K·d,), (e_ȳ - e_y) ⊗ x
    delta: float
    q: float
    m: float
    A: FloatArray  # (K·d, K·d) after the round
    theta: FloatArray  # (K·d,) after the round


def soba(xs: FloatArray, labels: IntArray, propensities: FloatArray, K: int, a: float) -> Iterator[Accepted]:
    """Run Algorithm 1 of SOBA on correct rounds, with explicit A and θ and one linear solve per round."""
    n = K * xs.shape[1]
    A, theta, total = a * np.eye(n), np.zeros(n), 0.0
    for x, y, p in zip(xs, labels, propensities, strict=True):
        w, own = np.linalg.solve(A, theta), np.eye(K)[y]
        s = w.reshape(K, -1) @ x
        rival = np.eye(K)[np.argmax(np.where(own, -np.inf, s))]
        u, c, delta = np.kron(rival - own, x), 1.0 / p, float((rival - own) @ s)
        q = float(c * u @ np.linalg.solve(A, u))
        m = (c * delta**2 + 2 * c * delta) / (1 + q)
        accepted = total + m >= 0
        if accepted:
            total, A, theta = total + m, A + c * np.outer(u, u), theta - c * u
        yield Accepted(accepted, bool(np.argmax(s) != y), c, u, delta, q, m, A, theta)


class DiagonalState(NamedTuple):
    """The state of SOBAdiag after a round."""

    A: FloatArray  # (K, d)
    theta: FloatArray  # (K, d)
    margin_sum: float
    quadratic_sum: float
    updates: int


def soba_diagonal(
    xs: FloatArray, labels: IntArray, propensities: FloatArray, K: int, a: float
) -> Iterator[DiagonalState]:
    """Run SOBAdiag, section 5 of the paper, on correct rounds, with explicit θ."""
    A, theta = np.full((K, xs.shape[1]), a), np.zeros((K, xs.shape[1]))
    total, quadratic, updates = 0.0, 0.0, 0
    for x, y, p in zip(xs, labels, propensities, strict=True):
        s = (theta / A) @ x
        rival = max((k for k in range(K) if k != y), key=lambda k: (s[k], -k))
        delta, q = s[rival] - s[y], float(np.sum(x**2 * (1 / A[rival] + 1 / A[y]))) / p
        m = (delta**2 + 2 * delta) / p / (1 + q)
        if total + m >= 0:
            A[rival] += x**2 / p
            A[y] += x**2 / p
            theta[rival] -= x / p
            theta[y] += x / p
            total, updates = total + m, updates + 1
            quadratic += float(np.sum(x**2 * (1 / A[rival] + 1 / A[y]))) / p
        yield DiagonalState(A.copy(), theta.copy(), total, quadratic, updates)
