"""AdaHedge with abstention: expert advice on a binary question, with the option to abstain.

Dirk van der Hoeven, "Exploiting the Surrogate Gap in Online Multiclass Classification", NeurIPS 2020,
Appendix E, Theorem 7. AdaHedge is from de Rooij, van Erven, Grünwald, Koolen, "Follow the Leader If You
Can, Hedge If You Must", JMLR 2014.
"""

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pydantic

from learners.base import BoolArray, ContextNorm, Contexts, FloatArray, IntArray, NormPolicy, Rounds
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled, row
from learners.layouts import Count, Layout, NonNegativeScalar
from learners.learner import CompiledLearner, FullInformation, WithoutEvidence
from learners.mathematics.exploration import condition, settle


class AdaHedgeState(NamedTuple):
    """The cumulative loss of each expert, and the cumulative mixability gap."""

    losses: Annotated[FloatArray, Layout("float64", ("d",), least=0.0)]  # L
    mixability_gap: NonNegativeScalar  # Δ
    rounds: Count  # rounds folded so far


@hyperparameters
class AdaHedge(WithoutEvidence, FullInformation, CompiledLearner[AdaHedgeState]):
    """Each feature is an expert's prediction from -1 (label 0) to 1 (label 1); label 2 is an abstention.

    Answers with the sign of the experts' weighted mean ȳ with probability |ȳ|, and abstains otherwise. Values are
    clipped to [-1, 1]; a feature missing from a sparse context is 0, an undecided expert. Every true label of 0 or 1
    updates the weights, whatever the answer was; a true label of 2 only counts as a round. Late feedback uses the
    weights at its arrival. The distribution is conditioned on the eligible labels: their probabilities are divided by
    their sum or, if this is 0, made uniform. An abstention is neither right nor wrong; whatever the true label, it
    costs c. As in the paper, c affects only the reward of abstaining, 1 - c, and the bound, not the distribution or
    the update.
    """

    algorithm = "adahedge"
    # the features are predictions: rescaling would change what the experts predict
    norm_policy: ClassVar[NormPolicy] = "reject"
    context_norm: ClassVar[ContextNorm] = "maximum"
    # a constant would be one more expert
    intercept: ClassVar[bool] = False
    smaller = "fewer features"
    state_type = AdaHedgeState

    abstention_cost: Annotated[float, pydantic.Field(ge=1e-6, lt=0.5)] = 0.3
    """c, the cost of abstaining, where a wrong answer costs 1 and a right one nothing; below 1/2, for the theorem."""

    def __post_init__(self) -> None:
        if self.problem.n_labels != 3:
            raise ValueError("adahedge requires exactly 3 labels; the third represents abstaining")

    @property
    def guarantee(self) -> str:
        return (
            f"If a mistake costs 1 and an abstention c = {self.abstention_cost:g}, the expected cost exceeds the loss "
            "of the best of d experts by at most ln d / (1 - 2c) + (4/3) ln d + 2, which is "
            f"{self.bound():.4g} for d = {self.problem.n_features} (van der Hoeven 2020, Theorem 7). Assumes experts "
            "that answer in [-1, 1], and that the true label of each round, abstained or not, is folded before the "
            "next prediction."
        )

    def bound(self, rounds: float = math.inf) -> float:
        """Return the bound on the expected cost minus the loss of the best expert after these rounds, in mistakes.

        Theorem 7: min(ln d / (1 - 2c), 2 √(ln d Σ v_t)) + (4/3) ln d + 2, where v_t, a variance of losses in [0, 1], is
        at most 1/4.
        """
        nats = math.log(self.problem.n_features)
        slack = min(nats / (1.0 - 2.0 * self.abstention_cost), math.sqrt(nats * rounds)) if nats else 0.0
        return slack + 4.0 / 3.0 * nats + 2.0

    @property
    def abstention_reward(self) -> float:
        return 1.0 - self.abstention_cost

    def decide_cost(self, _: int) -> int:
        return 30 * self.problem.n_features

    def fold_cost(self, _: int) -> int:
        return 30 * self.problem.n_features

    @property
    def kernels(self) -> Kernels:
        return Kernels((), _decide, _fold)

    def weights(self, state: AdaHedgeState) -> FloatArray:
        """Return the experts' weights (d,), which sum to 1."""
        w = np.empty(self.problem.n_features)
        _weigh(state, w)
        return w


@compiled
def _clipped(prediction: float) -> float:
    return min(1.0, max(-1.0, prediction))


@compiled
def _decide(
    _: tuple[()],
    state: AdaHedgeState,
    contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    _evidence: FloatArray,
) -> None:
    w = np.empty(len(state.losses))
    _weigh(state, w)
    for i in range(len(distributions)):
        indices, values = row(contexts, i)
        total = 0.0
        for position in range(len(values)):
            total += w[indices[position]] * _clipped(values[position])
        mean = _clipped(total)
        distributions[i] = 0.0
        distributions[i, int(mean > 0.0)] = abs(mean)
        distributions[i, 2] = 1.0 - abs(mean)
        settle(distributions[i])
        condition(eligible, i, distributions[i])


@compiled
def _temperature(state: AdaHedgeState) -> float:
    """Return the temperature 1/η = Δ / ln d; if it is 0, only the best experts have weight."""
    d = len(state.losses)
    return state.mixability_gap.item() / math.log(d) if d > 1 else 0.0


@compiled
def _exponential(excess: float, temperature: float) -> float:
    if temperature > 0.0:
        return math.exp(-excess / temperature)
    return 1.0 if excess <= 0.0 else 0.0


@compiled
def _weigh(state: AdaHedgeState, w: FloatArray) -> float:
    """Write the weights (d,); return their normalizer, the sum of exp(-η (L - min L))."""
    best, temperature, total = state.losses.min(), _temperature(state), 0.0
    for i in range(len(w)):
        w[i] = _exponential(state.losses[i] - best, temperature)
        total += w[i]
    for i in range(len(w)):
        w[i] /= total
    return total


@compiled
def _fold(_: tuple[()], state: AdaHedgeState, rounds: Rounds) -> None:
    d = len(state.losses)
    loss, w = np.empty(d), np.empty(d)
    for t in range(len(rounds.labels)):
        y = rounds.true_labels[t]
        if y in (0, 1):
            indices, values = row(rounds.contexts, t)
            _charge(state, 2.0 * y - 1.0, indices, values, loss, w)
        state.rounds[()] += 1


@compiled
def _charge(
    state: AdaHedgeState, y: float, indices: IntArray, values: FloatArray, loss: FloatArray, w: FloatArray
) -> None:
    """Add each expert's loss, (1 - y · prediction)/2 for y = ±1, to L, and the round's mixability gap to Δ.

    Overwrites `loss` and `w` (d,).
    """
    loss[:] = 0.5
    for position in range(len(values)):
        loss[indices[position]] = 0.5 * (1.0 - y * _clipped(values[position]))
    best, before = state.losses.min(), _weigh(state, w)
    expected, least, after = 0.0, math.inf, 0.0
    for i in range(len(w)):
        expected += w[i] * loss[i]
        least = min(least, state.losses[i] - best + loss[i])
    temperature = _temperature(state)
    for i in range(len(w)):
        after += _exponential(state.losses[i] - best + loss[i] - least, temperature)
    mix_loss = least - temperature * (math.log(after) - math.log(before))
    state.losses[:] += loss
    state.mixability_gap[()] += max(0.0, expected - mix_loss)
