"""The interface of a learner. Read this file first.

A learner is a frozen, validated set of hyperparameters bound to a `Problem`. It has three operations, its verbs::

    init() -> state                       the state before the first round
    decide(state, contexts) -> Decisions  the distribution over the labels, or the eligible ones, for each context
    fold(state, rounds) -> state          the state after these rounds, applied in order

The learner does not draw labels, except for structured answers (`learners.answers`). The caller draws a label from the
distribution (`exploration.draw`) and keeps its probability, the propensity. The caller also stores the *evidence* of
the decision: numbers from prediction time that the later update needs. The round passes label, propensity and evidence
back to the learner. The learner stores nothing between `decide` and `fold`, so feedback may arrive late, in any order,
on any machine.
"""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pydantic

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

AnswerKind: TypeAlias = Literal["label", "level", "label-set", "ranking", "action"]
"""The kinds of answers: one label; one label of an ordered scale; a set of labels; a ranking of all labels;
one of the request's actions."""
NormPolicy: TypeAlias = Literal["none", "reject", "scale", "unit"]
"""How the norm of a context is limited: see `learners.mathematics.preparation`."""
ContextNorm: TypeAlias = Literal["euclidean", "maximum"]
"""The norm that the bound applies to: the Euclidean norm, or the largest absolute entry."""

NO_LABEL = -1  # the value in `Rounds.true_labels` where the true label is unknown

State: TypeAlias = Any
"""The arrays of a learner: its own NamedTuple, each field annotated with its `Layout`."""


@pydantic.dataclasses.dataclass(frozen=True, config=pydantic.ConfigDict(strict=True, allow_inf_nan=False))
class Problem:
    """K labels, d features per context, and X, the bound on context norms that every theorem assumes."""

    n_labels: Annotated[int, pydantic.Field(ge=2)]
    n_features: Annotated[int, pydantic.Field(ge=1)]
    norm_bound: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] = 1.0

    @property
    def dimensions(self) -> str:
        """K and d, in words."""
        return f"{self.n_labels} labels and {self.n_features} features"


class Contexts(NamedTuple):
    """n contexts as compressed sparse rows: row i is `values[starts[i]:starts[i + 1]]`.

    All rows of a dense batch share the indices 0 … d-1. Indices are distinct within a row and lie in 0 … d-1; compiled
    updates rely on both. Arrays are contiguous and writable; others trigger a recompilation.
    """

    starts: IntArray  # (n + 1,) int64
    indices: IntArray  # (nnz,) int64, or (d,) if shared
    values: FloatArray  # (nnz,) float64
    shared: bool  # whether all rows share the same indices

    @property
    def n(self) -> int:
        """The number of contexts."""
        return len(self.starts) - 1

    @property
    def mean_nonzeros(self) -> int:
        """The mean number of stored entries per context, rounded up; d for dense contexts."""
        return -(-len(self.values) // max(self.n, 1))

    def rows(self, start: int, stop: int) -> "Contexts":
        """Return contexts start … stop - 1, as views."""
        starts = self.starts[start : stop + 1]
        first, end = starts[0], starts[-1]
        indices = self.indices if self.shared else self.indices[first:end]
        return Contexts(starts - first, indices, self.values[first:end], self.shared)

    @classmethod
    def dense(cls, matrix: npt.ArrayLike) -> "Contexts":
        """Return the rows of a matrix (n, d) as contexts. Raises `InvalidArrayError` for more than two dimensions."""
        rows = np.array(matrix, dtype=np.float64, ndmin=2)
        if rows.ndim > 2:
            raise InvalidArrayError(f"contexts: expected a matrix (n, d), not an array of shape {rows.shape}")
        n, d = rows.shape
        return cls(np.arange(n + 1, dtype=np.int64) * d, np.arange(d, dtype=np.int64), rows.reshape(-1), True)

    @classmethod
    def sparse(cls, lengths: npt.ArrayLike, indices: npt.ArrayLike, values: npt.ArrayLike) -> "Contexts":
        """Return contexts from row lengths (n,), indices and values. Raises `InvalidArrayError` if they do not fit."""
        numbers, whole = np.array(values, dtype=np.float64), [np.array(one) for one in (lengths, indices)]
        for name, one in zip(("lengths", "indices"), whole, strict=True):
            if one.ndim != 1 or (one.size > 0 and one.dtype.kind not in "iu"):
                raise InvalidArrayError(f"contexts: {name} must be one row of integers")
        starts = np.concatenate([[0], np.cumsum(whole[0])]).astype(np.int64)
        if (np.diff(starts) < 0).any() or numbers.shape != whole[1].shape or starts[-1] != numbers.size:
            raise InvalidArrayError(
                "contexts: the lengths must not be negative and must sum to the number of indices and of values"
            )
        return cls(starts, whole[1].astype(np.int64), numbers, False)


class Rounds(NamedTuple):
    """n rounds, oldest first, each with its prediction, propensity and feedback; structured answers are rows (n, K)."""

    contexts: Contexts
    labels: IntArray  # (n,) int64, the label that was served, 0 … K-1
    propensities: FloatArray  # (n,) float64, in (0, 1], the probability with which the label was drawn
    correct: BoolArray  # (n,) bool, the feedback: whether the label was right
    true_labels: IntArray  # (n,) int64, NO_LABEL if unknown
    evidence: FloatArray  # (n, E) float64, from the decision
    residual_uniforms: (
        FloatArray  # (n,) float64, in [0, 1), from `exploration.draw`: uniform given the label; some updates use it
    )
    rewards: FloatArray  # (n,) float64, in [0, 1]; 1 exactly where `correct`. A value strictly between 0 and 1 is the
    # reward of an abstention whose true label is known or, if the learner has `accepts_rewards`, of any label.
    eligible: BoolArray  # (n, K) bool, the labels eligible in each round; (n, 0) if all are

    @classmethod
    def of_bits(
        cls,
        contexts: Contexts,
        labels: IntArray,
        propensities: FloatArray,
        correct: BoolArray,
        true_labels: IntArray,
        evidence: FloatArray,
        residual_uniforms: FloatArray,
    ) -> "Rounds":
        """Return rounds whose rewards are 0 or 1, with every label eligible."""
        columns = (labels, propensities, correct, true_labels, evidence, residual_uniforms)
        return cls(contexts, *columns, correct.astype(np.float64), every_label(len(labels)))

    @property
    def n(self) -> int:
        """The number of rounds."""
        return len(self.labels)

    def rows(self, start: int, stop: int) -> "Rounds":
        """Return rounds start … stop - 1, as views."""
        columns: list[Any] = [column[start:stop] for column in self[1:]]
        return Rounds(self.contexts.rows(start, stop), *columns)


def every_label(n: int) -> BoolArray:
    """Return the `eligible` mask, (n, 0), of n rounds with every label eligible."""
    return np.empty((n, 0), np.bool_)


class Prices(NamedTuple):
    """What the candidates of n contexts cost, and the weights of costs against rewards."""

    weights: FloatArray  # (n,) float64, λ >= 0; (0,) if costs do not count
    costs: FloatArray  # (n, K) float64, c >= 0; (1, K) if they are the same in each context; (1, m) for m actions


NO_PRICES = Prices(np.empty(0), np.empty((0, 0)))


class Decisions(NamedTuple):
    """The distributions for n contexts, and the evidence, before any label is drawn."""

    distributions: FloatArray  # (n, K) float64, rows sum to 1; `StructuredLearner` defines other shapes
    evidence: FloatArray  # (n, E) float64, stored by the caller and returned in `Rounds.evidence`


class BaseRates(NamedTuple):
    """What a learner predicts from each label's rounds alone, without features."""

    rates: FloatArray  # (K,), in (0, 1), the reward rate of each label
    weight: float  # in [0, 1], the weight of the rates in the learner's predictions


StateT = TypeVar("StateT", bound=tuple[Any, ...])


class LearnerTraits(Protocol[StateT]):
    """The attributes that label learners and action learners share, apart from their verbs."""

    algorithm: ClassVar[str]  # the public name, lower case with hyphens
    smaller: ClassVar[str]  # the alternative to suggest when this learner is too large or too slow
    state_type: ClassVar[type[Any]]  # a NamedTuple, each field annotated with its Layout
    answer: ClassVar[AnswerKind]
    norm_policy: ClassVar[NormPolicy]  # the default of a new model
    context_norm: ClassVar[ContextNorm]  # the norm that the bound applies to
    intercept: ClassVar[bool]  # whether contexts may have a constant feature, which new models then have by default
    accepts_rewards: ClassVar[bool]  # whether updates use rewards between 0 and 1, not only right or wrong
    labels_grow: ClassVar[bool]  # whether labels can be added to a state: see `learners.growth`
    weighs_costs: ClassVar[bool]  # whether it estimates rewards, and decides by reward minus weighted cost

    @property
    def guarantee(self) -> str:
        """What is proved for these hyperparameters, in which paper, and under which assumptions."""

    @property
    def evidence_size(self) -> int:
        """E, the number of values that `fold` needs from prediction time besides context, label and propensity."""

    @property
    def needs_true_label(self) -> bool:
        """Whether every round must carry its true label (full information)."""

    @property
    def abstention_reward(self) -> float | None:
        """The reward of the last label, between 1/2 and 1, if that label represents abstaining; else None."""

    def decide_cost(self, nonzeros: int, /) -> int:
        """Return an upper estimate of the multiply-adds of a decision and its draw, for this number of non-zeros."""

    def fold_cost(self, nonzeros: int, /) -> int:
        """Return an upper estimate of the multiply-adds of one update, for a context with this number of non-zeros."""

    @property
    def fold_overhead(self) -> int:
        """Multiply-adds that each call of `fold` costs on top of its updates; 0 for most learners."""

    def check_new(self) -> None:
        """Raise `pydantic.ValidationError` for hyperparameters with which the state may lose precision over time."""

    def init(self) -> StateT:
        """Return the state before the first round."""

    def warnings(self, state: StateT, /) -> list[str]:
        """Return one sentence per limit that the state has reached. Each starts with the name of a hyperparameter."""


class Learner(LearnerTraits[StateT], Protocol[StateT]):
    """The interface of learners that choose among labels, including structured ones.

    Learners that choose among the actions of a request have the interface `learners.actions.base.ActionLearner`.
    `tests/learners/contract` tests the laws of this interface.
    """

    @property
    def problem(self) -> Problem:
        """The dimensions that this learner is built for."""

    def decide(
        self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
        """Return the distribution over the eligible labels for each of n contexts. Does not change the state.

        `eligible` is as in `Rounds`, or None if every label is eligible. Ineligible labels get probability 0. The
        learner applies its rule to the scores of the K' eligible labels; its schedules and constants still use K.
        Learners without `weighs_costs` ignore prices.
        """

    def fold(self, state: StateT, rounds: Rounds) -> StateT:
        """Return the state after these rounds, bit-identical for any batching. May modify `state`; pass a copy."""

    def contributions(self, state: StateT, contexts: Contexts, /) -> FloatArray | None:
        """Return what each of the m entries of one context adds to each label's score, (m, K).

        None if the scores are not such sums.
        """

    def base_rates(self, state: StateT, /) -> BaseRates | None:
        """Return what the learner predicts without features; None if it keeps no such rates."""

    def decide_unchecked(
        self, state: StateT, contexts: Contexts, eligible: BoolArray | None = None, prices: Prices = NO_PRICES
    ) -> Decisions:
        """Do the same as `decide`, for checked arrays: invalid ones may crash the interpreter."""

    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """Do the same as `fold`, for checked arrays: invalid ones may crash the interpreter."""


AnyLearner: TypeAlias = Learner[Any]


class Draws(NamedTuple):
    """The answers drawn for n contexts."""

    labels: IntArray  # (n,), or (n, K) for a structured learner
    propensities: FloatArray  # (n,), in (0, 1]; smaller probabilities are raised to the smallest normal float64
    residual_uniforms: FloatArray  # (n,), in [0, 1)


class LearnerError(ValueError):
    """The base class of the learners' errors."""


class StateTooLargeError(LearnerError):
    """The learner's state or evidence would need more memory than allowed; the message suggests an alternative."""


class StepTooCostlyError(LearnerError):
    """One decision or update would take more multiply-adds than allowed; the message suggests another learner."""


class InvalidStateError(LearnerError):
    """The bytes or arrays are not a state of this learner."""


class InvalidArrayError(LearnerError):
    """Contexts, rounds, distributions or uniform numbers are invalid; the message names the field."""
