"""The base classes of learners: they check arrays once per batch, before compiled code reads them."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias

import numpy as np
import pydantic

from learners.base import (
    NO_PRICES,
    AnswerKind,
    BaseRates,
    BoolArray,
    ContextNorm,
    Contexts,
    Decisions,
    FloatArray,
    NormPolicy,
    Prices,
    Problem,
    Rounds,
    StateT,
    every_label,
)
from learners.checks import check_contexts, check_eligible, check_prices, check_rounds, check_state
from learners.hyperparameters import hyperparameters
from learners.kernels import Kernels, as_given, call_by_state
from learners.layouts import zero_state


class LearnerDefaults(ABC, Generic[StateT]):
    """The defaults that label learners and action learners share. A learner overrides those that do not suit it.

    Most theorems only assume ‖x‖ ≤ X, so the default norm policy is `scale`: it shortens longer contexts and preserves
    the norms of the others.
    """

    algorithm: ClassVar[str]
    smaller: ClassVar[str]
    state_type: ClassVar[type[Any]]
    norm_policy: ClassVar[NormPolicy] = "scale"
    context_norm: ClassVar[ContextNorm] = "euclidean"
    intercept: ClassVar[bool] = True
    labels_grow: ClassVar[bool] = False
    weighs_costs: ClassVar[bool] = False

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What is proved for these hyperparameters, in which paper, and under which assumptions."""

    @property
    def needs_true_label(self) -> bool:
        """Whether every round must carry its true label; by default, whether the answer was right is enough."""
        return False

    @property
    def abstention_reward(self) -> float | None:
        """The reward of the last label if that label represents abstaining; else None, the default."""
        return None

    @property
    def fold_overhead(self) -> int:
        """Multiply-adds that each call of `fold` costs on top of its updates; 0 by default."""
        return 0

    @abstractmethod
    def decide_cost(self, nonzeros: int, /) -> int:
        """Return an upper estimate of the multiply-adds of a decision and its draw, for this number of non-zeros."""

    @abstractmethod
    def fold_cost(self, nonzeros: int, /) -> int:
        """Return an upper estimate of the multiply-adds of one update, for a context with this number of non-zeros."""

    def check_new(self) -> None:
        """Raise `pydantic.ValidationError` for hyperparameters with which the state may lose precision over time."""

    @abstractmethod
    def init(self) -> StateT:
        """Return the state before the first round."""

    def warnings(self, _: StateT) -> list[str]:
        """Return one sentence per limit that the state has reached; none by default."""
        return []


@hyperparameters
class CheckedLearner(LearnerDefaults[StateT]):
    """A `Learner` with checked verbs on top of the unchecked verbs of its subclass.

    Raises `pydantic.ValidationError` if a hyperparameter is out of range or contradicts another one.
    """

    answer: ClassVar[AnswerKind] = "label"
    linear: ClassVar[bool] = False  # whether the scores are W x, for the state's `weights` W (d, K)
    accepts_rewards: ClassVar[bool] = False
    problem: Problem

    @property
    @abstractmethod
    def evidence_size(self) -> int:
        """E, the number of values that `fold` needs from prediction time besides context, label and propensity."""

    def contributions(self, state: StateT, contexts: Contexts, /) -> FloatArray | None:
        """Return what each of the m entries of one context adds to each label's score, (m, K); None if not `linear`."""
        if not self.linear:
            return None
        weights: FloatArray = state.weights  # type: ignore[attr-defined]
        return weights[contexts.indices] * contexts.values[:, np.newaxis]

    def base_rates(self, _: StateT, /) -> BaseRates | None:
        """Return what the learner predicts without features; None, the default, if it keeps no such rates."""
        return None

    @abstractmethod
    def decide_unchecked(
        self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
        """Do the same as `decide`, for checked arrays: invalid ones may crash the interpreter."""

    @abstractmethod
    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """Do the same as `fold`, for checked arrays: invalid ones may crash the interpreter."""

    def decide(
        self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
        """Return the distribution over the eligible labels for each context, and the evidence.

        Does not change the state. `eligible` is (n, K), or (n, 0) or None if every label is eligible. Raises
        `InvalidArrayError` if an array does not fit the problem; `InvalidStateError` if the state does not.
        """
        check_state(state, self)
        check_contexts(contexts, self.problem.n_features)
        if eligible is not None:
            check_eligible(eligible, contexts.n, self.problem.n_labels, self.answer)
        check_prices(prices, contexts.n, self.problem.n_labels)
        return self.decide_unchecked(state, contexts, eligible, prices)

    def fold(self, state: StateT, rounds: Rounds) -> StateT:
        """Return the state after these rounds; may change the given state in place. Raises the errors of `decide`."""
        check_state(state, self)
        check_rounds(rounds, self)
        return self.fold_unchecked(state, rounds)


class WithoutEvidence:
    """A learner whose updates use only the current state: its decisions have no evidence."""

    evidence_size = 0


class FullInformation:
    """A learner that learns only from true labels."""

    needs_true_label = True


DelayedUpdate: TypeAlias = Annotated[
    Literal["as_of_prediction", "recompute"],
    pydantic.Field(
        description="What a late update uses: `as_of_prediction`, the values computed for the prediction, or "
        "`recompute`, values recomputed from the current state. The propensity is the stored one either way."
    ),
]


class Delayed:
    """A learner whose late updates use either the K scores at prediction time, its evidence, or recomputed scores."""

    problem: Problem
    delayed_update: DelayedUpdate

    @property
    def as_of_prediction(self) -> bool:
        """Whether a late update uses the evidence."""
        return self.delayed_update == "as_of_prediction"

    @property
    def evidence_size(self) -> int:
        """K, or 0 if the scores are recomputed."""
        return self.problem.n_labels if self.as_of_prediction else 0


@hyperparameters
class CompiledLearner(CheckedLearner[StateT]):
    """A `Learner` built from kernels: a subclass supplies hyperparameters, `kernels`, `fold_cost` and `guarantee`."""

    @property
    @abstractmethod
    def kernels(self) -> Kernels:
        """The compiled verbs and their parameters."""

    @cached_property
    def verbs(self) -> Kernels:
        """`kernels`, computed once and registered for compiled code that dispatches by the type of the state."""
        kernels = self.kernels
        call_by_state(self.state_type, kernels, takes_prices=self.weighs_costs)
        return kernels

    @property
    def evidence_size(self) -> int:
        return self.problem.n_labels

    def decide_cost(self, nonzeros: int) -> int:
        return self.problem.n_labels * (nonzeros + 10)

    def init(self) -> StateT:
        state: StateT = zero_state(self)
        return state

    def prepare(self, state: StateT, contexts: Contexts) -> tuple[StateT, Contexts]:
        """Return the state with room for the contexts, and the contexts as kernels take them. May change `state`."""
        return state, contexts

    def decide_unchecked(
        self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
        distributions = np.empty((contexts.n, self.problem.n_labels))
        evidence = np.empty((contexts.n, self.evidence_size))
        parameters, decide, _, locate = self.verbs
        located = contexts if locate is as_given else locate(parameters, state, contexts)
        among = every_label(contexts.n) if eligible is None else eligible
        priced = (prices,) if self.weighs_costs else ()
        decide(parameters, state, located, among, *priced, distributions, evidence)
        return Decisions(distributions, evidence)

    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        parameters, _, fold, _ = self.verbs
        fold(parameters, state, rounds)
        return state
