"""The bandit reduction over a base learner by name: a learner of probabilities from true labels.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022, Algorithm 2 and Theorem 4.1. `explored_rounds` has the reduction, `reduction_bases` the bases.
"""

import functools
import math
from typing import Annotated, Any, Literal, NamedTuple

from learners.algorithms.improper.explored_rounds import ExploredRounds
from learners.algorithms.improper.reduction_bases import BASES, BaseName
from learners.base import AnyLearner, FloatArray
from learners.hyperparameters import Exploration, Magnitude, Positive, hyperparameters
from learners.layouts import Count, Layout, state_layout
from learners.mathematics.delayed import DelayedUpdate
from learners.mathematics.guarantees import AT_ONCE, uncovered


class BanditReductionState(NamedTuple):
    """The base's state, and a count of all rounds, few of which are updates."""

    numbers: Annotated[FloatArray, Layout("float64", ("base_numbers",))]  # the base's arrays, one after the other
    updates: Count  # rounds that the base has learned from
    rounds: Count  # rounds folded so far


@hyperparameters
class BanditReduction(ExploredRounds):
    """The bandit reduction over a base of your choice: about γT/K of the rounds are updates, each with weight 1.

    With probability γ a round explores; otherwise the answer is drawn from the base's distribution. The base learns
    from explored rounds whose answer was right. The coin always uses the γ and propensity of the prediction.

    Raises:
        pydantic.ValidationError: if a hyperparameter is out of range, or if two contradict each other.
    """

    algorithm = "bandit-reduction"
    smaller = "gaptron"
    state_type = BanditReductionState

    base: BaseName = "fenchel-young"
    """The learner of explored rounds: `folklore`, `fenchel-young`, or `gaptron` with the logistic loss."""
    exploration: Exploration = 0.1
    """γ; √(K R(T)/T) in the theorem, or `anytime` for γ_t = min(1, √(K R(t)/t)), with R at the comparator_bound."""
    comparator_bound: Magnitude = 10.0
    """B: with the base `folklore`, the comparator's weights of each label have norm at most B. The other bases use it
    only for `anytime`, as the Frobenius norm of the comparator.
    """
    learning_rate: Literal["theorem"] | Positive = "theorem"
    """The base's step: that of its theorem, or a fixed η. The base `folklore` has no step."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        """Refuse settings that the base refuses."""
        _ = self.base_learner

    @property
    def guarantee(self) -> str:
        """See `Learner.guarantee`."""
        if isinstance(self.exploration, str):
            return uncovered("the theorem's γ is fixed, but this γ falls", "a fixed exploration")
        proof = BASES[self.base].proof(self)
        if proof is None:
            return uncovered("the step is larger than that of the base's theorem", "learning_rate theorem")
        return (
            f"Expected mistakes exceed {proof.loss} by at most K R(T)/γ + γT after T rounds fixed in advance, where "
            f"γ = {self.exploration:g} and R(T) = {proof.regret}; with the best γ, by at most 2 √(K T R(T)) (Agarwal, "
            f"Kale and Zimmert 2022, {proof.source}). {AT_ONCE}"
        )

    @property
    def base_learner(self) -> AnyLearner:
        """The learner that learns from the explored rounds that were right."""
        return _base(self).learner

    @property
    def base_numbers(self) -> int:
        """The number of entries of the base's arrays, without its count of rounds."""
        return sum(math.prod(shape) for shape in _base(self).shapes)

    def base_regret(self, rounds: int) -> float:
        """Return R(T) of the base at comparators of norm B."""
        return BASES[self.base].regret_bound(self, rounds)

    def base_state(self, state: BanditReductionState) -> Any:
        """Return the base's state: consecutive parts of `numbers`, then `updates`."""
        learner, shapes = _base(self)
        parts, start = [], 0
        for shape in shapes:
            stop = start + math.prod(shape)
            parts.append(state.numbers[start:stop].reshape(shape))
            start = stop
        return learner.state_type(*parts, state.updates)


class _Base(NamedTuple):
    learner: AnyLearner
    shapes: list[tuple[int, ...]]  # of its arrays, without its count of rounds


@functools.lru_cache(maxsize=256)
def _base(settings: BanditReduction) -> _Base:
    # Cached: building and validating a learner takes longer than one of its updates.
    learner = BASES[settings.base].build(settings)
    return _Base(learner, [layout.shape for layout in state_layout(learner).values()][:-1])
