"""Online to batch: the average of a Fenchel-Young learner's weights over a sample, as a predictor for new contexts.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, Theorem 4.6.
FOLKLORE, whose weights are implicit, keeps a state at random instead: `folklore_to_batch`.
"""

from typing import TypeAlias

import numpy as np

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.fenchel_young.structured import Structured
from learners.base import Contexts, FloatArray, IntArray, Rounds
from learners.checks import check_truths
from learners.context_checks import check_contexts
from learners.mathematics.descent import DescentState
from learners.mathematics.norms import one_by_one

Descending: TypeAlias = FenchelYoung | Structured


def average_weights(learner: Descending, contexts: Contexts, true_labels: IntArray) -> FloatArray:
    """The mean of W_1 … W_T, with which the learner meets rounds 1 … T: (n_scores, d) float64.

    Where the rounds are independent and from one distribution, the expected target loss of `state_of` these weights
    exceeds the expected surrogate loss of any U by at most `regret_bound(‖U‖)` / T (Theorem 4.6).

    Args:
        learner: under full information, so that what it answered does not matter.
        contexts: T of them, at least one.
        true_labels: answers as the learner counts them, (T,) or (T, K).

    Raises:
        ValueError: for no context, another number of true labels, or arrays that are not those of the problem.
    """
    check_contexts(contexts, learner.problem.n_features)
    check_truths(true_labels, learner.problem, learner.answer)
    T = contexts.n
    if T == 0 or len(true_labels) != T:
        raise ValueError(f"{T} contexts and {len(true_labels)} true labels: there must be as many, and at least one")
    state, total = learner.init(), np.zeros((learner.n_scores, learner.problem.n_features))
    for t, context in enumerate(one_by_one(contexts)):
        total += learner.weights(state)
        truth, sure = true_labels[t : t + 1], np.ones(1)
        evidence = learner.decide_unchecked(state, context).evidence
        learner.fold_unchecked(state, Rounds(context, truth, sure, sure > 0.0, truth, evidence, sure))
    return total / T


def state_of(learner: Descending, weights: FloatArray) -> DescentState:
    """The state in which a learner decides with these weights (n_scores, d); it is not made to be folded on."""
    state = learner.init()
    state.fraction[()] = 0.5
    state.direction[0, 0] = 1.0
    state.scale[()] /= learner.weights(state)[0, 0]
    state.direction[:] = weights.T
    return state
