"""The contract of a learner of actions. Read `learners.base` first.

Each round brings its own candidates, from one to many, each with a feature vector of the context and the action. The
learner has one weight vector, so it knows what the features of a new action are worth::

    init() -> state
    decide(state, candidates) -> distributions           a probability for each candidate, which sum to 1 in each round
    fold(state, rounds) -> state                         rounds hold the chosen candidates only

A caller draws a candidate, keeps its vector and its probability, and returns both with the
reward, and the number of eligible candidates. Nothing else is needed later.
"""

from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, TypeAlias

import pydantic

from learners.base import AnswerKind, BoolArray, ContextNorm, Contexts, FloatArray, IntArray, NormPolicy, StateT


@pydantic.dataclasses.dataclass(frozen=True, config=pydantic.ConfigDict(strict=True, allow_inf_nan=False))
class ActionProblem:
    """The dimensions of a problem with actions.

    Attributes:
        n_features: d, the number of features of a candidate, at least 1.
        norm_bound: X, from 1e-6 to 1e6, a bound on the norm of every candidate.
    """

    n_features: Annotated[int, pydantic.Field(ge=1)]
    norm_bound: Annotated[float, pydantic.Field(ge=1e-6, le=1e6)] = 1.0

    @property
    def n_labels(self) -> int:
        """1: layouts of states have one weight vector, whatever the number of candidates."""
        return 1

    @property
    def dimensions(self) -> str:
        """d, in words."""
        return f"{self.n_features} features"


class Candidates(NamedTuple):
    """The candidates of n rounds, m in total; those of round i are `starts[i]` … `starts[i + 1] - 1`."""

    vectors: Contexts  # m
    starts: IntArray  # (n + 1,) int64, from 0 to m, increasing: each round has a candidate
    eligible: BoolArray  # (m,) bool, which may be chosen, at least one per round; or (0,) where all may

    @property
    def n(self) -> int:
        """The number of rounds."""
        return len(self.starts) - 1


class ActionRounds(NamedTuple):
    """n rounds, oldest first, with the vectors of the candidates that were chosen."""

    chosen: Contexts  # n
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


class ActionLearner(Protocol[StateT]):
    """The contract of every learner of actions; `tests/learners/actions` holds its laws."""

    algorithm: ClassVar[str]  # the public name, lower case with hyphens
    smaller: ClassVar[str]  # the alternative to suggest where this one's state or steps are too large
    state_type: ClassVar[type[Any]]  # a NamedTuple, each field annotated with its Layout
    answer: ClassVar[AnswerKind]  # "action"
    norm_policy: ClassVar[NormPolicy]  # the default of a new model
    context_norm: ClassVar[ContextNorm]  # the norm that the bound applies to
    intercept: ClassVar[bool]  # whether a constant feature may be added to vectors; a new model then has one
    accepts_rewards: ClassVar[bool]  # whether updates use rewards between 0 and 1
    labels_grow: ClassVar[bool]  # never: it has no labels
    evidence_size: ClassVar[int]  # 1, for the number of eligible candidates, which the caller stores
    needs_true_label: ClassVar[bool]  # never
    fold_overhead: ClassVar[int]  # multiply-adds that each call of `fold` costs on top of its updates

    @property
    def problem(self) -> ActionProblem:
        """The dimensions that this learner is built for."""

    @property
    def guarantee(self) -> str:
        """What is proved for these hyperparameters, where, and under which assumptions."""

    def decide_cost(self, nonzeros: int, /) -> int:
        """Return an approximate upper bound on the multiply-adds for one candidate with this many non-zeros."""

    def fold_cost(self, nonzeros: int, /) -> int:
        """Return an approximate upper bound on the multiply-adds of one update; `nonzeros` of the chosen candidate."""

    def init(self) -> StateT:
        """Return the state before the first round."""

    def decide(self, state: StateT, candidates: Candidates) -> FloatArray:
        """Return the probability of each candidate, (m,); 0 where not eligible. Does not change the state."""

    def fold(self, state: StateT, rounds: ActionRounds) -> StateT:
        """Return the state after these rounds, applied in order. May change `state` in place: pass a private copy.

        Folding n rounds in one call gives the same bits as folding them one by one.
        """

    def warnings(self, state: StateT, /) -> list[str]:
        """Return one sentence for each limit that the state has reached, beginning with its hyperparameter."""

    def contributions(self, state: StateT, vector: Contexts, /) -> FloatArray:
        """Return what each of the m entries of one candidate adds to its score, (m,).

        The sum is the score that the probability of the candidate depends on.
        """

    def decide_unchecked(self, state: StateT, candidates: Candidates) -> FloatArray:
        """Do the same as `decide`, for arrays that the caller has checked: invalid ones may crash the interpreter."""

    def fold_unchecked(self, state: StateT, rounds: ActionRounds) -> StateT:
        """Do the same as `fold`, for arrays that the caller has checked: invalid ones may crash the interpreter."""


AnyActionLearner: TypeAlias = ActionLearner[Any]
