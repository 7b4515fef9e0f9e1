"""A control: draws every label with the same probability and learns nothing."""

from typing import ClassVar, NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, NormPolicy, Rounds
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled
from learners.layouts import Count
from learners.learner import CompiledLearner, WithoutEvidence


class UniformState(NamedTuple):
    """A count of rounds; nothing is learned."""

    rounds: Count  # rounds folded so far


@hyperparameters
class Uniform(WithoutEvidence, CompiledLearner[UniformState]):
    """Draws each of the K labels, or of the K' eligible ones, with the same probability in every context; a baseline.

    Its rounds are unbiased data for training and evaluating other learners.
    """

    algorithm = "uniform"
    # contexts are not read, so their norms do not matter
    norm_policy: ClassVar[NormPolicy] = "none"
    smaller = "fewer labels"
    accepts_rewards: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = True
    state_type = UniformState

    @property
    def guarantee(self) -> str:
        return "Expected mistakes are exactly (K - 1)/K of the rounds, for any sequence of rounds."

    def decide_cost(self, _: int) -> int:
        return self.problem.n_labels

    def fold_cost(self, _: int) -> int:
        return 1

    @property
    def kernels(self) -> Kernels:
        return Kernels((), _decide, _fold)


@compiled
def _decide(
    _: tuple[()],
    _state: UniformState,
    _contexts: Contexts,
    eligible: BoolArray,
    distributions: FloatArray,
    _evidence: FloatArray,
) -> None:
    if eligible.shape[1] == 0:
        distributions[:] = 1.0 / distributions.shape[1]
        return
    for i in range(len(distributions)):
        share = 1.0 / np.count_nonzero(eligible[i])
        for k in range(distributions.shape[1]):
            distributions[i, k] = share if eligible[i, k] else 0.0


@compiled
def _fold(_: tuple[()], state: UniformState, rounds: Rounds) -> None:
    state.rounds[()] += len(rounds.labels)
