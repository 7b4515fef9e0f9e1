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

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pydantic

from learners.errors import InvalidArrayError as InvalidArrayError  # noqa: PLC0414  imported from here as well
from learners.errors import InvalidStateError as InvalidStateError  # noqa: PLC0414  imported from here as well
from learners.errors import LearnerError as LearnerError  # noqa: PLC0414  imported from here as well

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

AnswerKind: TypeAlias = Literal["label", "level", "label-set", "ranking"]
"""One of the labels; one of the labels, which have an order; any subset of the labels; all labels in some order."""
NormPolicy: TypeAlias = Literal["reject", "scale", "unit"]
"""What happens to a context beyond the norm bound: see `features.within_bound`."""
ContextNorm: TypeAlias = Literal["euclidean", "maximum"]
"""The norm of a context that the bound is on: its length, or the magnitude of its largest entry."""

NO_LABEL = -1
"""Stands in `Rounds.true_labels` where the true label is unknown."""


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

    @property
    def mean_nonzeros(self) -> int:
        """Entries of a context, on average and rounded up; d of dense ones."""
        return -(-len(self.values) // max(self.n, 1))

    def rows(self, start: int, stop: int) -> "Contexts":
        """Contexts start … stop - 1, as views."""
        starts = self.starts[start : stop + 1]
        first, end = starts[0], starts[-1]
        indices = self.indices if self.shared else self.indices[first:end]
        return Contexts(starts - first, indices, self.values[first:end], self.shared)

    @classmethod
    def dense(cls, matrix: npt.ArrayLike) -> "Contexts":
        """The rows of a matrix (n, d) as contexts.

        Raises:
            InvalidArrayError: for an array of more than two dimensions.
        """
        rows = np.array(matrix, dtype=np.float64, ndmin=2)
        if rows.ndim > 2:
            raise InvalidArrayError(f"contexts: a matrix (n, d) is needed, not an array of shape {rows.shape}")
        n, d = rows.shape
        return cls(np.arange(n + 1, dtype=np.int64) * d, np.arange(d, dtype=np.int64), rows.reshape(-1), True)

    @classmethod
    def sparse(cls, lengths: npt.ArrayLike, indices: npt.ArrayLike, values: npt.ArrayLike) -> "Contexts":
        """Contexts with these numbers of entries (n,), from all their indices (nnz,) and values (nnz,) in one.

        Raises:
            InvalidArrayError: for a length or index that is no integer, or lengths that are not those of the arrays.
        """
        numbers, whole = np.array(values, dtype=np.float64), [np.array(one) for one in (lengths, indices)]
        for name, one in zip(("lengths", "indices"), whole, strict=True):
            if one.ndim != 1 or (one.size > 0 and one.dtype.kind not in "iu"):
                raise InvalidArrayError(f"contexts: {name} must be one row of integers")
        starts = np.concatenate([[0], np.cumsum(whole[0])]).astype(np.int64)
        if (np.diff(starts) < 0).any() or numbers.shape != whole[1].shape or starts[-1] != numbers.size:
            raise InvalidArrayError(
                "contexts: the lengths, none negative, must add up to the numbers of indices and values"
            )
        return cls(starts, whole[1].astype(np.int64), numbers, False)


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
    residual_uniforms: (
        FloatArray  # (n,) float64, in [0, 1), of `exploration.draw`: uniform whatever the label, for coins
    )

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


StateT = TypeVar("StateT", bound=tuple[Any, ...])


class Learner(Protocol[StateT]):
    """The contract of every learner; `tests/learners/contract` holds its laws."""

    algorithm: ClassVar[str]  # the name users write, lower case with hyphens
    smaller: ClassVar[str]  # the learner to use where this one is too large
    state_type: ClassVar[type[Any]]  # a NamedTuple, each field annotated with its Layout
    answer: ClassVar[AnswerKind]
    norm_policy: ClassVar[NormPolicy]  # of a new model that names none
    context_norm: ClassVar[ContextNorm]  # what the norm bound is on

    @property
    def guarantee(self) -> str:
        """What is proved of these hyperparameters, where, and under which assumptions."""

    @property
    def problem(self) -> Problem:
        """The sizes this learner is built for."""

    @property
    def evidence_size(self) -> int:
        """E, the numbers that `fold` needs from prediction time, beside context, label and propensity."""

    @property
    def needs_true_label(self) -> bool:
        """Whether every round must carry its true label (full information)."""

    def decide_cost(self, nonzeros: int, /) -> int:
        """Multiply-adds of one decision with its draw on a context with these non-zeros, roughly and at most."""

    def fold_cost(self, nonzeros: int, /) -> int:
        """Multiply-adds of one update on a context with these non-zeros, roughly and at most."""

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

    def decide_unchecked(self, state: StateT, contexts: Contexts) -> Decisions:
        """As `decide`, for arrays that the caller has checked: others may crash the interpreter."""

    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """As `fold`, for arrays that the caller has checked: others may crash the interpreter."""


AnyLearner: TypeAlias = Learner[Any]


class Draws(NamedTuple):
    """The answers to n contexts, as served."""

    labels: IntArray  # (n,), or (n, K) of a structured learner
    propensities: FloatArray  # (n,), in (0, 1]; the smallest normal float64 for what is less likely
    residual_uniforms: FloatArray  # (n,), in [0, 1)
