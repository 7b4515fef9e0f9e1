"""A reference implementation of FOLKLORE with explicit A and G."""

import numpy as np
from scipy import optimize
from scipy.special import logsumexp, softmax

from learners.algorithms.improper.folklore import surrogate_constant
from learners.base import FloatArray, IntArray, Problem
from tests.learners.worlds import Step, join


class Reference:
    """Algorithm 1 with explicit A and G and a solve in every round."""

    def __init__(
        self, problem: Problem, bound: float, gamma: float | None = None, *, printed_sum: bool = False
    ) -> None:
        self.K, self.d = problem.n_labels, problem.n_features
        n = self.K * self.d
        self.gamma = surrogate_constant(bound, problem.norm_bound, self.K) if gamma is None else gamma
        self.printed_sum = printed_sum
        self.A, self.G = 2 * problem.norm_bound / bound * np.eye(n), np.zeros(n)

    def terms(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrix Ã = ½P and the offset g̃ of the equation z = g̃ - Ã softmax(z)."""
        wide = np.kron(np.eye(self.K), x[:, None])
        P = wide.T @ np.linalg.solve(self.A, wide)
        return P / 2, np.diag(P) / 4 - wide.T @ np.linalg.solve(self.A, self.G) / 2

    def logits(self, x: FloatArray) -> FloatArray:
        """Solve the fixed-point equation by minimizing a convex function whose gradient vanishes there."""
        A, g = self.terms(x)
        u = optimize.minimize(
            lambda u: u @ A @ u / 2 + logsumexp(g - A @ u),
            np.full(self.K, 1 / self.K),
            jac=lambda u: A @ (u - softmax(g - A @ u)),
            method="BFGS",
            options={"gtol": 1e-12},
        ).x
        z = g - A @ u
        for _ in range(50):  # undamped Newton steps to full precision
            p = softmax(z)
            jacobian = np.eye(self.K) + A @ (np.diag(p) - np.outer(p, p))
            z = z - np.linalg.solve(jacobian, z - g + A @ p)
        return np.asarray(z)

    def learn(self, x: FloatArray, y: int, z: FloatArray) -> None:
        """Apply A += γ S ⊗ xx' and G += r ⊗ x."""
        p = softmax(z)
        S = np.diag(p) - np.outer(p, p)
        r = p - np.eye(self.K)[y] - (0.0 if self.printed_sum else 2 * self.gamma) * S @ z
        self.A += self.gamma * np.kron(S, np.outer(x, x))
        self.G += np.kron(r, x)


def log_losses(z: FloatArray, y: IntArray) -> FloatArray:
    """Return the logistic losses, in nats, of rows of logits (n, K)."""
    return np.asarray(logsumexp(z, axis=1) - z[np.arange(len(y)), y])


def logits_of(steps: list[Step]) -> FloatArray:
    """Return the logits z of each step, (n, K)."""
    return join(steps).evidence
