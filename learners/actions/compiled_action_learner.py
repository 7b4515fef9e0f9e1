"""The base class of action learners: verbs that check their arrays before kernels read them."""

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from learners.actions.base import ActionProblem, ActionRounds, Candidates
from learners.base import AnswerKind, Contexts, FloatArray, InvalidArrayError, StateT
from learners.checks import BOOL, FLOAT, INT, check_contexts, check_prices, check_state, expect_array
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels
from learners.layouts import zero_state
from learners.learner import LearnerDefaults


def check_candidates(candidates: Candidates, n_features: int) -> None:
    """Check that compiled code can read the candidates. Raises `InvalidArrayError`, which names the field."""
    vectors, starts, eligible, prices = candidates
    check_contexts(vectors, n_features)
    expect_array("starts", starts, INT, 1)
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != vectors.n or (np.diff(starts) < 1).any():
        raise InvalidArrayError("starts: must begin with 0, increase, and end with the number of candidates")
    expect_array("eligible", eligible, BOOL, 1, (vectors.n if len(eligible) else 0,))
    if len(eligible) and not np.logical_or.reduceat(eligible, starts[:-1]).all():
        raise InvalidArrayError("eligible: each round needs an eligible candidate")
    check_prices(prices, candidates.n, vectors.n)


def check_action_rounds(rounds: ActionRounds, n_features: int) -> None:
    """Check that the rounds could have resulted from decisions. Raises `InvalidArrayError`, which names the field."""
    check_contexts(rounds.chosen, n_features)
    n = rounds.chosen.n
    expect_array("rewards", rounds.rewards, FLOAT, 1, (n,))
    expect_array("propensities", rounds.propensities, FLOAT, 1, (n,))
    expect_array("counts", rounds.counts, INT, 1, (n,))
    for name, valid, words in (
        ("rewards", (rounds.rewards >= 0.0) & (rounds.rewards <= 1.0), "from 0 to 1"),
        ("propensities", (rounds.propensities > 0.0) & (rounds.propensities <= 1.0), "above 0 and at most 1"),
        ("counts", rounds.counts >= 1, "at least 1"),
    ):
        if not valid.all():
            raise InvalidArrayError(f"{name}: must be {words} (round {int(valid.argmin())})")


@hyperparameters
class CompiledActionLearner(LearnerDefaults[StateT]):
    """An `ActionLearner` built from kernels. A subclass adds hyperparameters, costs and the abstract members.

    The kernels are `decide(parameters, state, candidates, distributions)`, which writes m probabilities to
    `distributions`, and `fold(parameters, state, rounds)`, which changes the state in place. Raises
    `pydantic.ValidationError` if a hyperparameter is out of range.
    """

    answer: ClassVar[AnswerKind] = "action"
    accepts_rewards: ClassVar[bool] = True
    evidence_size: ClassVar[int] = 1
    problem: ActionProblem

    @property
    @abstractmethod
    def kernels(self) -> Kernels:
        """The kernels and their parameters."""

    @cached_property
    def _verbs(self) -> Kernels:
        return self.kernels

    @abstractmethod
    def contributions(self, state: StateT, vector: Contexts, /) -> FloatArray:
        """Return what each of the m entries of one candidate's vector adds to its score, (m,)."""

    def init(self) -> StateT:
        state: StateT = zero_state(self)  # type: ignore[arg-type]
        return state

    def with_room(self, state: StateT, _: Contexts) -> StateT:
        """Return the state with room for the features of these vectors. May change the given state in place."""
        return state

    def with_spare_rows(self, state: StateT, _: int) -> StateT:
        """Return the state with room for this many further features. May change the given state in place."""
        return state

    def decide(self, state: StateT, candidates: Candidates) -> FloatArray:
        """Return each candidate's probability, (m,). Raises a `LearnerError` if an argument is invalid."""
        check_state(state, self)
        check_candidates(candidates, self.problem.n_features)
        return self.decide_unchecked(state, candidates)

    def fold(self, state: StateT, rounds: ActionRounds) -> StateT:
        """Return the state after these rounds; may change the given state in place. Raises a `LearnerError`, too."""
        check_state(state, self)
        check_action_rounds(rounds, self.problem.n_features)
        return self.fold_unchecked(state, rounds)

    def decide_unchecked(self, state: StateT, candidates: Candidates) -> FloatArray:
        """Do the same as `decide`, for checked arrays: invalid ones may crash the interpreter."""
        distributions = np.empty(candidates.vectors.n)
        parameters, decide, *_ = self._verbs
        decide(parameters, state, candidates, distributions)
        return distributions

    def fold_unchecked(self, state: StateT, rounds: ActionRounds) -> StateT:
        """Do the same as `fold`, for checked arrays: invalid ones may crash the interpreter."""
        state = self.with_room(state, rounds.chosen)
        parameters, _, fold, _ = self._verbs
        fold(parameters, state, rounds)
        return state
