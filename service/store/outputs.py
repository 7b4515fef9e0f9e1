"""How answers, and truths, are stored: numbers of fixed length for each model, all of them -1 where a truth is unknown.

So every bit of an unknown truth is 1, and the store compares answers as bytes without knowing what they mean.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from learners.base import NO_LABEL, BoolArray, IntArray


class OutputForm:
    """The bytes of one model's answers.

    Args:
        number: the dtype of each number, signed.
        shape: () for one number, (K,) for a row of them.
        possible: tells which of n answers the model could have given, (n,).
        vanishing: whether a propensity may be too small for a float64, and is then 0.
    """

    def __init__(
        self, number: str, shape: tuple[int, ...], possible: Callable[[npt.NDArray[Any]], BoolArray], vanishing: bool
    ) -> None:
        self.dtype = np.dtype((number, shape))
        self.vanishing = vanishing
        self._number = np.dtype(number)
        self._possible = possible

    def rows(self, answers: IntArray) -> npt.NDArray[Any]:
        """N answers (n, ...), as learners give them, in the numbers that are stored."""
        return answers.astype(self._number)

    def encode(self, answers: IntArray) -> list[bytes]:
        """The bytes of n answers, as learners give them."""
        data, size = self.rows(answers).tobytes(), self.dtype.itemsize
        return [data[start : start + size] for start in range(0, len(data), size)]

    def are_answers(self, stored: npt.NDArray[Any]) -> bool:
        """Whether n stored rows could all be answers."""
        return bool(self._possible(stored).all())

    def are_truths(self, stored: npt.NDArray[Any]) -> bool:
        """Whether n stored rows are all answers or unknown."""
        unknown = (stored == NO_LABEL).all(axis=tuple(range(1, stored.ndim)))
        return bool((unknown | self._possible(stored)).all())


def label_form(n_labels: int) -> OutputForm:
    """One label: its number."""
    return OutputForm("<i4", (), lambda stored: (stored >= 0) & (stored < n_labels), vanishing=False)


def label_bytes(number: int) -> bytes:
    """The bytes of one label, as `label_form` has them."""
    return number.to_bytes(4, "little", signed=True)


def label_set_form(n_labels: int) -> OutputForm:
    """A set of labels: 1 for each that is in it, else 0."""

    def possible(stored: npt.NDArray[Any]) -> BoolArray:
        ok: BoolArray = ((stored == 0) | (stored == 1)).all(axis=1)
        return ok

    return OutputForm("i1", (n_labels,), possible, vanishing=True)


def ranking_form(n_labels: int) -> OutputForm:
    """An order of all labels: their numbers, the first one first."""

    def possible(stored: npt.NDArray[Any]) -> BoolArray:
        ok: BoolArray = (np.sort(stored, axis=1) == np.arange(n_labels)).all(axis=1)
        return ok

    return OutputForm("<i4", (n_labels,), possible, vanishing=True)
