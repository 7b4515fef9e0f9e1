"""Learners whose state has one row per feature seen so far; a hash table maps features to rows.

With hashed features, far more features are possible than occur. Rows are in order of first occurrence. The table uses
open addressing with linear probing; a feature whose index equals its row, as in dense contexts, needs no probing.
"""

from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import pydantic

from learners.base import Contexts, FloatArray, IntArray, Rounds, State, StateT
from learners.hyperparameters import hyperparameters
from learners.kernels import compiled, row
from learners.layouts import FEWEST_ROWS, Layout, resized
from learners.learner import CompiledLearner

SMALLEST_VALUE = 1e-100  # smaller absolute values count as zero: their squares could underflow

_MOST_PROBES = 128
"""The maximum number of slots probed per feature. At most half the slots are in use, so only features chosen to
collide need more. A client that chooses such features harms only its own model."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: Knuth's multiplicative hashing
_HALF_WORD = np.uint64(32)

USED, IGNORED = range(2)  # positions in `FeatureRows.counts`
READ, ADD, ADD_OR_IGNORE = range(3)  # modes of `to_rows`


class FeatureRows(NamedTuple):
    """The table, as views of a state's arrays. Corrupt arrays yield wrong rows, but none out of range."""

    features: IntArray  # (R,), the feature of each row in use
    slots: IntArray  # (2R,), 1 + row, or 0 if the slot is empty
    counts: IntArray  # (2,), rows in use, and entries of folded contexts that were ignored for lack of a row


@compiled
def rows_in_use(rows: FeatureRows) -> int:
    """Return the number of rows in use, at most the arrays' length even if the state is corrupt."""
    return max(0, min(int(rows.counts[USED]), len(rows.features)))


@compiled
def _find(features: IntArray, slots: IntArray, used: int, feature: int) -> int:
    """Return the row of a feature, or -1 if it has none."""
    if feature < used and features[feature] == feature:
        return feature
    at = _first_slot(len(slots), feature)
    for _ in range(min(len(slots), _MOST_PROBES)):
        found: int = slots[at] - 1
        if found < 0 or (found < used and features[found] == feature):
            return found
        at = np.int64(at + 1 if at + 1 < len(slots) else 0)
    return -1


@compiled
def _first_slot(n_slots: int, feature: int) -> np.int64:
    hashed = (np.uint64(feature) * _MULTIPLIER) >> _HALF_WORD
    return np.int64((hashed * np.uint64(n_slots)) >> _HALF_WORD)


@compiled
def index_features(rows: FeatureRows) -> None:
    """Rebuild the slots from the rows in use."""
    rows.slots[:] = 0
    for number in range(rows_in_use(rows)):
        _occupy(rows.slots, rows.features[number], number)


@compiled
def _occupy(slots: IntArray, feature: int, new: int) -> bool:
    """Assign the row `new` to an empty slot for the feature; return whether an empty slot was found."""
    at = _first_slot(len(slots), feature)
    for _ in range(min(len(slots), _MOST_PROBES)):
        if slots[at] == 0:
            slots[at] = new + 1
            return True
        at = np.int64(at + 1 if at + 1 < len(slots) else 0)
    return False


@compiled
def to_rows(rows: FeatureRows, contexts: Contexts, result: Contexts, start: int, mode: int) -> int:
    """Write the contexts, beginning with number `start`, to `result`, with rows as indices.

    Features without a row are dropped, and zeros, unless contexts are dense: their zeros are values like any other. The
    mode determines how new features are handled. `READ` skips them.
    `ADD` assigns rows and stops when none is left; `ADD_OR_IGNORE` assigns rows and, when none is left, ignores new
    features and counts their entries. Both also ignore and count features that find no slot. `result` must have room
    for all entries of `contexts`, and correct starts up to `start`. Returns the index of the context at which rows ran
    out, or n.
    """
    features, slots, counts = rows
    starts, indices, values, _ = result
    used, end = rows_in_use(rows), starts[start]
    for i in range(start, len(starts) - 1):
        entries, numbers = row(contexts, i)
        for position in range(len(numbers)):
            feature, x = entries[position], numbers[position]
            if abs(x) < SMALLEST_VALUE:
                if not contexts.shared:
                    continue
                x = 0.0
            found = _find(features, slots, used, feature)
            if found < 0 and mode != READ:
                if used == len(features) and mode == ADD:
                    return i
                if used < len(features) and _occupy(slots, feature, used):
                    features[used], found = feature, used
                    used += 1
                    counts[USED] = used
                else:
                    counts[IGNORED] += 1
            if found >= 0:
                indices[end], values[end] = found, x
                end += 1
        starts[i + 1] = end
    return len(starts) - 1


RowFeatures: TypeAlias = Annotated[IntArray, Layout("int64", ("R",), index_of="d")]
RowSlots: TypeAlias = Annotated[IntArray, Layout("int64", ("R", "2"), index_of="slot_values")]
RowCounts: TypeAlias = Annotated[IntArray, Layout("int64", ("2",), least=0.0)]
"""The arrays of `FeatureRows`, stored in a state as `features`, `slots` and `row_counts`."""


@hyperparameters
class GrowingRows:
    """A learner that assigns each feature a row when it is first folded, up to `max_features` rows."""

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
        """The number of values that a slot can have: 0 for an empty one, or 1 + row."""
        return self.most_rows + 1

    def grown(self, state: State) -> State:
        """Return the state with its rows doubled, up to `most_rows`."""
        rows = max(FEWEST_ROWS, 2 * len(rows_of(state).features))
        larger = resized(self, state, min(rows, self.most_rows))
        index_features(rows_of(larger))
        return larger

    def warnings(self, state: State, /) -> list[str]:
        """Return a sentence with the number of values ignored for lack of a row, if there are any."""
        ignored = int(rows_of(state).counts[IGNORED])
        if not ignored:
            return []
        rows = f"{rows_in_use(rows_of(state)):,} of {self.most_rows:,} rows are in use"
        return [f"max_features: {rows}; {ignored:,} values of further features were ignored."]


@hyperparameters
class GrowingLearner(GrowingRows, CompiledLearner[StateT]):
    """A compiled learner with growing rows; its kernels receive contexts whose indices are rows."""

    def fold_unchecked(self, state: StateT, rounds: Rounds) -> StateT:
        state, contexts = self.prepare(state, rounds.contexts)
        return super().fold_unchecked(state, rounds._replace(contexts=contexts))

    def prepare(self, state: StateT, contexts: Contexts) -> tuple[StateT, Contexts]:
        done, room = 0, room_for(contexts)
        while True:
            rows = rows_of(state)
            mode = ADD if len(rows.features) < self.most_rows else ADD_OR_IGNORE
            done = to_rows(rows, contexts, room, done, mode)
            if done == contexts.n:
                return state, room
            state = self.grown(state)


def rows_of(state: State) -> FeatureRows:
    """Return the table of a state, as views."""
    return FeatureRows(state.features, state.slots.reshape(-1), state.row_counts)


def rows_of_entries(state: State, contexts: Contexts) -> IntArray:
    """Return the row of each entry of one context, (m,); -1 if it has none, or is a zero that is no value."""
    rows = np.empty(len(contexts.values), np.int64)
    _find_each(rows_of(state), contexts.indices, rows)
    rows[(np.abs(contexts.values) < SMALLEST_VALUE) & (not contexts.shared)] = -1
    return rows


@compiled
def _find_each(rows: FeatureRows, features: IntArray, found: IntArray) -> None:
    used = rows_in_use(rows)
    for position in range(len(features)):
        found[position] = _find(rows.features, rows.slots, used, features[position])


@compiled
def highest_row(where: IntArray) -> int:
    """Return 1 + the highest of these rows, or 0."""
    most = 0
    for i in where:
        most = max(most, i + 1)
    return most


@compiled
def first_rows(where: IntArray, z: FloatArray, rows: int) -> int:
    """Move the entries in the first `rows` rows to the front, with their values; return their number."""
    end = 0
    for position in range(len(where)):
        if where[position] < rows:
            where[end], where[position] = where[position], where[end]
            z[end], z[position] = z[position], z[end]
            end += 1
    return end


@compiled
def in_rows(state: State, contexts: Contexts, mode: int) -> Contexts:
    """Return contexts whose indices are rows; `mode` is as in `to_rows`."""
    size = len(contexts.values)
    room = Contexts(np.zeros(len(contexts.starts), np.int64), np.empty(size, np.int64), np.empty(size), False)
    to_rows(FeatureRows(state.features, state.slots.reshape(-1), state.row_counts), contexts, room, 0, mode)
    return room


@compiled
def locate(_parameters: Any, state: State, contexts: Contexts) -> Contexts:
    """Return contexts whose indices are rows, without features that have no row. See `Kernels.locate`."""
    return in_rows(state, contexts, READ)


def room_for(contexts: Contexts) -> Contexts:
    """Return empty contexts with space for as many entries as these."""
    nonzeros = len(contexts.values)
    return Contexts(np.zeros(contexts.n + 1, np.int64), np.empty(nonzeros, np.int64), np.empty(nonzeros), False)
