"""Two logistic models that predict which label is right, and their Bayesian mixture.

Both learn from whether the served label was right. The one-vs-rest model has one logistic regression per label,
f_k = 1/(1 + exp(-w_k'z)); each round updates only that of the served label. The softmax model, q = softmax(Vz), assumes
that exactly one label is right, and learns from the exact likelihood of the feedback on the served label k, q_k or
1 - q_k; each round updates all eligible labels. Both take steps of η g / (20 + Σ g²) for each weight with gradients g,
where 20 + Σ g² estimates the diagonal of the Fisher information. The mixture weights each model by its likelihood of
the past feedback, so its log loss, measured as each round is folded, exceeds the better model's by at most ln 2.
"""

import math

from learners.base import BoolArray, FloatArray, IntArray, Rounds
from learners.kernels import compiled, narrow, place_of, widen
from learners.mathematics.exploration import softmax
from learners.mathematics.linear_algebra import score

_LARGEST_WEIGHT = 20.0  # weights are clipped to this magnitude, which keeps the state finite for any data
_PRIOR = 20.0  # the initial Fisher information of each weight
LEAST_CHANCE = 1e-6  # probabilities are at least this far from 0 and 1, so that one round costs at most 14 nats

_LARGEST_CHANGE = 6.0
"""A step is shortened if, with no more information than the prior, it would change its context's score by more."""

_DECISIVE = 36.0
"""Nats of log loss: a model that trails the other by more has a posterior probability below 2⁻⁵¹, taken as 0."""


@compiled
def share_of_softmax(label_loss: float, softmax_loss: float) -> float:
    """Return π, the posterior probability of the softmax model under equal priors, given both log losses in nats."""
    ahead = label_loss - softmax_loss
    if abs(ahead) > _DECISIVE:
        return 1.0 if ahead > 0.0 else 0.0
    return 1.0 / (1.0 + math.exp(-ahead))


@compiled
def mix(
    share: float,
    W: FloatArray,
    V: FloatArray,
    indices: IntArray,
    z: FloatArray,
    eligible: BoolArray,
    i: int,
    room: FloatArray,
    h: FloatArray,
) -> int:
    """Write π q + (1 - π) f for the K' labels eligible in context i to h[:K']; return K'. Overwrites room (K,).

    π is `share`; z are the context's values, and `indices` their rows in W and V.
    """
    h[:] = 0.0
    n = len(h)
    if share < 1.0:
        room[:] = 0.0
        score(W, indices, z, room)
        n = narrow(eligible, i, room)
        for k in range(n):
            h[k] = (1.0 - share) * _logistic(room[k])
    if share > 0.0:
        room[:] = 0.0
        score(V, indices, z, room)
        n = narrow(eligible, i, room)
        softmax(room[:n], room[:n])
        for k in range(n):
            h[k] += share * _clipped(room[k])
    return n


@compiled
def _logistic(s: float) -> float:
    return _clipped(1.0 / (1.0 + math.exp(-s)))


@compiled
def _clipped(chance: float) -> float:
    return min(1.0 - LEAST_CHANCE, max(LEAST_CHANCE, chance))


@compiled
def teach_label(
    step: float, W: FloatArray, G: FloatArray, k: int, reward: float, indices: IntArray, z: FloatArray, size: float
) -> float:
    """Update label k's regression by one step; return its log loss before the step, in nats.

    The log loss is -r ln f_k - (1 - r) ln (1 - f_k) for the reward r. W and G (R, K), the weights and the sums of
    squared gradients, change in place; the indices are rows of both, and `size` is ‖z‖².
    """
    s = 0.0
    for position in range(len(z)):
        s += z[position] * W[indices[position], k]
    chance = _logistic(s)
    residual = chance - reward
    bounded = _bounded(step, _LARGEST_CHANGE, residual, size)
    for position in range(len(z)):
        i, g = indices[position], residual * z[position]
        information = G[i, k] + g * g
        G[i, k] = information
        W[i, k] = _moved(W[i, k], bounded * g / (_PRIOR + information))
    return _log_loss(chance, reward)


@compiled
def _log_loss(chance: float, reward: float) -> float:
    if reward >= 1.0:
        return -math.log(chance)
    if reward <= 0.0:
        return -math.log(1.0 - chance)
    return -reward * math.log(chance) - (1.0 - reward) * math.log(1.0 - chance)


@compiled
def _bounded(step: float, most: float, residual: float, size: float) -> float:
    change = step * abs(residual) * size / _PRIOR
    return step if change <= most else step * most / change


@compiled
def _moved(weight: float, step: float) -> float:
    return min(_LARGEST_WEIGHT, max(-_LARGEST_WEIGHT, weight - step))


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
    label, reward = rounds.labels[t], rounds.rewards[t]
    q[:] = 0.0
    score(V, indices, z, q)
    n, place = narrow(rounds.eligible, t, q), place_of(rounds.eligible, t, label)
    softmax(q[:n], q[:n])
    chance = _clipped(q[place])
    _write_gradient(place, reward, q[:n])
    widen(rounds.eligible, t, q)
    bounded = _bounded(growth * step, growth * _LARGEST_CHANGE, q[label], size)
    for position in range(len(z)):
        i, x = indices[position], z[position]
        for k in range(len(q)):
            g = q[k] * x
            information = H[i, k] + g * g
            H[i, k] = information
            V[i, k] = _moved(V[i, k], bounded * g / (_PRIOR + information))
    return _log_loss(chance, reward)


@compiled
def _write_gradient(label: int, reward: float, q: FloatArray) -> None:
    """Replace q (K',) by the gradient in the scores of -reward ln q_k - (1 - reward) ln (1 - q_k) for the label k."""
    served = q[label]
    others = max(1.0 - served, LEAST_CHANCE)
    factor = reward - (1.0 - reward) * served / others
    for k in range(len(q)):
        q[k] *= factor
    q[label] = served - reward
