"""FOLKLORE: online multiclass logistic regression with logarithmic regret in O(K³·d²) time per update.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression", ALT 2022,
Algorithm 1 and Appendix E. Printed errors are corrected: the gradient sum G includes the linear part of the surrogate,
-2γ H W for the loss's Hessian H; the surrogate's constant γ is 1/(2BX + ln K + 2), not 1/(BX + ln(K)/2); the regret
keeps the 1/4 of Lemma 3.6.

The matrix A and the sum G are never formed, only A⁻¹ and h = A⁻¹G. With P_kl = (e_k ⊗ x)'A⁻¹(e_l ⊗ x) and
b_k = (e_k ⊗ x)'h, the logits solve z = ¼ diag(P) - ½b - ½P softmax(z), a strongly convex problem in K variables.
To store A and G too, and to recompute A⁻¹ and h from them, would double the state without benefit: a round adds at most
γX²/2 <= X/(4B) to A, which starts at 2X/B, so after T rounds its condition number is at most 1 + T/8, for any B and X.
The tests check that A⁻¹ and h are exact to 1e-9 after 2,000 rounds.

With S = diag(σ) - σσ' = LL', every linear system has a matrix I + c L'PL with c > 0, and P is positive semi-definite.
So no eigenvalue is below 1, a Cholesky factor always exists, and no pivot is below 1.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from learners.base import NO_PRICES, BoolArray, Contexts, Decisions, FloatArray, Prices, Problem, Rounds, every_label
from learners.hyperparameters import Magnitude, hyperparameters, refusal
from learners.kernels import compiled, compiled_sum, narrow, place_of, widen
from learners.layouts import Count, Layout, Triangle, zero_state
from learners.learner import CheckedLearner, Delayed, DelayedUpdate, FullInformation
from learners.mathematics.exploration import settle, softmax
from learners.mathematics.guarantees import AT_ONCE
from learners.mathematics.linear_algebra import (
    densify,
    packed_block_forms,
    packed_identity,
    packed_rank_one,
    packed_times_each_block,
)

_LARGEST_LOGIT = 1e9  # B·X; beyond it the logits would lose precision


class FolkloreState(NamedTuple):
    """The state of FOLKLORE; rows and columns are ordered by label, then feature."""

    inverse: Triangle  # A⁻¹, n by n for n = K·d, a packed lower triangle
    solution: Annotated[FloatArray, Layout("float64", ("n",))]  # h = A⁻¹G
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class Folklore(Delayed, FullInformation, CheckedLearner[FolkloreState]):
    """FOLKLORE: follows the regularized leader on quadratic surrogates of the logistic loss; predicts softmax(z).

    Learns from every true label. A and G are sums over rounds. With `as_of_prediction`, late feedback takes the
    surrogate at the logits of the prediction, and the order of arrival affects the state only by rounding.
    """

    algorithm = "folklore"
    smaller = "gaptron"
    labels_grow: ClassVar[bool] = True
    state_type = FolkloreState

    comparator_bound: Magnitude = 10.0
    """B: the comparator's weights of each label have norm at most B. The regularization is 2X/B."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        if self.comparator_bound * self.problem.norm_bound > _LARGEST_LOGIT:
            reason = "comparator_bound times the norm bound of the contexts must be at most 1e9"
            raise refusal("comparator_bound", reason)

    @property
    def guarantee(self) -> str:
        return (
            "Logistic loss, in nats, exceeds that of any W with rows of norm at most B by at most "
            "2KBX + (2BX + ln K + 2)/4 · K d ln(1 + T) after T rounds, for any sequence of rounds (Agarwal, Kale and "
            f"Zimmert 2022, Theorem 3.3). {AT_ONCE}"
        )

    def decide_cost(self, _: int) -> int:
        K = self.problem.n_labels
        n = K * self.problem.n_features
        return n * (n + 1) // 2 + 10 * K**3

    def fold_cost(self, _: int) -> int:
        n = self.problem.n_labels * self.problem.n_features
        return n * n * (self.problem.n_labels + (1 if self.evidence_size else 2)) // 2

    def init(self) -> FolkloreState:
        state: FolkloreState = zero_state(self)
        n = len(state.solution)
        packed_identity(state.inverse, self.comparator_bound / (2.0 * self.problem.norm_bound), n)
        return state

    def decide_unchecked(
        self, state: FolkloreState, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
        among = every_label(contexts.n) if eligible is None else eligible
        shape = (contexts.n, self.problem.n_labels)
        distributions, z = np.empty(shape), np.empty(shape)
        _decide(state, self.problem.n_features, contexts, among, distributions, z)
        return Decisions(distributions, z if self.evidence_size else z[:, :0])

    def fold_unchecked(self, state: FolkloreState, rounds: Rounds) -> FolkloreState:
        _fold(state, self.surrogate_constant, self.problem.n_features, self.evidence_size > 0, rounds)
        return state

    def regret_bound(self, rounds: int) -> float:
        """Return the theorem's R(T) for this problem and B."""
        return regret_bound(self.comparator_bound, self.problem, rounds)

    @property
    def surrogate_constant(self) -> float:
        """γ of the surrogate, for this problem and B."""
        return surrogate_constant(self.comparator_bound, self.problem.norm_bound, self.problem.n_labels)


def surrogate_constant(comparator_bound: float, norm_bound: float, n_labels: int) -> float:
    """Return γ = 1/(2BX + ln K + 2). With it, the quadratic surrogate is at most the loss wherever ‖Wx‖_∞ <= BX."""
    return 1.0 / (2.0 * comparator_bound * norm_bound + math.log(n_labels) + 2.0)


def regret_bound(comparator_bound: float, problem: Problem, rounds: int) -> float:
    """Return R(T) = 2KBX + ((2BX + ln K + 2)/4) K d ln(1 + T), in nats: Theorem 3.3 with the constants corrected."""
    K, d, reach = problem.n_labels, problem.n_features, comparator_bound * problem.norm_bound
    constant = surrogate_constant(comparator_bound, problem.norm_bound, K)
    return 2.0 * K * reach + K * d * math.log1p(rounds) / (4.0 * constant)


@compiled
def predict(inverse: FloatArray, solution: FloatArray, x: FloatArray, z: FloatArray) -> None:
    """Write the logits z (K,) for a dense context x (d,)."""
    predict_eligible(inverse, solution, x, np.ones((1, 0), np.bool_), 0, z)


@compiled
def predict_eligible(
    inverse: FloatArray, solution: FloatArray, x: FloatArray, eligible: BoolArray, i: int, z: FloatArray
) -> int:
    """Write the logits of the labels eligible for context i to the front of z (K,); return K', their count."""
    K, d = len(z), len(x)
    P, offset = np.empty((K, K)), np.empty(K)
    packed_block_forms(inverse, x, P)
    for k in range(K):
        offset[k] = 0.25 * P[k, k] - 0.5 * _inner(solution, k * d, x)
    P *= 0.5
    n = narrow(eligible, i, offset)
    if n < K:
        for k in range(K):
            narrow(eligible, i, P[k])
        P = np.ascontiguousarray(P[eligible[i], :n])
    solve_fixed_point(P, offset[:n], z[:n])
    return n


@compiled
def learn(inverse: FloatArray, solution: FloatArray, constant: float, x: FloatArray, z: FloatArray, y: int) -> None:
    """Update A⁻¹ and h in place by the surrogate, at logits z (K,), of a dense context x (d,) with label y, 0 … K-1."""
    sigma = np.empty(len(z))
    softmax(z, sigma)
    learn_at(inverse, solution, constant, x, z, sigma, y)


@compiled
def learn_at(
    inverse: FloatArray, solution: FloatArray, constant: float, x: FloatArray, z: FloatArray, sigma: FloatArray, y: int
) -> None:
    """Do the same as `learn`, given the probabilities σ (K,); labels with σ = z = 0 (ineligible ones) are not learned.

    A += γ S ⊗ xx' and G += r ⊗ x with r = σ - e_y - 2γSz become A⁻¹ -= V M V' and h += V(r - M(b + Pr)), where
    V = A⁻¹(I ⊗ x), M = γ (I + γSP)⁻¹ S = γ TT', T = L C'⁻¹, S = LL' and CC' = I + γL'PL.
    """
    K, n = len(z), len(solution)
    V, P, T, r, w = np.empty((K, n)), np.empty((K, K)), np.empty((K, K - 1)), np.empty(K), np.empty(K)
    packed_times_each_block(inverse, x, V)
    _forms(V, x, P)
    _gradient_and_factor(constant, z, sigma, y, P, r, T)
    for k in range(K):
        w[k] = _inner(solution, k * len(x), x) + _inner(P[k], 0, r)
    for k in range(K):
        _add(solution, r[k], V[k])
    direction = np.empty(n)
    for j in range(K - 1):
        direction[:], pull = 0.0, 0.0
        for k in range(K):
            _add(direction, T[k, j], V[k])
            pull += T[k, j] * w[k]
        _add(solution, -constant * pull, direction)
        packed_rank_one(inverse, direction, -constant)


@compiled
def _gradient_and_factor(
    constant: float, z: FloatArray, sigma: FloatArray, y: int, P: FloatArray, r: FloatArray, T: FloatArray
) -> None:
    K = len(z)
    factor, cholesky = np.empty((K, K - 1)), np.zeros((K - 1, K - 1))
    covariance_times(sigma, z, r)
    for k in range(K):
        r[k] = sigma[k] - 2.0 * constant * r[k]
    r[y] -= 1.0
    covariance_factor(sigma, factor)
    identity_plus(P, factor, constant, cholesky)
    for k in range(K):
        T[k] = factor[k]
        half_solve(cholesky, T[k])


@compiled
def _forms(V: FloatArray, x: FloatArray, P: FloatArray) -> None:
    """Write P = (I ⊗ x)' V, exactly symmetric."""
    for k in range(len(P)):
        for i in range(k + 1):
            P[k, i] = _inner(V[k], i * len(x), x)
            P[i, k] = P[k, i]


@compiled_sum
def _inner(vector: FloatArray, start: int, x: FloatArray) -> float:
    """Return the inner product of x and the entries of a vector that begin at `start`."""
    segment = vector[start : start + len(x)]
    total = 0.0
    for j in range(len(x)):
        total += segment[j] * x[j]
    return total


@compiled
def _add(vector: FloatArray, factor: float, other: FloatArray) -> None:
    for i in range(len(vector)):
        vector[i] += factor * other[i]


@compiled
def _decide(
    state: FolkloreState, d: int, contexts: Contexts, eligible: BoolArray, distributions: FloatArray, z: FloatArray
) -> None:
    x = np.empty(d)
    for i in range(len(z)):
        densify(contexts, i, x)
        n = predict_eligible(state.inverse, state.solution, x, eligible, i, z[i])
        softmax(z[i][:n], distributions[i][:n])
        settle(distributions[i][:n])
        widen(eligible, i, distributions[i])
        widen(eligible, i, z[i])


@compiled
def _fold(state: FolkloreState, constant: float, d: int, as_of_prediction: bool, rounds: Rounds) -> None:
    K = len(state.solution) // d
    x, z, sigma = np.empty(d), np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        y = rounds.true_labels[t]
        if y >= 0 and place_of(rounds.eligible, t, y) >= 0:
            densify(rounds.contexts, t, x)
            if as_of_prediction:
                z[:] = rounds.evidence[t]
                n = narrow(rounds.eligible, t, z)
            else:
                n = predict_eligible(state.inverse, state.solution, x, rounds.eligible, t, z)
            softmax(z[:n], sigma[:n])
            widen(rounds.eligible, t, sigma)
            widen(rounds.eligible, t, z)
            learn_at(state.inverse, state.solution, constant, x, z, sigma, y)
        state.rounds[()] += 1


_MAX_STEPS = 200
_TOLERANCE = 1e-14  # the largest accepted residual, relative to 1 plus the largest entries of z and g
_LEAST_SHARE = 2.0**-40  # the smallest share of a Newton step that is tried


@compiled
def covariance_factor(probabilities: FloatArray, factor: FloatArray) -> None:
    """Write the lower triangular L, (K, K - 1), with LL' = diag(σ) - σσ', in closed form from partial sums of σ."""
    K = len(probabilities)
    factor[:] = 0.0
    tail = probabilities[K - 1]
    for k in range(K - 2, -1, -1):
        whole = probabilities[k] + tail
        if tail > 0.0:
            factor[k, k] = math.sqrt(probabilities[k] * (tail / whole))
            for i in range(k + 1, K):
                factor[i, k] = -(probabilities[i] / tail) * factor[k, k]
        tail = whole


@compiled
def covariance_times(probabilities: FloatArray, vector: FloatArray, result: FloatArray) -> None:
    """Write (diag(σ) - σσ') v, (K,)."""
    mean = 0.0
    for k in range(len(vector)):
        mean += probabilities[k] * vector[k]
    for k in range(len(vector)):
        result[k] = probabilities[k] * (vector[k] - mean)


@compiled
def identity_plus(matrix: FloatArray, factor: FloatArray, scale: float, cholesky: FloatArray) -> None:
    """Write the Cholesky factor C of I + scale · L'AL, (K - 1, K - 1), for A (K, K) and L from `covariance_factor`."""
    K = len(matrix)
    product = np.zeros((K, K - 1))
    for i in range(K):
        for j in range(K):
            for k in range(min(j + 1, K - 1)):
                product[i, k] += matrix[i, j] * factor[j, k]
    for i in range(K - 1):
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for k in range(i, K):
                total += scale * factor[k, i] * product[k, j]
            for k in range(j):
                total -= cholesky[i, k] * cholesky[j, k]
            # Rounding could bring a pivot below 1; the maximum prevents a division by zero.
            cholesky[i, j] = math.sqrt(max(1.0, total)) if i == j else total / cholesky[j, j]


@compiled
def half_solve(cholesky: FloatArray, vector: FloatArray) -> None:
    """Replace v by C⁻¹ v, (K - 1,)."""
    for i in range(len(vector)):
        for j in range(i):
            vector[i] -= cholesky[i, j] * vector[j]
        vector[i] /= cholesky[i, i]


@compiled
def other_half_solve(cholesky: FloatArray, vector: FloatArray) -> None:
    """Replace v by C'⁻¹ v, (K - 1,)."""
    for i in range(len(vector) - 1, -1, -1):
        for j in range(i + 1, len(vector)):
            vector[i] -= cholesky[j, i] * vector[j]
        vector[i] /= cholesky[i, i]


@compiled
def solve_fixed_point(matrix: FloatArray, offset: FloatArray, z: FloatArray) -> None:
    """Solve z = g - A softmax(z) by damped Newton steps from g (`offset`); A (`matrix`) is positive semi-definite."""
    K = len(offset)
    sigma, residual, step = np.empty(K), np.empty(K), np.empty(K)
    z[:] = offset
    error = _residual(matrix, offset, z, sigma, residual)
    for _ in range(_MAX_STEPS):
        if error <= _TOLERANCE * (1.0 + np.max(np.abs(z)) + np.max(np.abs(offset))):
            return
        _newton_step(matrix, sigma, residual, step)
        next_error, share = math.inf, 2.0
        while next_error >= error:
            share *= 0.5
            if share < _LEAST_SHARE:  # rounding prevents progress
                return
            next_error = _residual(matrix, offset, z + share * step, sigma, residual)
        z += share * step
        error = next_error


@compiled
def _residual(matrix: FloatArray, offset: FloatArray, z: FloatArray, sigma: FloatArray, residual: FloatArray) -> float:
    softmax(z, sigma)
    worst = 0.0
    for i in range(len(z)):
        residual[i] = z[i] - offset[i]
        for j in range(len(z)):
            residual[i] += matrix[i, j] * sigma[j]
        worst = max(worst, abs(residual[i]))
    return worst


@compiled
def _newton_step(matrix: FloatArray, sigma: FloatArray, residual: FloatArray, step: FloatArray) -> None:
    """Write the step for the residual F: -(I + AS)⁻¹ F = -F + A L (I + L'AL)⁻¹ L' F."""
    K = len(sigma)
    factor, cholesky, inner = np.empty((K, K - 1)), np.zeros((K - 1, K - 1)), np.zeros(K - 1)
    covariance_factor(sigma, factor)
    identity_plus(matrix, factor, 1.0, cholesky)
    for k in range(K - 1):
        for i in range(k, K):
            inner[k] += factor[i, k] * residual[i]
    half_solve(cholesky, inner)
    other_half_solve(cholesky, inner)
    for i in range(K):
        step[i] = -residual[i]
        for j in range(K):
            for k in range(min(j + 1, K - 1)):
                step[i] += matrix[i, j] * factor[j, k] * inner[k]
