"""The control: every label with the same probability, learning nothing."""

from typing import ClassVar, NamedTuple

from learners.base import Contexts, FloatArray, NormPolicy, Rounds
from learners.checked_learner import WithoutEvidence
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, compiled
from learners.layouts import Count


class UniformState(NamedTuple):
    """Nothing is learned; the rounds are counted."""

    rounds: Count  # rounds folded so far


@hyperparameters
class Uniform(WithoutEvidence, CompiledLearner[UniformState]):
    """Draws each label with probability 1/K, whatever the context. Collects unbiased data; a baseline."""

    algorithm = "uniform"
    # it reads no context
    norm_policy: ClassVar[NormPolicy] = "unit"
    smaller = "fewer labels"
    state_type = UniformState

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        return "Errs in exactly (K - 1)/K of the rounds in expectation, whatever the rounds."

    def decide_cost(self, _: int) -> int:
        """K numbers."""
        return self.problem.n_labels

    def fold_cost(self, _: int) -> int:
        """Constant."""
        return 1

    @property
    def kernels(self) -> Kernels:
        """1/K everywhere; counts the rounds."""
        return Kernels((), _decide, _fold)


@compiled
def _decide(
    _: tuple[()], _state: UniformState, _contexts: Contexts, distributions: FloatArray, _evidence: FloatArray
) -> None:
    distributions[:] = 1.0 / distributions.shape[1]


@compiled
def _fold(_: tuple[()], state: UniformState, rounds: Rounds) -> None:
    state.rounds[()] += len(rounds.labels)
