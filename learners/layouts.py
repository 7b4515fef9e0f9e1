"""The layout of a learner's state: the dtype and shape of each array, for any problem."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np

from learners.base import AnyLearner, FloatArray, IntArray, InvalidStateError, Problem, State


class Layout(NamedTuple):
    """The dtype, shape and range of a state array, annotated on its field.

    Each size in `shape` is a symbol of `dimensions`, the name of an integer attribute of the learner, or a number.
    Arrays with an axis `R` or `S` grow together: R is the number of rows, up to the learner's `most_rows`, and S is R,
    but at most `MOST_SQUARED`.
    """

    dtype: str
    shape: tuple[str, ...] = ()
    least: float = -math.inf  # the minimum of an entry
    most: float = math.inf  # the maximum of an entry
    index_of: str = ""  # if given, a size: entries are indices in 0 … size - 1; for K, they are labels


NonNegativeScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=0.0)]
PositiveScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=1e-300)]
Count: TypeAlias = Annotated[IntArray, Layout("int64", least=0.0)]
LabelVectors: TypeAlias = Annotated[FloatArray, Layout("float64", ("d", "K"))]  # one column per label
Triangle: TypeAlias = Annotated[FloatArray, Layout("float64", ("P",))]  # the packed lower triangle of n = K·d rows


def dimensions(problem: Problem) -> dict[str, int]:
    """Return the sizes that symbols denote: K, d, n = K·d, and p and P, for the packed triangles of d and n rows."""
    K, d = problem.n_labels, problem.n_features
    n = K * d
    return {"K": K, "d": d, "p": d * (d + 1) // 2, "n": n, "P": n * (n + 1) // 2}


FEWEST_ROWS = 16  # the number of rows, in a new state, of the arrays that grow

MOST_SQUARED = 80
"""The maximum of S: a matrix of S² numbers then takes at most 51 kB, and its update about a microsecond."""

_MOST = {"R": math.inf, "S": MOST_SQUARED}  # axes that grow, and their maxima


class ArrayLayout(NamedTuple):
    """A `Layout` whose symbols are replaced by the dimensions of a problem."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # the largest shape if the array grows
    least: float
    most: float  # the maximum of an entry
    growing: tuple[float, ...] = ()  # the maximum of each axis if it grows, or 0; empty if none does

    @property
    def grows(self) -> bool:
        """Whether axes may be shorter than in `shape`."""
        return any(self.growing)

    def of(self, rows: int) -> tuple[int, ...]:
        """Return the shape for this number of rows."""
        sizes = zip(self.shape, self.growing or (0.0,) * len(self.shape), strict=True)
        return tuple(int(min(rows, most, size)) if most else size for size, most in sizes)

    def fits(self, array: Any) -> bool:
        """Check an array's type, dtype and shape, but not its numbers."""
        if type(array) is not np.ndarray or array.dtype != self.dtype or array.ndim != len(self.shape):
            return False
        return bool(array.shape == (self.of(len(array)) if self.grows else self.shape))

    def __str__(self) -> str:
        return f"{self.dtype} with shape {'up to ' if self.grows else ''}{self.shape}"


def state_layout(learner: AnyLearner) -> dict[str, ArrayLayout]:
    """Return the layout of each array of the learner's state, by field name."""
    hints = get_type_hints(learner.state_type, include_extras=True)
    return {name: _sized(hint.__metadata__[0], learner) for name, hint in hints.items()}


def _sized(layout: Layout, learner: AnyLearner) -> ArrayLayout:
    symbols = dimensions(learner.problem)

    def size(symbol: str) -> int:
        if symbol in _MOST:
            return int(min(getattr(learner, "most_rows"), _MOST[symbol]))  # noqa: B009
        return int(symbol) if symbol.isdigit() else symbols[symbol] if symbol in symbols else getattr(learner, symbol)

    shape = tuple(size(symbol) for symbol in layout.shape)
    least, most = (0.0, size(layout.index_of) - 1.0) if layout.index_of else (layout.least, layout.most)
    growing = tuple(_MOST.get(symbol, 0.0) for symbol in layout.shape)
    return ArrayLayout(np.dtype(layout.dtype), shape, least, most, growing if any(growing) else ())


def check_rows(arrays: Mapping[str, Any], layouts: Mapping[str, ArrayLayout]) -> None:
    """Raise `InvalidStateError` if the growing arrays differ in their number of rows."""
    lengths = {name: len(arrays[name]) for name, layout in layouts.items() if layout.grows}
    if any(layouts[name].of(max(lengths.values()))[0] != length for name, length in lengths.items()):
        raise InvalidStateError(f"arrays that grow together differ in their number of rows: {lengths}")


def resized(learner: Any, state: State, rows: int) -> Any:
    """Return the state with this many rows in the arrays that grow; new rows are zero."""
    layout, arrays = state_layout(learner), state._asdict()
    for name, array in state._asdict().items():
        if layout[name].grows:
            arrays[name] = np.zeros(layout[name].of(rows), array.dtype)
            arrays[name][tuple(slice(length) for length in array.shape)] = array
    return type(state)(**arrays)


def size_in_bytes(state: State) -> int:
    """Return the present size of a state in bytes."""
    return sum(array.nbytes for array in state)


def new_state_bytes(learner: AnyLearner) -> int:
    """Return the size of a new state in bytes, without allocating one."""
    return sum(array.dtype.itemsize * math.prod(_first_shape(array)) for array in state_layout(learner).values())


def state_bytes(learner: AnyLearner) -> int:
    """Return the maximum size of the learner's state in bytes, without allocating one."""
    return sum(array.dtype.itemsize * math.prod(array.shape) for array in state_layout(learner).values())


def zero_state(learner: AnyLearner) -> State:
    """Return a state of the learner's type with every array zero, and few rows in the arrays that grow."""
    return learner.state_type(*(np.zeros(_first_shape(array), array.dtype) for array in state_layout(learner).values()))


def _first_shape(layout: ArrayLayout) -> tuple[int, ...]:
    return layout.of(FEWEST_ROWS)
