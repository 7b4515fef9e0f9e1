"""Online-to-batch conversion for FOLKLORE: its weights are implicit, so the state before a random step predicts.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression", ALT 2022.
"""

import numpy as np

from learners.algorithms.improper.folklore import Folklore, FolkloreState, learn, predict
from learners.base import Contexts, IntArray
from learners.checks import check_labels
from learners.context_checks import check_contexts
from learners.kernels import compiled
from learners.mathematics.linear_algebra import densify


def online_to_batch(learner: Folklore, contexts: Contexts, true_labels: IntArray, step: int) -> FolkloreState:
    """Learn from the first τ - 1 rounds of a sample and return the state, which is that of step τ.

    For τ drawn uniformly from 1 … T, the expected excess risk of that state is at most R(T)/T.

    Args:
        learner: FOLKLORE for the problem.
        contexts: T contexts, independent and identically distributed.
        true_labels: (T,), 0 … K-1.
        step: τ, 1 … T.

    Raises:
        ValueError: if the step is not in 1 … T, or if the arrays do not fit the problem.
    """
    check_contexts(contexts, learner.problem.n_features)
    check_labels("true_labels", true_labels, contexts.n, learner.problem.n_labels)
    if not 1 <= step <= contexts.n:
        raise ValueError(f"the step must be from 1 to {contexts.n}, not {step}")
    state = learner.init()
    K, d = learner.problem.n_labels, learner.problem.n_features
    _run(state, learner.surrogate_constant, K, d, contexts, true_labels, step - 1)
    return state


@compiled
def _run(
    state: FolkloreState, constant: float, K: int, d: int, contexts: Contexts, true_labels: IntArray, n: int
) -> None:
    x, z = np.empty(d), np.empty(K)
    for t in range(n):
        densify(contexts, t, x)
        predict(state.inverse, state.solution, x, z)
        learn(state.inverse, state.solution, constant, x, z, true_labels[t])
        state.rounds[()] += 1
