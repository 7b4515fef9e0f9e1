"""The base class of learners whose state has one row for each feature that occurred."""

from typing import Annotated, Any, TypeAlias

import numpy as np
import pydantic

from learners.algorithms.regression.feature_rows import (
    ADD,
    ADD_OR_IGNORE,
    IGNORED,
    READ,
    FeatureRows,
    index_features,
    rows_in_use,
    to_rows,
)
from learners.base import Contexts, Decisions, IntArray, Rounds, StateT
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import hyperparameters
from learners.layouts import FEWEST_ROWS, Layout, resized

RowFeatures: TypeAlias = Annotated[IntArray, Layout("int64", ("R",), index_of="d")]
RowSlots: TypeAlias = Annotated[IntArray, Layout("int64", ("R", "2"), index_of="slot_values")]
RowCounts: TypeAlias = Annotated[IntArray, Layout("int64", ("2",), least=0.0)]
"""The arrays of `FeatureRows`. A state has them as `features`, `slots` and `row_counts`."""


@hyperparameters
class GrowingLearner(CompiledLearner[StateT]):
    """A compiled learner that gives a row of its state to each feature when it is first folded.

    Its kernels get contexts whose indices are rows. A prediction ignores features without a row. Once `max_features`
    rows are in use, updates ignore further features too, and count their entries.
    """

    max_features: Annotated[
        int,
        pydantic.Field(
            ge=1,
            le=2**24,
            description="The maximum number of different features to learn from. Memory grows with those that occur; "
            "once this many have occurred, further ones are ignored.",
        ),
    ] = 65_536

    @property
    def most_rows(self) -> int:
        """The largest number of rows."""
        return min(self.max_features, self.problem.n_features)

    @property
    def slot_values(self) -> int:
        """The number of values of a slot: 0 for an empty one, or 1 + row."""
        return self.most_rows + 1

    def decide_unchecked(self, state: StateT, contexts: Contexts) -> Decisions:
        """See `Learner.decide_unchecked`."""
        room = _room(contexts)
        to_rows(_rows(state), contexts, room, 0, READ)
        return super().decide_unchecked(state, room)

    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """See `Learner.fold_unchecked`."""
        state, contexts = self.prepare(state, rounds.contexts)
        return super().fold_unchecked(state, rounds._replace(contexts=contexts))

    def prepare(self, state: StateT, contexts: Contexts) -> tuple[StateT, Contexts]:
        """See `CompiledLearner.prepare`."""
        done, room = 0, _room(contexts)
        while True:
            rows = _rows(state)
            mode = ADD if len(rows.features) < self.most_rows else ADD_OR_IGNORE
            done = to_rows(rows, contexts, room, done, mode)
            if done == contexts.n:
                return state, room
            state = self._grown(state)

    def _grown(self, state: StateT) -> StateT:
        rows = max(FEWEST_ROWS, 2 * len(_rows(state).features))
        larger: StateT = resized(self, state, min(rows, self.most_rows))
        index_features(_rows(larger))
        return larger

    def warnings(self, state: StateT, /) -> list[str]:
        """See `Learner.warnings`."""
        ignored = int(_rows(state).counts[IGNORED])
        if not ignored:
            return []
        rows = f"{rows_in_use(_rows(state)):,} of {self.most_rows:,} rows are in use"
        return [f"max_features: {rows}; {ignored:,} values of further features were ignored."]


def _rows(state: Any) -> FeatureRows:
    return FeatureRows(state.features, state.slots.reshape(-1), state.row_counts)


def _room(contexts: Contexts) -> Contexts:
    nonzeros = len(contexts.values)
    return Contexts(np.zeros(contexts.n + 1, np.int64), np.empty(nonzeros, np.int64), np.empty(nonzeros), False)
