"""The bandit reduction over FOLKLORE; `bandit-reduction` offers other bases.

Naman Agarwal, Satyen Kale, Julian Zimmert, "Efficient Methods for Online Multiclass Logistic Regression",
ALT 2022, Algorithm 2 and Theorem 4.1. `bandit_reduction` explains the reduction.
"""

from functools import cached_property
from typing import Annotated, NamedTuple

from learners.algorithms.improper.bandit_reduction import ExploredRounds, Proof, folklore_proof
from learners.algorithms.improper.folklore import Folklore, FolkloreState
from learners.base import FloatArray
from learners.hyperparameters import Horizon, Magnitude, TheoremExploration, hyperparameters
from learners.layouts import Count, Layout, Triangle
from learners.learner import DelayedUpdate


class FolkloreBanditState(NamedTuple):
    """FOLKLORE's state, and a count of all rounds, few of which are updates."""

    inverse: Triangle  # A⁻¹, n by n for n = K·d, a packed lower triangle
    solution: Annotated[FloatArray, Layout("float64", ("n",))]  # h = A⁻¹G
    updates: Count  # rounds that FOLKLORE has learned from
    rounds: Count  # rounds folded so far, t - 1


@hyperparameters
class FolkloreBandit(ExploredRounds):
    """The bandit reduction over FOLKLORE: about γT/K of the rounds are updates, each with weight 1.

    Late feedback uses the γ and propensity stored with the prediction. With `as_of_prediction`, it also uses the logits
    of the prediction, and the order of arrival affects the state only by rounding.
    """

    algorithm = "folklore-bandit"
    smaller = "gaptron"
    state_type = FolkloreBanditState

    exploration: TheoremExploration = 0.1
    """γ: a number; or `theorem`, for min(1, √(K R(T)/T)) with the horizon T; or `anytime`, for
    γ_t = min(1, √(K R(t)/t)), which stays at 1 for a long time. R is FOLKLORE's regret bound.
    """
    horizon: Horizon = None
    """The number of rounds T, for exploration `theorem`."""
    comparator_bound: Magnitude = 10.0
    """B of FOLKLORE: the comparator's weights of each label have norm at most B."""
    delayed_update: DelayedUpdate = "as_of_prediction"

    @property
    def proof(self) -> Proof:
        return folklore_proof()

    def base_regret(self, rounds: int) -> float:
        return self.base_learner.regret_bound(rounds)

    @cached_property
    def base_learner(self) -> Folklore:
        return Folklore(
            problem=self.problem, comparator_bound=self.comparator_bound, delayed_update=self.delayed_update
        )

    def base_state(self, state: FolkloreBanditState) -> FolkloreState:
        return FolkloreState(*state[:-1])
