"""SOBA for large K·d and few updates: A is a·I plus the accepted updates, stored as sparse rows.

This is Algorithm 1, as in `soba`, by Woodbury's identity: if the rows of Z are the accepted z = √c (e_ȳ - e_y) ⊗ x,
A⁻¹ = (I - Z'(aI + ZZ')⁻¹Z) / a. The state contains the Cholesky factor L of aI + ZZ'. For a new z, r = L⁻¹Zz gives
q = z'A⁻¹z = (z'z - r'r)/a, and (r', √(a(1 + q))) is the next row of L. No row ever changes, so rounding errors do not
accumulate, unlike in an inverse that is maintained by rank-one downdates.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np
import pydantic

from learners.algorithms.second_order.soba import ExactSoba, Parameters, decide, margin_gain
from learners.base import FloatArray, IntArray, Rounds
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled, compiled_sum, row
from learners.layouts import Count, LabelVectors, Layout, NonNegativeScalar
from learners.mathematics.exploration import leading_rival
from learners.mathematics.guarantees import AT_ONCE
from learners.mathematics.linear_algebra import (
    add_to_label,
    packed_solve_lower,
    packed_solve_upper,
    score_row,
    squared_norm,
)


class SobaLowRankState(NamedTuple):
    """Z as sparse rows, L, and W: K·d numbers plus the space reserved for updates."""

    weights: LabelVectors  # W = mat(A⁻¹ θ) until an update finds no room
    factor: Annotated[FloatArray, Layout("float64", ("factor_size",))]  # L, a packed lower triangle of `stored` rows
    pairs: Annotated[IntArray, Layout("int64", ("max_updates", "2"), index_of="K")]  # ȳ and y of each row of Z
    ends: Annotated[IntArray, Layout("int64", ("max_updates",), least=0.0)]  # where each row ends in the next two
    indices: Annotated[IntArray, Layout("int64", ("max_nonzeros",), index_of="d")]  # the features of √c x
    values: Annotated[FloatArray, Layout("float64", ("max_nonzeros",))]  # √c x, without zeros
    margin_sum: NonNegativeScalar  # Σ, the sum of m (`margin_gain`) over accepted rounds
    quadratic_sum: NonNegativeScalar  # Q, the sum of q / (1 + q) over the rows of Z
    rounds: Count  # rounds folded so far, t - 1
    updates: Count  # rounds accepted so far
    stored: Count  # U, the number of rows of Z: accepted rounds that were stored


@hyperparameters
class SobaLowRank(ExactSoba[SobaLowRankState]):
    """SOBA for sparse contexts with many features: answers exactly as `soba` until the space for updates is full.

    If U updates with S non-zeros in total are stored, folding a right answer takes O(U² + S) time, and a prediction
    O(K·nnz). Memory is K·d numbers, max_updates² / 2 for the factor, and 2 for each of max_nonzeros. If K·d is much
    less than max_updates, `soba` is smaller and faster.

    If an accepted round does not fit, A does not change, but W still takes a step with the current A: the implicit
    step on c (1 + u'w)² in the norm of A, which never overshoots and does not shrink with time. Q, and with it adaptive
    exploration, depends on the stored updates alone. Late feedback updates the current matrix with the stored
    propensity, as Lemma 2 requires.
    """

    algorithm = "soba-low-rank"
    smaller = "soba-diagonal"
    state_type = SobaLowRankState

    max_updates: Annotated[int, pydantic.Field(ge=1, le=20_000)] = 1000
    """The maximum number of stored updates; the factor takes 4 bytes times its square."""
    max_nonzeros: Annotated[int, pydantic.Field(ge=1, le=2**31)] = 200_000
    """The maximum total number of non-zeros in the contexts of stored updates; 16 bytes each."""

    @property
    def guarantee(self) -> str:
        whole = super().guarantee
        if not whole.endswith(AT_ONCE):
            return whole
        return (
            f"{whole} This holds until the first accepted round that finds no room among {self.max_updates:,} updates "
            f"and {self.max_nonzeros:,} non-zeros; nothing is proved after it."
        )

    @property
    def factor_size(self) -> int:
        """The number of entries of a packed triangle with max_updates rows."""
        return self.max_updates * (self.max_updates + 1) // 2

    def fold_cost(self, _: int) -> int:
        return self.max_updates**2 + 3 * self.max_nonzeros

    def warnings(self, state: SobaLowRankState) -> list[str]:
        lost = int(state.updates) - int(state.stored)
        if lost <= 0:
            return []
        limit = "max_updates" if state.stored >= self.max_updates else "max_nonzeros"
        return [f"{limit}: {state.stored:,} updates are stored; {lost:,} accepted rounds found no room."]

    @property
    def kernels(self) -> Kernels:
        return Kernels(self.parameters, decide, _fold)


class _Row(NamedTuple):
    """z = √c (e_rival - e_y) ⊗ x, a candidate row of Z."""

    indices: IntArray  # (nnz,)
    values: FloatArray  # (nnz,), √c x
    rival: int  # ȳ
    y: int


@compiled
def _fold(parameters: Parameters, state: SobaLowRankState, rounds: Rounds) -> None:
    a = parameters.regularization
    d, K = state.weights.shape
    x, s, r = np.zeros(d), np.empty(K), np.empty(len(state.ends))
    for t in range(len(rounds.labels)):
        if rounds.correct[t]:
            indices, values = row(rounds.contexts, t)
            score_row(state.weights, rounds.contexts, t, s)
            rival = leading_rival(rounds.eligible, t, s, rounds.labels[t])
            if rival >= 0:
                c = 1.0 / rounds.propensities[t]
                _update(state, a, indices, values, rounds.labels[t], rival, c, x, s, r)
        state.rounds[()] += 1


@compiled
def _update(
    state: SobaLowRankState,
    a: float,
    indices: IntArray,
    values: FloatArray,
    y: int,
    rival: int,
    c: float,
    x: FloatArray,
    s: FloatArray,
    r: FloatArray,
) -> None:
    """Fold one correct round with scores s (K,); x (d,), zero before and after, and r (max_updates,) are scratch."""
    delta, most = s[rival] - s[y], 2.0 * c * squared_norm(values) / a
    # q is at most z'z / a, and a negative m is closest to zero at the largest q. This test settles most refusals.
    if state.margin_sum.item() + margin_gain(c, delta, most) < 0.0:
        return
    z, r = _Row(indices, math.sqrt(c) * values, rival, y), r[: min(state.stored.item(), len(state.ends))]
    _products(state, z, x, r)
    packed_solve_lower(state.factor, r)
    known = squared_norm(r) / a
    if not known <= 2.0 * most:  # only possible with a corrupt factor
        return
    q = max(0.0, most - known)
    m = margin_gain(c, delta, q)
    if state.margin_sum.item() + m < 0.0:
        return
    state.margin_sum[()] += m
    state.updates[()] += 1
    _store(state, a, z, q, r)
    packed_solve_upper(state.factor, r)
    _step(state, z, math.sqrt(c) * (1.0 + delta) / (a * (1.0 + q)), r)


@compiled
def _start(state: SobaLowRankState, i: int) -> int:
    return 0 if i == 0 else state.ends[i - 1]


@compiled
def _stored_row(state: SobaLowRankState, i: int) -> _Row:
    start, stop = _start(state, i), state.ends[i]
    return _Row(state.indices[start:stop], state.values[start:stop], state.pairs[i, 0], state.pairs[i, 1])


@compiled
def _products(state: SobaLowRankState, z: _Row, x: FloatArray, result: FloatArray) -> None:
    """Write Zz to result (U,); x (d,), zero before and after, is scratch space."""
    for position in range(len(z.values)):
        x[z.indices[position]] = z.values[position]
    for i in range(len(result)):
        other = _stored_row(state, i)
        shared = int(other.rival == z.rival) + int(other.y == z.y) - int(other.rival == z.y) - int(other.y == z.rival)
        result[i] = shared * _sparse_dot(other.indices, other.values, x) if shared != 0 else 0.0
    for position in range(len(z.values)):
        x[z.indices[position]] = 0.0


@compiled_sum
def _sparse_dot(indices: IntArray, values: FloatArray, dense: FloatArray) -> float:
    total = 0.0
    for position in range(len(values)):
        total += values[position] * dense[indices[position]]
    return total


@compiled
def _store(state: SobaLowRankState, a: float, z: _Row, q: float, r: FloatArray) -> None:
    """Append z to Z and (r', √(a(1 + q))) to L, if both have room."""
    place = len(r)
    at = _start(state, place)
    if place == len(state.ends) or np.count_nonzero(z.values) > len(state.values) - at:
        return
    for position in range(len(z.values)):
        if z.values[position] != 0.0:
            state.indices[at], state.values[at] = z.indices[position], z.values[position]
            at += 1
    state.pairs[place, 0], state.pairs[place, 1], state.ends[place] = z.rival, z.y, at
    start = place * (place + 1) // 2
    state.factor[start : start + place] = r
    state.factor[start + place] = math.sqrt(a * (1.0 + q))
    state.quadratic_sum[()] += q / (1.0 + q)
    state.stored[()] = place + 1


@compiled
def _step(state: SobaLowRankState, z: _Row, step: float, coefficients: FloatArray) -> None:
    """Subtract step · mat(z - Z' coefficients) from W."""
    _add(state.weights, z, -step)
    for i in range(len(coefficients)):
        _add(state.weights, _stored_row(state, i), step * coefficients[i])


@compiled
def _add(weights: FloatArray, z: _Row, factor: float) -> None:
    add_to_label(weights, z.rival, factor, z.indices, z.values)
    add_to_label(weights, z.y, -factor, z.indices, z.values)
