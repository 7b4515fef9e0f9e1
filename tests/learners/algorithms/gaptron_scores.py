"""Scores of many shapes, and Gaptron's loss, gap and weights at them."""

import numpy as np
import pytest

from learners.algorithms.first_order.gaptron import Gaptron, GaptronState
from learners.base import Contexts, FloatArray, IntArray
from learners.mathematics.losses import LOSS_CODES, LossName, surrogate
from tests.learners.formulas import LOSSES

EACH_LOSS = pytest.mark.parametrize("loss", LOSSES)
EACH_K = pytest.mark.parametrize("K", range(2, 9))


def scores_with_ties(seed: int, K: int) -> FloatArray:
    """Draw rows of scores (n, K), small and large, with ties, and with top margins at and around 0, 1/K and 1."""
    rng = np.random.default_rng(seed)
    rows = [scale * rng.normal(size=(60, K)) for scale in (0.1, 1.0, 5.0)]
    tied = rng.normal(size=(60, K))
    tied[:, rng.permutation(K)[:2]] = tied.max(axis=1, keepdims=True)
    for margin in (0.0, 1 / K, 1 / K - 1e-9, 1 / K + 1e-9, 1.0, 1.0 - 1e-9, 1.0 + 1e-9):
        top = -np.abs(rng.normal(size=(20, K)))
        top[:, 0] = 0.0
        top[np.arange(20), rng.integers(1, K, 20)] = -margin
        rows.append(rng.permuted(np.minimum(top, np.where(np.arange(K) == 0, 0.0, -margin)), axis=1))
    return np.concatenate([np.zeros((1, K)), tied, *rows])


def surrogates(loss: LossName, s: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return values (n,) and coefficients (n, K) of the learner's loss for rows of scores."""
    coefficients = np.empty_like(s)
    values = [surrogate(LOSS_CODES[loss], s[i], y[i], coefficients[i]) for i in range(len(s))]
    return np.array(values), coefficients


def at_scores(learner: Gaptron, s: FloatArray) -> tuple[GaptronState, Contexts]:
    """Build a state and one-hot contexts of norm X whose scores are the rows of s (n, K); d must equal n."""
    state, X = learner.init(), learner.problem.norm_bound
    state.direction[:] = s / X
    state.squared_norm[()] = np.sum(state.direction**2)
    return state, Contexts.dense(np.eye(len(s)) * X)
