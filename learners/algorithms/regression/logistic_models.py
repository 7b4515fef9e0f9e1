"""Two logistic models that predict which label is right: their chances, and steps that adapt to each weight.

Both learn from whether the served label was right. The one-vs-rest model has one logistic regression per label,
f_k = 1/(1 + exp(-w_k'z)); each round updates only that of the served label. The softmax model, q = softmax(Vz), assumes
that exactly one label is right, and learns from the exact likelihood of the feedback on the served label k, q_k or
1 - q_k; each round updates all eligible labels. Both take steps of η g / (20 + Σ g²) for each weight with gradients g,
where 20 + Σ g² estimates the diagonal of the Fisher information. `whitened_steps` updates the same two models by the
whole matrix of second moments.
"""

import math
from typing import Annotated, TypeAlias

from learners.algorithms.regression.expert_mixture import LEAST_WEIGHT
from learners.base import BoolArray, FloatArray, IntArray, Rounds
from learners.kernels import compiled, narrow, place_of, widen
from learners.layouts import Layout
from learners.mathematics.exploration import softmax
from learners.mathematics.linear_algebra import score

LARGEST_WEIGHT = 20.0  # weights are clipped to this magnitude, which keeps the state finite for any data
RowWeights: TypeAlias = Annotated[FloatArray, Layout("float64", ("R", "K"), least=-LARGEST_WEIGHT, most=LARGEST_WEIGHT)]
RowInformation: TypeAlias = Annotated[FloatArray, Layout("float64", ("R", "K"), least=0.0)]
"""The weights of a model and the sums of squared gradients, which are its Fisher information beyond the prior."""

_PRIOR = 20.0  # the initial Fisher information of each weight
LEAST_CHANCE = 1e-6  # probabilities are at least this far from 0 and 1, so that one round costs at most 14 nats

_LARGE_OVERLAP, _OVERLAP_POWER = 32.0, 0.75
"""Steps are shortened by this power of the mean overlap of contexts, from this overlap on."""

_LARGEST_CHANGE = 6.0
"""A step is shortened if, with no more information than the prior, it would change its context's score by more."""


@compiled
def add_chances(
    shares: FloatArray,
    W: FloatArray,
    V: FloatArray,
    indices: IntArray,
    z: FloatArray,
    eligible: BoolArray,
    i: int,
    s: FloatArray,
    h: FloatArray,
) -> float:
    """Add the chances f and q, each times its share, for the K' labels eligible in context i, to h[:K'].

    z are the context's values, and `indices` their rows in W and V. Leaves out a model whose share is below
    `LEAST_WEIGHT`; returns the sum of the others' shares. Overwrites s (K,).
    """
    total = 0.0
    if shares[0] >= LEAST_WEIGHT:
        total += shares[0]
        s[:] = 0.0
        score(W, indices, z, s)
        for k in range(narrow(eligible, i, s)):
            h[k] += shares[0] * logistic_chance(s[k])
    if shares[1] >= LEAST_WEIGHT:
        total += shares[1]
        s[:] = 0.0
        score(V, indices, z, s)
        n = narrow(eligible, i, s)
        softmax(s[:n], s[:n])
        for k in range(n):
            h[k] += shares[1] * clipped(s[k])
    return total


@compiled
def logistic_chance(s: float) -> float:
    """Return 1/(1 + exp(-s)), clipped."""
    return clipped(1.0 / (1.0 + math.exp(-s)))


@compiled
def label_chance(W: FloatArray, k: int, indices: IntArray, z: FloatArray) -> float:
    """Return f_k alone."""
    s = 0.0
    for position in range(len(z)):
        s += z[position] * W[indices[position], k]
    return logistic_chance(s)


@compiled
def clipped(chance: float) -> float:
    """Return a probability that is at least `LEAST_CHANCE` from 0 and 1."""
    return min(1.0 - LEAST_CHANCE, max(LEAST_CHANCE, chance))


@compiled
def step_size(rounds: int, sizes: float, overlaps: float) -> float:
    """Return √(t / Σ ‖z‖²) for the sums over t rounds, or less where contexts overlap much.

    A step changes its context's score in proportion to ‖z‖², and that of another context in proportion to their
    product, whose mean square is the mean overlap. If it is large, as with embeddings, noise would add up.
    """
    if sizes <= 0.0:
        return 0.0
    shorter: float = (_LARGE_OVERLAP * rounds / overlaps) ** _OVERLAP_POWER
    return math.sqrt(rounds / sizes) * min(1.0, shorter)


@compiled
def teach_label(
    step: float, W: FloatArray, G: FloatArray, k: int, reward: float, indices: IntArray, z: FloatArray, size: float
) -> float:
    """Update label k's regression by one step; return its log loss before the step, in nats.

    W and G (R, K), the weights and the sums of squared gradients, change in place; the indices are rows of both, and
    `size` is ‖z‖².
    """
    chance = label_chance(W, k, indices, z)
    residual = chance - reward
    change = step * abs(residual) * size / _PRIOR
    step = bounded(step, change, _LARGEST_CHANGE)
    for position in range(len(z)):
        i, g = indices[position], residual * z[position]
        information = G[i, k] + g * g
        G[i, k] = information
        W[i, k] = moved(W[i, k], step * g / (_PRIOR + information))
    return log_loss(chance, reward)


@compiled
def log_loss(chance: float, reward: float) -> float:
    """Return -r ln f - (1 - r) ln (1 - f) for the reward r and the chance f."""
    if reward >= 1.0:
        return -math.log(chance)
    if reward <= 0.0:
        return -math.log(1.0 - chance)
    return -reward * math.log(chance) - (1.0 - reward) * math.log(1.0 - chance)


@compiled
def bounded(step: float, change: float, most: float) -> float:
    """Return a step that changes a score by `change`, shortened if that exceeds `most`."""
    return step if change <= most else step * most / change


@compiled
def moved(weight: float, step: float) -> float:
    """Return a weight after a step down, clipped."""
    return min(LARGEST_WEIGHT, max(-LARGEST_WEIGHT, weight - step))


@compiled
def teach_softmax(
    step: float,
    growth: float,
    V: FloatArray,
    H: FloatArray,
    rounds: Rounds,
    t: int,
    indices: IntArray,
    z: FloatArray,
    size: float,
    q: FloatArray,
) -> float:
    """Update the softmax model, V and H (R, K), by round t, in place; all else is as in `teach_label`.

    The softmax is over the labels that were eligible, at least two; only their weights move. `growth` multiplies the
    step and the largest change; q (K,) is scratch space.
    """
    label = rounds.labels[t]
    loss = softmax_gradient(V, rounds, t, indices, z, q)
    change = growth * step * abs(q[label]) * size / _PRIOR
    step = bounded(growth * step, change, growth * _LARGEST_CHANGE)
    for position in range(len(z)):
        i, x = indices[position], z[position]
        for k in range(len(q)):
            g = q[k] * x
            information = H[i, k] + g * g
            H[i, k] = information
            V[i, k] = moved(V[i, k], step * g / (_PRIOR + information))
    return loss


@compiled
def softmax_gradient(
    V: FloatArray, rounds: Rounds, t: int, indices: IntArray, z: FloatArray, gradient: FloatArray
) -> float:
    """Write the gradient of the softmax model's log loss in the scores of round t, (K,); return the log loss."""
    reward, place = rounds.rewards[t], place_of(rounds.eligible, t, rounds.labels[t])
    gradient[:] = 0.0
    score(V, indices, z, gradient)
    n = narrow(rounds.eligible, t, gradient)
    softmax(gradient[:n], gradient[:n])
    chance = clipped(gradient[place])
    _write_gradient(place, reward, gradient[:n])
    widen(rounds.eligible, t, gradient)
    return log_loss(chance, reward)


@compiled
def _write_gradient(label: int, reward: float, q: FloatArray) -> None:
    """Replace q (K',) by the gradient in the scores of -reward ln q_k - (1 - reward) ln (1 - q_k) for the label k."""
    served = q[label]
    others = max(1.0 - served, LEAST_CHANCE)
    factor = reward - (1.0 - reward) * served / others
    for k in range(len(q)):
        q[k] *= factor
    q[label] = served - reward
