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
from learners.base import Contexts, IntArray, Rounds, StateT
from learners.compiled_learner import CompiledLearner
from learners.hyperparameters import hyperparameters
from learners.kernels import compiled
from learners.layouts import FEWEST_ROWS, Layout, resized

RowFeatures: TypeAlias = Annotated[IntArray, Layout("int64", ("R",), index_of="d")]
RowSlots: TypeAlias = Annotated[IntArray, Layout("int64", ("R", "2"), index_of="slot_values")]
RowCounts: TypeAlias = Annotated[IntArray, Layout("int64", ("2",), least=0.0)]
"""The arrays of `FeatureRows`. A state has them as `features`, `slots` and `row_counts`."""


@hyperparameters
class GrowingRows:
    """A learner that gives a row of its state to each feature when it is first folded.

    A prediction ignores features without a row. Once `max_features` rows are in use, updates ignore further features
    too, and count their entries.
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
        return min(self.max_features, int(self.problem.n_features))  # type: ignore[attr-defined]

    @property
    def slot_values(self) -> int:
        """The number of values of a slot: 0 for an empty one, or 1 + row."""
        return self.most_rows + 1

    def grown(self, state: Any) -> Any:
        """Return the state with twice as many rows, at most `most_rows`."""
        rows = max(FEWEST_ROWS, 2 * len(rows_of(state).features))
        larger = resized(self, state, min(rows, self.most_rows))
        index_features(rows_of(larger))
        return larger

    def warnings(self, state: Any, /) -> list[str]:
        """See `Learner.warnings`."""
        ignored = int(rows_of(state).counts[IGNORED])
        if not ignored:
            return []
        rows = f"{rows_in_use(rows_of(state)):,} of {self.most_rows:,} rows are in use"
        return [f"max_features: {rows}; {ignored:,} values of further features were ignored."]


@hyperparameters
class GrowingLearner(GrowingRows, CompiledLearner[StateT]):
    """A compiled learner with growing rows; its kernels get contexts whose indices are rows."""

    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        """See `Learner.fold_unchecked`."""
        state, contexts = self.prepare(state, rounds.contexts)
        return super().fold_unchecked(state, rounds._replace(contexts=contexts))

    def prepare(self, state: StateT, contexts: Contexts) -> tuple[StateT, Contexts]:
        """See `CompiledLearner.prepare`."""
        done, room = 0, room_for(contexts)
        while True:
            rows = rows_of(state)
            mode = ADD if len(rows.features) < self.most_rows else ADD_OR_IGNORE
            done = to_rows(rows, contexts, room, done, mode)
            if done == contexts.n:
                return state, room
            state = self.grown(state)


def rows_of(state: Any) -> FeatureRows:
    """Return the table of a state, as views."""
    return FeatureRows(state.features, state.slots.reshape(-1), state.row_counts)


def rows_of_entries(state: Any, contexts: Contexts) -> IntArray:
    """Return the row of each entry of one context, (m,); -1 where the feature has none, or the value is zero."""
    m = len(contexts.values)
    single = Contexts(np.arange(m + 1, dtype=np.int64), contexts.indices, contexts.values, False)
    room = room_for(single)
    to_rows(rows_of(state), single, room, 0, READ)
    rows = np.full(m, -1, np.int64)
    rows[np.diff(room.starts) > 0] = room.indices[: room.starts[-1]]
    return rows


@compiled
def in_rows(state: Any, contexts: Contexts, mode: int) -> Contexts:
    """Return contexts whose indices are rows."""
    size = len(contexts.values)
    room = Contexts(np.zeros(len(contexts.starts), np.int64), np.empty(size, np.int64), np.empty(size), False)
    to_rows(FeatureRows(state.features, state.slots.reshape(-1), state.row_counts), contexts, room, 0, mode)
    return room


@compiled
def locate(_parameters: Any, state: Any, contexts: Contexts) -> Contexts:
    """Return contexts whose indices are rows, without features that have none. See `Kernels.locate`."""
    return in_rows(state, contexts, READ)


def room_for(contexts: Contexts) -> Contexts:
    """Return room for contexts with as many entries."""
    nonzeros = len(contexts.values)
    return Contexts(np.zeros(contexts.n + 1, np.int64), np.empty(nonzeros, np.int64), np.empty(nonzeros), False)
