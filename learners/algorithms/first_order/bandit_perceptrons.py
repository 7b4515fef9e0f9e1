"""One binary perceptron per label, under bandit feedback.

Jittat Fakcharoenphol and Chayutpong Prompak, "Bandit Multiclass Linear Classification for the Group Linear
Separable Case", 2019, Algorithm 1; Beygelzimer, Pál, Szörényi, Thiruvenkatachari, Wei, Zhang, "Bandit
Multiclass Linear Classification: Efficient Algorithms for the Separable Case", ICML 2019, Algorithm 1.
Among the labels that claim the context (score ≥ 0), the answer is the highest-scoring one, as in the authors' code.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, Rounds
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled, narrow, place_of, row, widen
from learners.layouts import Count, LabelVectors
from learners.learner import CompiledLearner
from learners.mathematics.exploration import lead, leader
from learners.mathematics.guarantees import strong_margin
from learners.mathematics.linear_algebra import add_outer, score, score_row


class BanditPerceptronsState(NamedTuple):
    """One weight vector per label."""

    weights: LabelVectors
    rounds: Count  # rounds folded so far
    updates: Count  # corrections of binary perceptrons so far, over all labels


@hyperparameters
class BanditPerceptrons(CompiledLearner[BanditPerceptronsState]):
    """One perceptron per label: answers with the highest-scoring label, or a uniform one if no score is at least 0.

    A label claims a context if its score is at least 0. The learner learns from a right answer if no label claimed the
    context, and from a wrong answer if its label claimed the context; with `use_known_label`, from every right answer.
    Late feedback corrects a perceptron only if it still errs with the current weights. The evidence is 1 if no label
    claimed the context, else 0.
    """

    algorithm = "bandit-perceptrons"
    smaller = "fewer features"
    labels_grow: ClassVar[bool] = True
    state_type = BanditPerceptronsState
    evidence_size = 1  # whether no label claimed the context
    linear = True

    use_known_label: bool = False
    """Whether a right answer, which reveals the true label, corrects all perceptrons. Algorithm 1 does not do so, the
    authors' code does, and the guarantee covers both.
    """

    @property
    def guarantee(self) -> str:
        return strong_margin(" (Beygelzimer et al. 2019, Algorithm 1)", "‖x‖ ≤ R")

    def fold_cost(self, nonzeros: int) -> int:
        return 2 * self.problem.n_labels * nonzeros

    @property
    def kernels(self) -> Kernels:
        return Kernels((self.use_known_label,), _decide, _fold)


@compiled
def claim(eligible: BoolArray, i: int, s: FloatArray, distribution: FloatArray) -> float:
    """Write the distribution over the eligible labels; return 1 if none of them claims the context, else 0.

    The distribution is 1 for the label with the highest score, or uniform if no label claims. Overwrites s (K,).
    """
    n = narrow(eligible, i, s)
    nobody = s[leader(s[:n])] < 0.0
    lead(s[:n], 1.0 if nobody else 0.0, distribution[:n])
    widen(eligible, i, distribution)
    return 1.0 if nobody else 0.0


@compiled
def _decide(
    _: tuple[bool],
    state: BanditPerceptronsState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    evidence: FloatArray,
) -> None:
    s = np.empty(state.weights.shape[1])
    for i in range(len(distributions)):
        score_row(state.weights, contexts, i, s)
        evidence[i, 0] = claim(eligible, i, s, distributions[i])


@compiled
def corrections(known: bool, s: FloatArray, rounds: Rounds, t: int, coefficients: FloatArray) -> int:
    """Write each label's correction for round t, +1, -1 or 0, and return the number of corrections that are not 0.

    s (K,) are the current scores, which are overwritten; `known` is `use_known_label`.
    """
    n, place = narrow(rounds.eligible, t, s), place_of(rounds.eligible, t, rounds.labels[t])
    nobody = rounds.evidence[t, 0] != 0.0
    updates = _correct_all(known, s[:n], place, rounds.correct[t], nobody, coefficients[:n])
    widen(rounds.eligible, t, coefficients)
    return updates


@compiled
def _correct_all(known: bool, s: FloatArray, label: int, correct: bool, nobody: bool, coefficients: FloatArray) -> int:
    coefficients[:] = 0.0
    updates = 0
    if not correct:
        if not nobody and s[label] >= 0.0:
            coefficients[label] = -1.0
            updates = 1
        return updates
    if (nobody or known) and s[label] <= 0.0:
        coefficients[label] = 1.0
        updates = 1
    for k in range(len(s)):
        if known and k != label and s[k] >= 0.0:
            coefficients[k] = -1.0
            updates += 1
    return updates


@compiled
def _fold(parameters: tuple[bool], state: BanditPerceptronsState, rounds: Rounds) -> None:
    (known,) = parameters
    K = state.weights.shape[1]
    s, coefficients = np.empty(K), np.empty(K)
    for t in range(len(rounds.labels)):
        indices, values = row(rounds.contexts, t)
        s[:] = 0.0
        score(state.weights, indices, values, s)
        updates = corrections(known, s, rounds, t, coefficients)
        if updates > 0:
            add_outer(state.weights, coefficients, indices, values)
            state.updates[()] += updates
        state.rounds[()] += 1
