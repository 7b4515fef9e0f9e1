"""SOBAdiag: SOBA with only the diagonal of A.

Beygelzimer, Orabona, Zhang, "Efficient Online Bandit Multiclass Learning with Õ(√T) Regret", ICML 2017, section 5.
It takes linear time and memory. No theorem applies, because Lemma 2 needs the full matrix. In the paper's experiments,
it was the strongest bandit learner on three of four data sets.
"""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from learners.algorithms.second_order.soba import Exploration, Parameters, decide, exploration_code, margin_gain
from learners.base import FloatArray, IntArray, Rounds
from learners.hyperparameters import Magnitude, hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, LabelVectors, Layout, NonNegativeScalar, zero_state
from learners.learner import CompiledLearner, WithoutEvidence
from learners.mathematics.exploration import leading_rival
from learners.mathematics.guarantees import uncovered
from learners.mathematics.linear_algebra import score_row


class SobaDiagonalState(NamedTuple):
    """2·K·d numbers; θ = A ∘ W is implicit."""

    diagonal: Annotated[FloatArray, Layout("float64", ("d", "K"), least=1e-6)]  # A, every entry >= a
    weights: LabelVectors  # W = θ / A
    margin_sum: NonNegativeScalar  # Σ, the sum of m (`margin_gain`) over accepted rounds
    quadratic_sum: NonNegativeScalar  # Q, the sum of q over accepted rounds, computed with the updated A
    rounds: Count  # rounds folded so far, t - 1
    updates: Count  # rounds accepted so far


@hyperparameters
class SobaDiagonal(WithoutEvidence, CompiledLearner[SobaDiagonalState]):
    """SOBAdiag: O(K·nnz) per prediction and per update, 2·K·d numbers of memory."""

    algorithm = "soba-diagonal"
    smaller = "fewer features"
    labels_grow: ClassVar[bool] = True
    state_type = SobaDiagonalState
    linear = True

    regularization: Magnitude = 1.0
    """a > 0, the initial value of the diagonal; 1 in the paper's experiments."""
    exploration: Exploration = "anytime"

    @property
    def guarantee(self) -> str:
        return uncovered("the analysis needs the full matrix, not its diagonal", "soba with a fixed exploration")

    def fold_cost(self, nonzeros: int) -> int:
        return (self.problem.n_labels + 2) * nonzeros

    @property
    def kernels(self) -> Kernels:
        return Kernels(Parameters(exploration_code(self.exploration), self.regularization), decide, _fold)

    def init(self) -> SobaDiagonalState:
        state: SobaDiagonalState = zero_state(self)
        state.diagonal[:] = self.regularization
        return state


@compiled
def _fold(_: Parameters, state: SobaDiagonalState, rounds: Rounds) -> None:
    s = np.empty(state.weights.shape[1])
    for t in range(len(rounds.labels)):
        if rounds.correct[t]:
            indices, values = row(rounds.contexts, t)
            score_row(state.weights, rounds.contexts, t, s)
            rival = leading_rival(rounds.eligible, t, s, rounds.labels[t])
            if rival >= 0:
                _update(state, indices, values, rounds.labels[t], rival, 1.0 / rounds.propensities[t], s)
        state.rounds[()] += 1


@compiled
def _update(
    state: SobaDiagonalState, indices: IntArray, values: FloatArray, y: int, rival: int, c: float, s: FloatArray
) -> None:
    delta = s[rival] - s[y]
    q = c * _quadratic(state.diagonal, indices, values, y, rival)
    m = margin_gain(c, delta, q)
    if state.margin_sum.item() + m < 0.0:
        return
    state.margin_sum[()] += m
    _add(state, indices, values, rival, c, -c)
    _add(state, indices, values, y, c, c)
    state.quadratic_sum[()] += c * _quadratic(state.diagonal, indices, values, y, rival)
    state.updates[()] += 1


@compiled
def _quadratic(diagonal: FloatArray, indices: IntArray, values: FloatArray, y: int, rival: int) -> float:
    total = 0.0
    for position in range(len(values)):
        a = diagonal[indices[position]]
        total += values[position] * values[position] * (1.0 / a[rival] + 1.0 / a[y])
    return total


@compiled
def _add(state: SobaDiagonalState, indices: IntArray, values: FloatArray, k: int, c: float, sign: float) -> None:
    """Add c x² to A_k and sign·x to θ_k; set W_k = θ_k / A_k."""
    for position in range(len(values)):
        i, x = indices[position], values[position]
        old = state.diagonal[i, k]
        new = old + c * x * x
        state.diagonal[i, k] = new
        state.weights[i, k] = (old * state.weights[i, k] + sign * x) / new
