"""The layout of a learner's state: the dtype and shape of each array, for any problem."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np

from learners.base import AnyLearner, FloatArray, IntArray, InvalidStateError, Problem, State


class Layout(NamedTuple):
    """The dtype, shape and range of a state array, annotated on its field.

    Each size in `shape` is a symbol of `dimensions`, the name of an integer attribute of the learner, or a number.
    Arrays whose first axis is `R` grow together, up to the learner's `most_rows`.
    """

    dtype: str
    shape: tuple[str, ...] = ()
    least: float = -math.inf  # the minimum of an entry
    index_of: str = ""  # if given, a size: entries are indices in 0 … size - 1; for K, they are labels


NonNegativeScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=0.0)]
PositiveScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=1e-300)]
Count: TypeAlias = Annotated[IntArray, Layout("int64", least=0.0)]
LabelVectors: TypeAlias = Annotated[FloatArray, Layout("float64", ("d", "K"))]  # one column per label
RowVectors: TypeAlias = Annotated[FloatArray, Layout("float64", ("R", "K"))]  # K numbers for each row in use
RowSquares: TypeAlias = Annotated[FloatArray, Layout("float64", ("R", "K"), least=0.0)]
Triangle: TypeAlias = Annotated[FloatArray, Layout("float64", ("P",))]  # the packed lower triangle of n = K·d rows


def dimensions(problem: Problem) -> dict[str, int]:
    """Return the sizes that symbols denote: K, d, n = K·d, and p and P, for the packed triangles of d and n rows."""
    K, d = problem.n_labels, problem.n_features
    n = K * d
    return {"K": K, "d": d, "p": d * (d + 1) // 2, "n": n, "P": n * (n + 1) // 2}


FEWEST_ROWS = 16  # the number of rows, in a new state, of the arrays that grow

_GROWING = "R"


class ArrayLayout(NamedTuple):
    """A `Layout` whose symbols are replaced by the dimensions of a problem."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # the largest shape if the array grows
    least: float
    most: float  # the maximum of an entry
    grows: bool = False  # whether the first axis may be shorter than in `shape`

    def fits(self, array: Any) -> bool:
        """Check an array's type, dtype and shape, but not its numbers."""
        if type(array) is not np.ndarray or array.dtype != self.dtype or array.ndim != len(self.shape):
            return False
        shape = (min(len(array), self.shape[0]), *self.shape[1:]) if self.grows else self.shape
        return bool(array.shape == shape)

    def __str__(self) -> str:
        return f"{self.dtype} with shape {'up to ' if self.grows else ''}{self.shape}"


def state_layout(learner: AnyLearner) -> dict[str, ArrayLayout]:
    """Return the layout of each array of the learner's state, by field name."""
    hints = get_type_hints(learner.state_type, include_extras=True)
    return {name: _sized(hint.__metadata__[0], learner) for name, hint in hints.items()}


def _sized(layout: Layout, learner: AnyLearner) -> ArrayLayout:
    symbols = dimensions(learner.problem)

    def size(symbol: str) -> int:
        if symbol == _GROWING:
            return int(getattr(learner, "most_rows"))  # noqa: B009
        return int(symbol) if symbol.isdigit() else symbols[symbol] if symbol in symbols else getattr(learner, symbol)

    shape = tuple(size(symbol) for symbol in layout.shape)
    least, most = (0.0, size(layout.index_of) - 1.0) if layout.index_of else (layout.least, math.inf)
    return ArrayLayout(np.dtype(layout.dtype), shape, least, most, _GROWING in layout.shape)


def check_rows(arrays: Mapping[str, Any], layouts: Mapping[str, ArrayLayout]) -> None:
    """Raise `InvalidStateError` if the growing arrays differ in their number of rows."""
    lengths = {name: len(arrays[name]) for name, layout in layouts.items() if layout.grows}
    if len(set(lengths.values())) > 1:
        raise InvalidStateError(f"arrays that grow together differ in their number of rows: {lengths}")


def resized(learner: Any, state: State, rows: int) -> Any:
    """Return the state with this many rows in the arrays that grow; new rows are zero."""
    layout, arrays = state_layout(learner), state._asdict()
    for name, array in state._asdict().items():
        if layout[name].grows:
            arrays[name] = np.zeros((rows, *array.shape[1:]), array.dtype)
            arrays[name][: len(array)] = array
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
    return (min(FEWEST_ROWS, layout.shape[0]), *layout.shape[1:]) if layout.grows else layout.shape
