"""Online-to-batch conversion: the average of a Fenchel-Young learner's weights over a sample.

Shinsaku Sakaue, Han Bao, Taira Tsuchiya, Taihei Oki, "Online Structured Prediction with Fenchel-Young Losses
and Improved Surrogate Regret for Online Multiclass Classification with Logistic Loss", COLT 2024, Theorem 4.6.
FOLKLORE, whose weights are implicit, uses the state of a random step instead: `folklore_to_batch`.
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
    """Return the mean of W_1 … W_T, the weights before rounds 1 … T: (n_scores, d) float64.

    If the rounds are independent and identically distributed, the expected target loss of `state_of` these weights
    exceeds the expected surrogate loss of any U by at most C/T (Theorem 4.6). C is the learner's guarantee for U:
    `regret_bound(‖U‖)` of a structured learner, and X²‖U‖² / (2(1 - ln 2) ln 2) of `fenchel-young`.

    Args:
        learner: a learner under full information, so that its own answers do not matter.
        contexts: T contexts, at least one.
        true_labels: the true answers, (T,) or (T, K), as in `Rounds.true_labels`.

    Raises:
        ValueError: if there is no context, if the numbers of contexts and true labels differ, or if the arrays do not
            fit the problem.
    """
    check_contexts(contexts, learner.problem.n_features)
    check_truths(true_labels, learner.problem, learner.answer)
    T = contexts.n
    if T == 0 or len(true_labels) != T:
        raise ValueError(f"{T} contexts and {len(true_labels)} true labels: the counts must be equal, and at least one")
    state, total = learner.init(), np.zeros((learner.n_scores, learner.problem.n_features))
    for t, context in enumerate(one_by_one(contexts)):
        total += learner.weights(state)
        truth, sure = true_labels[t : t + 1], np.ones(1)
        evidence = learner.decide_unchecked(state, context).evidence
        learner.fold_unchecked(state, Rounds.of_bits(context, truth, sure, sure > 0.0, truth, evidence, sure))
    return total / T


def state_of(learner: Descending, weights: FloatArray) -> DescentState:
    """Return the state in which a learner decides with these weights (n_scores, d); do not fold rounds into it."""
    state = learner.init()
    state.fraction[()] = 0.5
    state.direction[0, 0] = 1.0
    state.scale[()] /= learner.weights(state)[0, 0]
    state.direction[:] = weights.T
    return state
