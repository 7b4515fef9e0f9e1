"""Codecs of answers and truths: fixed-length numbers for each model, all -1 for an unknown truth.

Every bit of an unknown truth is therefore 1, and the store can compare answers as bytes without decoding them.
"""

import struct
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from learners.base import NO_LABEL, BoolArray, IntArray

Kind: TypeAlias = Literal["label", "label-set", "ranking"]

_LABEL = struct.Struct("<i")


class AnswerCodec:
    """Encodes and checks one model's answers.

    Args:
        kind: "label", "label-set" or "ranking", as passed to the store's scripts.
        n_labels: K.
        number: the dtype of each number, signed.
        possible: returns which of n answers are valid for the model, (n,).

    Attributes:
        dtype: dtype of an answer: one number, or a row of K.
    """

    def __init__(
        self, kind: Kind, n_labels: int, number: str, possible: Callable[[npt.NDArray[Any]], BoolArray]
    ) -> None:
        self.kind = kind
        self.n_labels = n_labels
        self.dtype = np.dtype((number, () if kind == "label" else (n_labels,)))
        self.possible = possible
        self._number = np.dtype(number)

    def rows(self, answers: IntArray) -> npt.NDArray[Any]:
        """Convert n answers (n, ...) of a learner to the stored dtype."""
        return answers.astype(self._number)

    def encode(self, answers: IntArray) -> list[bytes]:
        """Return the stored bytes of each of n answers of a learner."""
        if self.kind == "label":
            return list(map(_LABEL.pack, answers.tolist()))
        data, size = self.rows(answers).tobytes(), self.dtype.itemsize
        return [data[start : start + size] for start in range(0, len(data), size)]

    def possible_truths(self, stored: npt.NDArray[Any]) -> BoolArray:
        """Return which of n stored truths are valid answers or unknown, (n,)."""
        return self.equal(stored, NO_LABEL) | self.possible(stored)

    def equal(self, stored: npt.NDArray[Any], others: npt.NDArray[Any] | int) -> BoolArray:
        """Return which of n pairs of stored answers are equal, (n,). A number is an answer of only this number."""
        same: BoolArray = stored == others
        return same if same.ndim == 1 else np.logical_and.reduce(same, axis=1)


def label_codec(n_labels: int) -> AnswerCodec:
    """Return the codec of single labels. A label is stored as its number."""
    return AnswerCodec("label", n_labels, _LABEL.format, lambda stored: (stored >= 0) & (stored < n_labels))


def label_bytes(number: int) -> bytes:
    """Return the bytes of one label, in the format of `label_codec`."""
    return _LABEL.pack(number)


def label_set_codec(n_labels: int) -> AnswerCodec:
    """Return the codec of label sets. A set is stored as K numbers: 1 for each label in it, else 0."""

    def possible(stored: npt.NDArray[Any]) -> BoolArray:
        ok: BoolArray = ((stored == 0) | (stored == 1)).all(axis=1)
        return ok

    return AnswerCodec("label-set", n_labels, "i1", possible)


def ranking_codec(n_labels: int) -> AnswerCodec:
    """Return the codec of rankings. A ranking is stored as the numbers of all K labels, best first."""

    def possible(stored: npt.NDArray[Any]) -> BoolArray:
        ok: BoolArray = (np.sort(stored, axis=1) == np.arange(n_labels)).all(axis=1)
        return ok

    return AnswerCodec("ranking", n_labels, "<i4", possible)
