"""Online-to-batch conversion: predictions for new contexts from a learner's pass over a sample.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses and
Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, Theorem 4.6: the average
weights of a Fenchel-Young learner. FOLKLORE's weights are implicit, so its predictions come from the state before a
random step: Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022.
"""

from typing import TypeAlias

import numpy as np

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.structured import Structured
from learners.algorithms.improper.folklore import Folklore, FolkloreState, learn, predict
from learners.base import Contexts, FloatArray, IntArray, Rounds
from learners.checks import check_contexts, check_labels, check_truths
from learners.kernels import compiled
from learners.mathematics.descent import DescentState
from learners.mathematics.linear_algebra import densify
from learners.mathematics.preparation import one_by_one

Descending: TypeAlias = FenchelYoung | Structured


def average_weights(learner: Descending, contexts: Contexts, true_labels: IntArray) -> FloatArray:
    """Return the mean of W_1 … W_T, the weights before rounds 1 … T: (n_scores, d) float64.

    The learner has full information, so its own answers do not matter. If the T ≥ 1 rounds are independent
    and identically distributed, the expected target loss in `state_of` these weights exceeds the expected surrogate
    loss of any U by at most C/T (Theorem 4.6). C is the learner's guarantee for U: `regret_bound(‖U‖)` of a structured
    learner, and ‖U‖² / (2 `proved_step`) of `fenchel-young`. Raises `ValueError` if the arrays are empty or do not fit.
    """
    check_contexts(contexts, learner.problem.n_features)
    check_truths(true_labels, learner)
    T = contexts.n
    if T == 0 or len(true_labels) != T:
        raise ValueError(f"{T} contexts and {len(true_labels)} true labels: the counts must be equal, and at least one")
    state, total = learner.init(), np.zeros((learner.n_scores, learner.problem.n_features))
    is_local = learner.proved_step is not None and learner.radius is None  # a round changes its features' weights only
    after = learner.weights(state)
    for t, context in enumerate(one_by_one(contexts)):
        changed = context.indices if is_local else slice(None)
        before = learner.weights(state._replace(direction=state.direction[changed])) if is_local else after
        truth, sure = true_labels[t : t + 1], np.ones(1)
        evidence = learner.decide_unchecked(state, context).evidence
        learner.fold_unchecked(state, Rounds.of_bits(context, truth, sure, sure > 0.0, truth, evidence, sure))
        after = learner.weights(state._replace(direction=state.direction[changed]))
        total[:, changed] += (T - 1 - t) / T * (after - before)
    return total


def state_of(learner: Descending, weights: FloatArray) -> DescentState:
    """Return the state in which a learner decides with these weights (n_scores, d)."""
    state = learner.init()
    state.fraction[()] = 0.5
    state.direction[0, 0] = 1.0
    state.scale[()] /= learner.weights(state)[0, 0]  # now W = direction, whatever the kind of step
    state.direction[:] = weights.T
    state.squared_norm[()] = np.sum(weights**2)
    return state


def online_to_batch(learner: Folklore, contexts: Contexts, true_labels: IntArray, step: int) -> FolkloreState:
    """Return the state before step τ = `step`: learn from the first τ - 1 rounds of a sample.

    For T independent and identically distributed contexts, and τ uniform on 1 … T, the expected excess risk of that
    state is at most `regret_bound(T)` / T. Raises `ValueError` if the step is not in 1 … T, or an array is invalid.
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
