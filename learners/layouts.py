"""The layout of a learner's state: the dtype and shape of each array, for any problem."""

import math
from typing import Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np

from learners.base import AnyLearner, FloatArray, IntArray, Problem


class Layout(NamedTuple):
    """The dtype, shape and range of a state array, annotated on its field.

    A size is a symbol of `dimensions`, the name of an integer attribute of the learner, or a number.
    """

    dtype: str
    shape: tuple[str, ...] = ()
    least: float = -math.inf  # the least value of an entry
    index_of: str = ""  # a size: entries are indices in 0 … size - 1, such as labels where the size is K


NonNegativeScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=0.0)]
PositiveScalar: TypeAlias = Annotated[FloatArray, Layout("float64", least=1e-300)]
Count: TypeAlias = Annotated[IntArray, Layout("int64", least=0.0)]
LabelVectors: TypeAlias = Annotated[FloatArray, Layout("float64", ("d", "K"))]  # one column per label
Triangle: TypeAlias = Annotated[FloatArray, Layout("float64", ("P",))]  # the packed lower triangle of n rows


def dimensions(problem: Problem) -> dict[str, int]:
    """Return the values of the symbols in state shapes: K, d, p = d(d+1)/2, n = K·d, and P = n(n+1)/2.

    p and P are the numbers of entries of packed triangles with d and n rows.
    """
    K, d = problem.n_labels, problem.n_features
    n = K * d
    return {"K": K, "d": d, "p": d * (d + 1) // 2, "n": n, "P": n * (n + 1) // 2}


class ArrayLayout(NamedTuple):
    """A `Layout` whose symbols are replaced by the dimensions of a problem."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    least: float
    most: float


def state_layout(learner: AnyLearner) -> dict[str, ArrayLayout]:
    """Return the layout of each array of the learner's state, by field name."""
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
    """Return the size of the learner's state in bytes, without allocating one."""
    return sum(array.dtype.itemsize * math.prod(array.shape) for array in state_layout(learner).values())


def zero_state(learner: AnyLearner) -> Any:
    """Return a state of the learner's type with every array zero."""
    return learner.state_type(*(np.zeros(array.shape, array.dtype) for array in state_layout(learner).values()))
