"""The interface of an action learner. Read `learners.base` first.

Each round has its own candidates, each with a feature vector of the context and the action. The learner has one
weight vector, so it can score an action that it has never seen. Its verbs are::

    init() -> state
    decide(state, candidates) -> distributions           one probability per candidate; they sum to 1 in each round
    fold(state, rounds) -> state                         rounds contain the chosen candidates only

The caller draws a candidate and stores its vector, its probability and the number of eligible candidates. Together
with the reward, which arrives later, these make up the round that `fold` receives.
"""

from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias

import pydantic

from learners.base import NO_PRICES, BoolArray, Contexts, FloatArray, IntArray, LearnerTraits, Prices, StateT


@pydantic.dataclasses.dataclass(frozen=True, config=pydantic.ConfigDict(strict=True, allow_inf_nan=False))
class ActionProblem:
    """The dimensions of a problem with actions: d features per candidate, and X, the bound on a candidate's norm."""

    n_features: Annotated[int, pydantic.Field(ge=1)]
    norm_bound: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] = 1.0

    @property
    def n_labels(self) -> int:
        """Always 1: the size K of state arrays. There is one weight vector, however many candidates a round has."""
        return 1

    @property
    def dimensions(self) -> str:
        """d, in words."""
        return f"{self.n_features} features"


class Candidates(NamedTuple):
    """The candidates of n rounds, m in total. Round i has the candidates `starts[i]` … `starts[i + 1] - 1`."""

    vectors: Contexts  # m rows
    starts: IntArray  # (n + 1,) int64, from 0 to m, strictly increasing: each round has at least one candidate
    eligible: BoolArray  # (m,) bool, at least one per round; (0,) if all are
    prices: Prices = NO_PRICES

    @property
    def n(self) -> int:
        """The number of rounds."""
        return len(self.starts) - 1


class ActionRounds(NamedTuple):
    """n rounds, oldest first, with the vectors of the candidates that were chosen."""

    chosen: Contexts  # n rows
    rewards: FloatArray  # (n,) float64, from 0 to 1
    propensities: FloatArray  # (n,) float64, in (0, 1], the probability of the choice when it was drawn
    counts: IntArray  # (n,) int64, the number of eligible candidates, at least 1

    @property
    def n(self) -> int:
        """The number of rounds."""
        return len(self.rewards)

    def rows(self, start: int, stop: int) -> "ActionRounds":
        """Return rounds start … stop - 1, as views."""
        columns: list[Any] = [column[start:stop] for column in self[1:]]
        return ActionRounds(self.chosen.rows(start, stop), *columns)


class ActionLearner(LearnerTraits[StateT], Protocol[StateT]):
    """The interface of every action learner. The evidence of a decision is the number of eligible candidates."""

    @property
    def problem(self) -> ActionProblem:
        """The dimensions that this learner is built for."""

    def decide(self, state: StateT, candidates: Candidates) -> FloatArray:
        """Return each candidate's probability, (m,), which is 0 if it is not eligible. Does not change the state."""

    def fold(self, state: StateT, rounds: ActionRounds) -> StateT:
        """Return the state after these rounds, bit-identical for any batching. May modify `state`: pass a copy."""

    def contributions(self, state: StateT, vector: Contexts, /) -> FloatArray:
        """Return what each of the m entries of one candidate's vector adds to its score, (m,). The sum is the score."""

    def decide_unchecked(self, state: StateT, candidates: Candidates) -> FloatArray:
        """Do the same as `decide`, for checked arrays: invalid ones may crash the interpreter."""

    def fold_unchecked(self, state: StateT, rounds: ActionRounds) -> StateT:
        """Do the same as `fold`, for checked arrays: invalid ones may crash the interpreter."""


AnyActionLearner: TypeAlias = ActionLearner[Any]
