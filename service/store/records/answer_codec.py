"""How answers, and truths, are stored: numbers of fixed length for each model, all of them -1 where a truth is unknown.

So every bit of an unknown truth is 1, and the store compares answers as bytes without knowing what they mean.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from learners.base import NO_LABEL, BoolArray, IntArray

Kind: TypeAlias = Literal["label", "label-set", "ranking"]


class AnswerCodec:
    """The bytes of one model's answers.

    Args:
        kind: "label", "label-set" or "ranking", as the store's scripts know it.
        n_labels: K.
        number: the dtype of each number, signed.
        possible: returns which of n answers the model could have given, (n,).

    Attributes:
        dtype: of an answer: one number, or a row of K.
        vanishing: whether a propensity may be too small for a float64, and is then 0.
    """

    def __init__(
        self, kind: Kind, n_labels: int, number: str, possible: Callable[[npt.NDArray[Any]], BoolArray]
    ) -> None:
        self.kind = kind
        self.n_labels = n_labels
        self.dtype = np.dtype((number, () if kind == "label" else (n_labels,)))
        self.vanishing = kind != "label"
        self.possible = possible
        self._number = np.dtype(number)

    def rows(self, answers: IntArray) -> npt.NDArray[Any]:
        """N answers (n, ...), as learners give them, in the numbers that are stored."""
        return answers.astype(self._number)

    def encode(self, answers: IntArray) -> list[bytes]:
        """The bytes of n answers, as learners give them."""
        data, size = self.rows(answers).tobytes(), self.dtype.itemsize
        return [data[start : start + size] for start in range(0, len(data), size)]

    def possible_truths(self, stored: npt.NDArray[Any]) -> BoolArray:
        """Which of n stored rows are answers or unknown, (n,)."""
        unknown: BoolArray = (stored == NO_LABEL).all(axis=tuple(range(1, stored.ndim)))
        return unknown | self.possible(stored)

    def equal(self, stored: npt.NDArray[Any], others: npt.NDArray[Any]) -> BoolArray:
        """Which of n pairs of stored rows are the same, (n,)."""
        same: BoolArray = (stored == others).all(axis=tuple(range(1, stored.ndim)))
        return same


def label_codec(n_labels: int) -> AnswerCodec:
    """One label: its number."""
    return AnswerCodec("label", n_labels, "<i4", lambda stored: (stored >= 0) & (stored < n_labels))


def label_bytes(number: int) -> bytes:
    """The bytes of one label, as `label_codec` has them."""
    return number.to_bytes(4, "little", signed=True)


def label_set_codec(n_labels: int) -> AnswerCodec:
    """A set of labels: 1 for each that is in it, else 0."""

    def possible(stored: npt.NDArray[Any]) -> BoolArray:
        ok: BoolArray = ((stored == 0) | (stored == 1)).all(axis=1)
        return ok

    return AnswerCodec("label-set", n_labels, "i1", possible)


def ranking_codec(n_labels: int) -> AnswerCodec:
    """An order of all labels: their numbers, the first one first."""

    def possible(stored: npt.NDArray[Any]) -> BoolArray:
        ok: BoolArray = (np.sort(stored, axis=1) == np.arange(n_labels)).all(axis=1)
        return ok

    return AnswerCodec("ranking", n_labels, "<i4", possible)
