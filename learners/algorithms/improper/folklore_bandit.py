"""The bandit reduction over FOLKLORE; `bandit-reduction` offers other bases.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022, Algorithm 2 and Theorem 4.1. `bandit_reduction` implements the reduction.
"""

from typing import Annotated, NamedTuple

from learners.algorithms.improper.bandit_reduction import ExploredRounds
from learners.algorithms.improper.folklore import Folklore, FolkloreState
from learners.base import FloatArray
from learners.hyperparameters import Exploration, Magnitude, hyperparameters
from learners.layouts import Count, Layout, Triangle
from learners.learner import DelayedUpdate
from learners.mathematics.guarantees import AT_ONCE, uncovered


class FolkloreBanditState(NamedTuple):
    """FOLKLORE's state, and a count of all rounds, few of which are updates."""

    inverse: Triangle  # A⁻¹, n by n, a packed lower triangle
    solution: Annotated[FloatArray, Layout("float64", ("n",))]  # h = A⁻¹G
    updates: Count  # rounds that FOLKLORE has learned from
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class FolkloreBandit(ExploredRounds):
    """The bandit reduction over FOLKLORE: about γT/K of the rounds are updates, each with weight 1.

    The coin always uses the γ and propensity of the prediction. With `as_of_prediction`, late feedback takes the logits
    of the prediction, and the order of arrival affects the state only by rounding.
    """

    algorithm = "folklore-bandit"
    smaller = "gaptron"
    state_type = FolkloreBanditState

    exploration: Exploration = 0.1
    """γ; √(K R(T)/T) in the theorem, or `anytime` for γ_t = min(1, √(K R(t)/t)), which stays at 1 for a long time."""
    comparator_bound: Magnitude = 10.0
    """B of FOLKLORE: the comparator's weights of each label have norm at most B."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    def __post_init__(self) -> None:
        _ = self.base_learner

    @property
    def guarantee(self) -> str:
        if isinstance(self.exploration, str):
            return uncovered("the theorem's γ is fixed, but this γ falls", "a fixed exploration")
        return (
            "Expected mistakes exceed the logistic loss, in nats, of any W with rows of norm at most B by at most "
            f"K R(T)/γ + γT after T rounds fixed in advance, where γ = {self.exploration:g} and R(T) = 2KBX + "
            "(2BX + ln K + 2)/4 · K d ln(1 + T); with the best γ, by at most 2 √(K T R(T)) (Agarwal, Kale and Zimmert "
            f"2022, Theorem 4.1). {AT_ONCE}"
        )

    @property
    def base_learner(self) -> Folklore:
        return Folklore(
            problem=self.problem, comparator_bound=self.comparator_bound, delayed_update=self.delayed_update
        )

    def base_regret(self, rounds: int) -> float:
        return self.base_learner.regret_bound(rounds)

    def base_state(self, state: FolkloreBanditState) -> FolkloreState:
        return FolkloreState(*state[:-1])
