"""What a learner is. Read this first.

A learner is a frozen, validated set of hyperparameters bound to a `Problem`. It has three verbs::

    init() -> state                       the state before the first round
    decide(state, contexts) -> Decisions  the distribution over the labels for each context
    fold(state, rounds) -> state          the state after these rounds, taken in order

The learner never draws a label: its caller draws from the distribution (`exploration.draw`) and keeps the
probability it used, the propensity. The caller also keeps the *evidence* of the decision, the numbers the
later update needs as they were at prediction time, and hands both back inside the round. So a learner
remembers nothing between the two calls, and feedback may come late, in any order, on any machine.
"""

import math
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt
import pydantic

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

NO_LABEL = -1
"""Stands in `Rounds.true_labels` where the true label is unknown."""


class LearnerError(ValueError):
    """Root of what the learners refuse.

    LearnerError
    ├── StateTooLargeError   the state would need more memory than allowed
    ├── StepTooCostlyError   one decision or update would take more arithmetic than allowed
    └── InvalidStateError    bytes or arrays that are no state of this learner
    """


class StateTooLargeError(LearnerError):
    """The learner's state would need more memory than allowed; the message names one that fits."""


class StepTooCostlyError(LearnerError):
    """One decision or update would take more multiply-adds than allowed; the message names a learner that fits."""


class InvalidStateError(LearnerError):
    """Bytes or arrays that are no state of this learner."""


@pydantic.dataclasses.dataclass(frozen=True, config=pydantic.ConfigDict(strict=True, allow_inf_nan=False))
class Problem:
    """The sizes a learner is built for.

    Attributes:
        n_labels: K, the number of labels, at least 2.
        n_features: d, the number of features of a context, at least 1.
        norm_bound: X, from 1e-6 to 1e6, a bound on the Euclidean norm of every context; an assumption of every theorem.
    """

    n_labels: Annotated[int, pydantic.Field(ge=2)]
    n_features: Annotated[int, pydantic.Field(ge=1)]
    norm_bound: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] = 1.0


class Contexts(NamedTuple):
    """n contexts in compressed rows: row i holds `values[starts[i]:starts[i + 1]]`.

    One form for dense and sparse, so that each update is written once: a dense batch shares the indices
    0 … d-1 between all its rows. Indices are distinct within a row and lie in 0 … d-1; compiled updates
    rely on it. Arrays are contiguous and may be written; others cost a recompilation.
    """

    starts: IntArray  # (n + 1,) int64
    indices: IntArray  # (nnz,) int64, or (d,) when shared
    values: FloatArray  # (nnz,) float64
    shared: bool  # all rows have the indices of the first

    @property
    def n(self) -> int:
        """How many contexts there are."""
        return len(self.starts) - 1

    def rows(self, start: int, stop: int) -> "Contexts":
        """Contexts start … stop - 1, as views."""
        starts = self.starts[start : stop + 1]
        first, end = starts[0], starts[-1]
        indices = self.indices if self.shared else self.indices[first:end]
        return Contexts(starts - first, indices, self.values[first:end], self.shared)

    @classmethod
    def dense(cls, matrix: npt.ArrayLike) -> "Contexts":
        """The rows of a matrix (n, d) as contexts."""
        rows = np.array(matrix, dtype=np.float64, ndmin=2)
        n, d = rows.shape
        return cls(np.arange(n + 1, dtype=np.int64) * d, np.arange(d, dtype=np.int64), rows.reshape(-1), True)

    @classmethod
    def sparse(cls, lengths: npt.ArrayLike, indices: npt.ArrayLike, values: npt.ArrayLike) -> "Contexts":
        """Contexts of so many entries each (n,), from all their indices (nnz,) and values (nnz,) in one."""
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(starts, np.array(indices, dtype=np.int64), np.array(values, dtype=np.float64), False)


class Rounds(NamedTuple):
    """n rounds, oldest first: what was predicted, with what probability, and what came of it.

    Where an answer is more than a label, labels and true labels are (n, K): see `StructuredLearner`.
    """

    contexts: Contexts
    labels: IntArray  # (n,) int64, the label that was served, 0 … K-1
    propensities: FloatArray  # (n,) float64, in (0, 1], the probability it was drawn with
    correct: BoolArray  # (n,) bool
    true_labels: IntArray  # (n,) int64, NO_LABEL where unknown
    evidence: FloatArray  # (n, E) float64, from the decision
    leftovers: FloatArray  # (n,) float64, in [0, 1), of `exploration.draw`: uniform whatever the label, for coins

    @property
    def n(self) -> int:
        """How many rounds there are."""
        return len(self.labels)

    def rows(self, start: int, stop: int) -> "Rounds":
        """Rounds start … stop - 1, as views."""
        columns: list[Any] = [column[start:stop] for column in self[1:]]
        return Rounds(self.contexts.rows(start, stop), *columns)


class Decisions(NamedTuple):
    """The answers to n contexts, before any label is drawn."""

    distributions: FloatArray  # (n, K) float64, rows sum to 1
    evidence: FloatArray  # (n, E) float64, to be stored and handed back in `Rounds.evidence`


class Layout(NamedTuple):
    """The dtype of a state array and its shape; stands beside the field.

    A size is a symbol of `dimensions`, the name of an integer attribute of the learner, or a number.
    """

    dtype: str
    shape: tuple[str, ...] = ()
    least: float = -math.inf  # no entry is smaller
    index_of: str = ""  # a size: the entries are indices, 0 … size - 1, say of labels where it is K


NonNegativeScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=0.0)]
PositiveScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=1e-300)]
Count: TypeAlias = Annotated[IntArray, Layout("int64", least=0.0)]

StateT = TypeVar("StateT", bound=tuple[Any, ...])


class Learner(Protocol[StateT]):
    """The contract of every learner; `tests/learners/test_contract.py` holds its laws."""

    algorithm: ClassVar[str]  # the name users write, lower case with hyphens
    guarantee: ClassVar[str]  # one sentence: what is proved, and where
    smaller: ClassVar[str]  # the learner to use where this one is too large
    state_type: ClassVar[type[Any]]  # a NamedTuple, each field annotated with its Layout

    @property
    def problem(self) -> Problem:
        """The sizes this learner is built for."""

    @property
    def evidence_size(self) -> int:
        """E, the numbers that `fold` needs from prediction time, beside context, label and propensity."""

    @property
    def needs_true_label(self) -> bool:
        """Whether every round must carry its true label (full information)."""

    @property
    def decide_cost(self) -> int:
        """Multiply-adds of one decision with its draw, roughly and at most."""

    @property
    def fold_cost(self) -> int:
        """Multiply-adds of one update, roughly and at most."""

    @property
    def fold_overhead(self) -> int:
        """Multiply-adds that each call of `fold` takes beside its updates; 0 for most learners."""

    def init(self) -> StateT:
        """The state before the first round."""

    def decide(self, state: StateT, contexts: Contexts) -> Decisions:
        """The distribution over the labels for each of n contexts. Leaves the state as it is."""

    def fold(self, state: StateT, rounds: Rounds) -> StateT:
        """The state after these rounds, in order. May change `state` in place: pass a private copy.

        Folding n rounds at once gives the same bits as folding them one by one.
        """


AnyLearner: TypeAlias = Learner[Any]


def refusal(field: str, reason: str) -> pydantic.ValidationError:
    """What a learner raises where a hyperparameter that is in its range cannot be had with the others."""
    error = {"type": "value_error", "loc": (field,), "input": None, "ctx": {"error": ValueError(reason)}}
    return pydantic.ValidationError.from_exception_data("hyperparameters", [cast(Any, error)])


class Draws(NamedTuple):
    """The answers to n contexts, as served."""

    labels: IntArray  # (n,), or (n, K) of a structured learner
    propensities: FloatArray  # (n,), in (0, 1]; the smallest normal float64 for what is less likely
    leftovers: FloatArray  # (n,), in [0, 1)


class StructuredLearner(Learner[StateT], Protocol[StateT]):
    """A learner whose answer is more than a label, and which draws it by itself.

    An answer is a row of K numbers: of a *label set*, 1 for each label that is in it, else 0; of a *ranking*, the
    labels from first to last. Such rows are what `Rounds.labels` and `Rounds.true_labels` hold, the latter rows of
    NO_LABEL where the truth is unknown. `Decisions.distributions` are, of a label set, each label's probability to be
    in it, (n, K); of a ranking nothing, (n, 0).
    """

    answer: ClassVar[Literal["label-set", "ranking"]]

    @property
    def n_uniforms(self) -> int:
        """How many uniform numbers one answer takes."""

    def draw(self, decisions: Decisions, uniforms: FloatArray) -> Draws:
        """An answer for each of n decisions, from uniforms (n, n_uniforms) in [0, 1), with its exact probability."""


AnyStructuredLearner: TypeAlias = StructuredLearner[Any]
ClassT = TypeVar("ClassT")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def hyperparameters(cls: type[ClassT]) -> type[ClassT]:
    """Makes a class a frozen, keyword-only set of validated hyperparameters, with a JSON Schema for free.

    Constructing it with a value out of range raises `pydantic.ValidationError`, naming the field.
    """
    config = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
    return cast(type[ClassT], pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=config)(cls))


def dimensions(problem: Problem) -> dict[str, int]:
    """The symbols that state shapes are written in: K, d, p = d(d+1)/2, n = K·d, and P = n(n+1)/2.

    p and P are the entries of packed triangles with d and n rows.
    """
    K, d = problem.n_labels, problem.n_features
    n = K * d
    return {"K": K, "d": d, "p": d * (d + 1) // 2, "n": n, "P": n * (n + 1) // 2}


class ArrayLayout(NamedTuple):
    """A `Layout` with its symbols replaced by the sizes of a problem."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    least: float
    most: float


def state_layout(learner: AnyLearner) -> dict[str, ArrayLayout]:
    """The layout of each array of the learner's state, by field name."""
    hints = get_type_hints(learner.state_type, include_extras=True)
    return {name: _sized(hint.__metadata__[0], learner) for name, hint in hints.items()}


def _sized(layout: Layout, learner: AnyLearner) -> ArrayLayout:
    symbols = dimensions(learner.problem)

    def size(symbol: str) -> int:
        return int(symbol) if symbol.isdigit() else symbols[symbol] if symbol in symbols else getattr(learner, symbol)

    shape = tuple(size(symbol) for symbol in layout.shape)
    least, most = (0.0, size(layout.index_of) - 1.0) if layout.index_of else (layout.least, math.inf)
    return ArrayLayout(np.dtype(layout.dtype), shape, least, most)


def state_bytes(learner: AnyLearner) -> int:
    """Bytes that the learner's state takes, without making one."""
    return sum(array.dtype.itemsize * math.prod(array.shape) for array in state_layout(learner).values())


def zero_state(learner: AnyLearner) -> Any:
    """A state of the learner's type with every array zero."""
    return learner.state_type(*(np.zeros(array.shape, array.dtype) for array in state_layout(learner).values()))


def check_state_size(learner: AnyLearner, max_bytes: int) -> None:
    """Refuses a learner whose state would be too large.

    Raises:
        StateTooLargeError: with the bytes it would need and the learner to use instead.
    """
    needed = state_bytes(learner)
    if needed > max_bytes:
        raise StateTooLargeError(
            f"{learner.algorithm} with {learner.problem.n_labels} labels and {learner.problem.n_features} features "
            f"needs a state of {needed:,} bytes, more than the {max_bytes:,} allowed; use {learner.smaller} instead"
        )


def check_step_cost(learner: AnyLearner, max_multiply_adds: int) -> None:
    """Refuse a learner whose single decision or update would take too long.

    Raises:
        StepTooCostlyError: with the multiply-adds it would take and the learner to use instead.
    """
    costs = {"decision": learner.decide_cost, "update": learner.fold_cost + learner.fold_overhead}
    step = max(costs, key=costs.__getitem__)
    if costs[step] > max_multiply_adds:
        raise StepTooCostlyError(
            f"one {step} of {learner.algorithm} with {learner.problem.n_labels} labels and "
            f"{learner.problem.n_features} features takes about {costs[step]:,} multiply-adds, more than the "
            f"{max_multiply_adds:,} allowed; use {learner.smaller} instead"
        )
