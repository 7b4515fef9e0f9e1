"""FastCB: exploration that falls with the loss, over a mixture of one-vs-rest logistic and softmax regression.

Dylan Foster, Akshay Krishnamurthy, "Efficient First-Order Contextual Bandits: Prediction, Allocation, and Triangular
Discrimination", NeurIPS 2021, for the exploration. Its oracle is a Bayesian mixture of two regressions, each with one
step size per weight from the diagonal of the empirical Fisher information, invariant to the features' scales as in
Stéphane Ross, Paul Mineiro, John Langford, "Normalized Online Learning", UAI 2013.

The one-vs-rest regression learns a right or wrong answer for the served label only. The softmax regression assumes that
exactly one label is right, and maximizes the likelihood of the bit: a right answer teaches all labels. Where several
labels can be right, or none, the mixture moves to the former.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.base import Contexts, FloatArray, IntArray, NormPolicy, Rounds
from learners.checked_learner import WithoutEvidence
from learners.growing_learner import GrowingLearner, RowCounts, RowFeatures, RowSlots
from learners.hyperparameters import LeastExploration, hyperparameters
from learners.kernels import Kernels, compiled, longest, row
from learners.layouts import Count, Layout, RowSquares, RowVectors
from learners.mathematics.change_test import Past, detect_change, note_round
from learners.mathematics.exploration import softmax, weigh_by_relative_gap
from learners.mathematics.linear_algebra import score

_LARGEST_WEIGHT = 20.0
"""B: the largest contribution of one feature to a score; keeps the state finite for any data."""

_LARGEST_VALUE = 4.0
"""Values are clipped to this many root mean squares of their feature, which limits the effect of outliers."""

_LARGEST_RATIO = 1e3
"""The largest |x| / S that counts in S, so that no single value makes all others vanish."""

_LARGEST_SCALE = 1e308
"""Keeps S finite."""

_PRIOR = 10.0
"""The Fisher information that each weight starts with, in units of 1/S²."""

_LEAST_CHANCE = 1e-6
"""Predicted chances are clipped to this distance from 0 and 1, so that a single round costs at most 14 nats."""


_LABELS, _SOFTMAX, _SIZES, _CHANGE = range(4)
"""Positions in `FastCbState.sums`; the three numbers of the change test are the last."""

_MISTAKES, _ROUNDS, _RESTARTS = range(3)
"""Positions in `FastCbState.counts`."""

_DECISIVE = 36.0
"""Nats of log loss; the posterior of a regression that is further behind is below 2⁻⁵¹, and counts as zero."""


class FastCbState(NamedTuple):
    """4·K + 4 numbers for each feature that occurred, and a few more. Weights are in units of 1/S.

    Sums and counts share arrays because compiled code is faster with fewer of them.
    """

    features: RowFeatures
    slots: RowSlots
    row_counts: RowCounts
    scales: Annotated[FloatArray, Layout("float64", ("R", "2"), least=0.0)]  # S, the root mean square of x_i ≠ 0; count
    label_weights: RowVectors  # W of the one-vs-rest regressions
    label_information: RowSquares  # G, sums of squared gradients
    softmax_weights: RowVectors  # V of the softmax regression
    softmax_information: RowSquares  # H, sums of squared gradients
    sums: Annotated[FloatArray, Layout("float64", ("6",))]  # log losses of both on the served bits, N, the change test
    counts: Annotated[IntArray, Layout("int64", ("3",), least=0.0)]  # mistakes L and rounds t since a restart, restarts
    rounds: Count  # rounds folded so far


class _Parameters(NamedTuple):
    """The hyperparameters in the form that the kernels take."""

    gap_scale: float
    least_exploration: float
    learning_rate: float
    softmax_rate: float
    change_threshold: float  # nats; infinite for no restarts


@hyperparameters
class FastCb(WithoutEvidence, GrowingLearner[FastCbState]):
    """Mixture of two logistic regressions, explored in proportion to the loss: O(K·nnz) per round; recommended.

    Memory is 4·K + 4 numbers for each feature that occurred, at most `max_features`. Two models predict each label's
    probability of being right: a logistic regression per label, and one softmax regression. Their mixture h weighs them
    by their likelihood so far. With l = 1 - h of the leader, L wrong answers so far and γ = c √(K (1 + L)), each other
    label k is answered with probability l/(K l + γ (h_leader - h_k)), and the leader with the rest. Late feedback
    updates the current regressions of the served label.
    """

    algorithm = "fastcb"
    # the published benchmarks use unit contexts, although the steps are scale-free
    norm_policy: ClassVar[NormPolicy] = "unit"
    smaller = "a smaller max_features, or squarecb,"
    state_type = FastCbState

    gap_scale: Annotated[float, pydantic.Field(ge=1e-3, le=1e6)] = 8.0
    """c of γ = c √(K (1 + L)): larger values explore less."""
    least_exploration: LeastExploration = 0.0
    """ε, an additional share of uniform exploration, for non-stationary data and for logs that train other learners."""
    learning_rate: Annotated[float, pydantic.Field(gt=0, le=1e3)] = 16.0
    """η of the one-vs-rest regression; the softmax regression's is larger if there are many labels."""
    restart_risk: Annotated[float, pydantic.Field(ge=0, le=0.1)] = 0.0
    """α: restart from zero weights when there are too many mistakes for a stationary stream, which restarts with
    probability at most α per round. 0 never restarts. Use 1e-9 for data that change abruptly."""

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        return (
            "No bound on mistakes is proved for this learner. Proved are two parts. The log loss of the mixture on the "
            "bits of the folded rounds exceeds that of the better regression by at most ln 2. If predictions have "
            "regret R in log loss against the true probabilities, the exploration with a fixed γ, at least 10 K and "
            "tuned to the horizon, has an expected regret of order √(K L* R) + K R, where L* is the expected number of "
            "mistakes of the best label for each context (Foster and Krishnamurthy 2021, Theorem 1). Here γ grows with "
            "the mistakes instead, and no bound is proved for R."
        )

    def decide_cost(self, nonzeros: int) -> int:
        """Return the multiply-adds of two scores for each of K labels, for features with a row."""
        return 2 * self.problem.n_labels * (min(nonzeros, self.most_rows) + 10) + nonzeros

    def fold_cost(self, nonzeros: int) -> int:
        """Return the cost of the scores and of steps for all labels."""
        return 5 * self.problem.n_labels * (min(nonzeros, self.most_rows) + 10) + 2 * nonzeros

    @property
    def kernels(self) -> Kernels:
        """Decides by relative inverse-gap weighting; takes one step on each regression."""
        K = self.problem.n_labels
        softmax_rate = self.learning_rate * max(1.0, min(K / 10.0, math.sqrt(K) / 2.0))
        threshold = -math.log(self.restart_risk) if self.restart_risk > 0.0 else math.inf
        rates = self.learning_rate, softmax_rate
        return Kernels(_Parameters(self.gap_scale, self.least_exploration, *rates, threshold), _decide, _fold)


@compiled
def _decide(
    parameters: _Parameters, state: FastCbState, contexts: Contexts, distributions: FloatArray, _: FloatArray
) -> None:
    K, W, V = distributions.shape[1], state.label_weights, state.softmax_weights
    scratch = np.empty(K + longest(contexts.starts))  # one allocation: it costs as much as some scores
    h, room = scratch[:K], scratch[K:]
    gap_weight = parameters.gap_scale * math.sqrt(K * (1.0 + state.counts[_MISTAKES]))
    share = _share_of_softmax(state.sums)
    for i in range(len(distributions)):
        indices, values = row(contexts, i)
        z = room[: len(values)]
        _write_relative(state.scales, indices, values, z)
        _mix(share, W, V, indices, z, distributions[i], h)
        weigh_by_relative_gap(h, gap_weight, parameters.least_exploration, distributions[i])


@compiled
def _share_of_softmax(sums: FloatArray) -> float:
    """Return π, the posterior probability of the softmax regression after equal priors; 0 or 1 where it is close."""
    ahead = sums[_LABELS] - sums[_SOFTMAX]
    if abs(ahead) > _DECISIVE:
        return 1.0 if ahead > 0.0 else 0.0
    return 1.0 / (1.0 + math.exp(-ahead))


@compiled
def _write_relative(scales: FloatArray, indices: IntArray, values: FloatArray, z: FloatArray) -> None:
    """Write x / S, clipped, to z."""
    for position in range(len(values)):
        z[position] = _relative(values[position], scales[indices[position], 0])


@compiled
def _relative(x: float, scale: float) -> float:
    return min(_LARGEST_VALUE, max(-_LARGEST_VALUE, x / scale)) if scale > 0.0 else 0.0


@compiled
def _mix(
    share: float, W: FloatArray, V: FloatArray, indices: IntArray, z: FloatArray, room: FloatArray, h: FloatArray
) -> None:
    """Write π q + (1 - π) f to h (K,); room (K,) is scratch space."""
    h[:] = 0.0
    if share < 1.0:
        room[:] = 0.0
        score(W, indices, z, room)
        for k in range(len(h)):
            h[k] = (1.0 - share) * _logistic(room[k])
    if share > 0.0:
        room[:] = 0.0
        score(V, indices, z, room)
        softmax(room, room)
        for k in range(len(h)):
            h[k] += share * _clipped(room[k])


@compiled
def _logistic(s: float) -> float:
    return _clipped(1.0 / (1.0 + math.exp(-s)))


@compiled
def _clipped(chance: float) -> float:
    return min(1.0 - _LEAST_CHANCE, max(_LEAST_CHANCE, chance))


@compiled
def _fold(parameters: _Parameters, state: FastCbState, rounds: Rounds) -> None:
    W, G, V, H = state.label_weights, state.label_information, state.softmax_weights, state.softmax_information
    sums, counts, K = state.sums, state.counts, W.shape[1]
    scratch = np.empty(K + longest(rounds.contexts.starts))
    q, room = scratch[:K], scratch[K:]
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        k, right, z = rounds.labels[t], rounds.correct[t], room[: len(values)]
        if _changed(parameters.change_threshold, sums, counts, right, K):
            _restart(W, G, V, H, sums, counts)
        _count(state.rounds, sums, counts, right)
        sums[_SIZES] += _measure(state.scales, indices, values, z)
        if sums[_SIZES] <= 0.0:
            continue
        scale = math.sqrt(counts[_ROUNDS] / sums[_SIZES])
        sums[_LABELS] += _teach_label(parameters.learning_rate * scale, W, G, k, right, indices, z)
        sums[_SOFTMAX] += _teach_softmax(parameters.softmax_rate * scale, V, H, k, right, indices, z, q)


@compiled
def _changed(threshold: float, sums: FloatArray, counts: IntArray, right: bool, n_labels: int) -> bool:
    """Run the change test on one round; return whether to restart before the round is folded."""
    if threshold == math.inf:
        return False
    return detect_change(sums[_CHANGE:], Past(counts[_ROUNDS], counts[_MISTAKES]), not right, threshold, n_labels)


@compiled
def _count(rounds: IntArray, sums: FloatArray, counts: IntArray, right: bool) -> None:
    rounds[()] += 1
    counts[_ROUNDS] += 1
    counts[_MISTAKES] += 0 if right else 1
    note_round(sums[_CHANGE:], counts[_ROUNDS], not right)


@compiled
def _restart(W: FloatArray, G: FloatArray, V: FloatArray, H: FloatArray, sums: FloatArray, counts: IntArray) -> None:
    """Forget everything but the features and their sizes."""
    W[:] = 0.0
    G[:] = 0.0
    V[:] = 0.0
    H[:] = 0.0
    sums[:] = 0.0
    counts[_ROUNDS] = counts[_MISTAKES] = 0
    counts[_RESTARTS] += 1


@compiled
def _measure(scales: FloatArray, indices: IntArray, values: FloatArray, z: FloatArray) -> float:
    """Update S, write x / S, clipped, to z, and return Σ z²."""
    total = 0.0
    for position in range(len(values)):
        i, x = indices[position], abs(values[position])
        scales[i, 1] += 1.0
        if scales[i, 0] > 0.0:
            ratio = min(_LARGEST_RATIO, x / scales[i, 0])
            scales[i, 0] = min(_LARGEST_SCALE, scales[i, 0] * math.sqrt(1.0 + (ratio * ratio - 1.0) / scales[i, 1]))
        else:
            scales[i, 0] = x
        z[position] = _relative(values[position], scales[i, 0])
        total += z[position] ** 2
    return total


@compiled
def _teach_label(
    step: float, W: FloatArray, G: FloatArray, k: int, right: bool, indices: IntArray, z: FloatArray
) -> float:
    """Take one step on the one-vs-rest regression of label k; return its log loss before the step."""
    s = 0.0
    for position in range(len(z)):
        s += z[position] * W[indices[position], k]
    chance = _logistic(s)
    residual = chance - 1.0 if right else chance
    for position in range(len(z)):
        i, g = indices[position], residual * z[position]
        information = G[i, k] + g * g
        G[i, k] = information
        W[i, k] = _moved(W[i, k], step * g / (_PRIOR + information))
    return -math.log(chance if right else 1.0 - chance)


@compiled
def _moved(weight: float, step: float) -> float:
    return min(_LARGEST_WEIGHT, max(-_LARGEST_WEIGHT, weight - step))


@compiled
def _teach_softmax(
    step: float,
    V: FloatArray,
    H: FloatArray,
    label: int,
    right: bool,
    indices: IntArray,
    z: FloatArray,
    q: FloatArray,
) -> float:
    """Take one step on the softmax regression; return its log loss before the step; q (K,) is scratch space."""
    q[:] = 0.0
    score(V, indices, z, q)
    softmax(q, q)
    chance = _clipped(q[label])
    _write_gradient(label, right, q)
    for position in range(len(z)):
        i, x = indices[position], z[position]
        for k in range(len(q)):
            g = q[k] * x
            information = H[i, k] + g * g
            H[i, k] = information
            V[i, k] = _moved(V[i, k], step * g / (_PRIOR + information))
    return -math.log(chance if right else 1.0 - chance)


@compiled
def _write_gradient(label: int, right: bool, q: FloatArray) -> None:
    """Replace chances q (K,) by the gradient of -ln of the bit's likelihood in the scores."""
    if right:
        q[label] -= 1.0
        return
    served = q[label]
    others = max(1.0 - served, _LEAST_CHANCE)
    for k in range(len(q)):
        q[k] *= -served / others
    q[label] = served
