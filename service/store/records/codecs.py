"""Codecs of answers and contexts."""

import struct
from collections.abc import Callable, Mapping
from itertools import compress, pairwise
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from learners.base import NO_LABEL, BoolArray, Contexts, FloatArray, IntArray
from service.errors import StoreCorruptError

Kind: TypeAlias = Literal["label", "label-set", "ranking"]

AnswerArray: TypeAlias = npt.NDArray[np.signedinteger]
"""n answers in their stored dtype, (n,) or (n, K)."""

Possible: TypeAlias = Callable[[AnswerArray], BoolArray]
"""Returns the mask (n,) that marks which of n answers are valid for a model."""

_LABEL = struct.Struct("<i")


class AnswerCodec:
    """Encodes and checks one model's answers.

    Args:
        kind: "label", "label-set" or "ranking".
        n_labels: K, the number of labels.
        number: the dtype of each stored number, a signed integer.
        possible: returns the mask (n,) that marks which of n answers are valid.
        abstention: the reward of the last label, between 0 and 1, if that label represents abstaining; otherwise 0.

    Attributes:
        dtype: the dtype of a stored answer: one number or a row of K.
    """

    def __init__(self, kind: Kind, n_labels: int, number: str, possible: Possible, abstention: float = 0.0) -> None:
        self.kind = kind
        self.n_labels = n_labels
        self.dtype = np.dtype((number, () if kind == "label" else (n_labels,)))
        self.possible = possible
        self.abstention = abstention
        self._number = np.dtype(number)

    def rows(self, answers: IntArray) -> AnswerArray:
        """Convert n answers of a learner, (n,) or (n, K), to the stored dtype."""
        return answers.astype(self._number)

    def encode(self, answers: IntArray) -> list[bytes]:
        """Return the stored bytes of each of n answers of a learner."""
        if self.kind == "label":
            return list(map(_LABEL.pack, answers.tolist()))
        data, size = self.rows(answers).tobytes(), self.dtype.itemsize
        return [data[start : start + size] for start in range(0, len(data), size)]

    def possible_truths(self, stored: AnswerArray) -> BoolArray:
        """Return the mask (n,) of stored truths that are valid answers or unknown."""
        return self.equal(stored, NO_LABEL) | self.possible(stored)

    def equal(self, stored: AnswerArray, others: AnswerArray | int) -> BoolArray:
        """Return the mask (n,) of equal answers. If `others` is an integer, every number of an answer must equal it."""
        same: BoolArray = stored == others
        return same if same.ndim == 1 else np.logical_and.reduce(same, axis=1)


def label_codec(n_labels: int, abstention: float = 0.0) -> AnswerCodec:
    """Return the codec of single labels. A label is stored as its number, 0 … K - 1."""
    possible: Callable[[AnswerArray], BoolArray] = lambda stored: (stored >= 0) & (stored < n_labels)  # noqa: E731
    return AnswerCodec("label", n_labels, _LABEL.format, possible, abstention)


def label_bytes(number: int) -> bytes:
    """Encode one label as `label_codec` does."""
    return _LABEL.pack(number)


def label_set_codec(n_labels: int, possible: Possible | None = None) -> AnswerCodec:
    """Return the codec of label sets. All sets are valid, or only those that `possible` accepts.

    A set is stored as K numbers: 1 for each label in it, else 0.
    """
    return AnswerCodec("label-set", n_labels, "i1", _any_set if possible is None else possible)


def _any_set(stored: AnswerArray) -> BoolArray:
    ok: BoolArray = ((stored == 0) | (stored == 1)).all(axis=1)
    return ok


def ranking_codec(n_labels: int) -> AnswerCodec:
    """Return the codec of rankings. A ranking is stored as the K label numbers, best first."""

    def possible(stored: AnswerArray) -> BoolArray:
        ok: BoolArray = (np.sort(stored, axis=1) == np.arange(n_labels)).all(axis=1)
        return ok

    return AnswerCodec("ranking", n_labels, "<i4", possible)


class ContextCodec(Protocol):
    """Encodes one kind of context."""

    fixed_bytes: int | None
    """Size of every encoded context in bytes; None if sizes differ."""

    def encode(self, contexts: Contexts) -> list[bytes]:
        """Encode each of n contexts."""

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """Decode n joined contexts into new arrays; context i is `parts[offsets[i]:offsets[i + 1]]`.

        Raises:
            StoreCorruptError: if a part does not encode a context of this kind. NaN and infinity are accepted.
        """


class DenseCodec(ContextCodec):
    """Encodes a dense context as d numbers, one per feature."""

    def __init__(self, size: int, number: str = "<f8") -> None:
        self._size, self._number = size, np.dtype(number)
        self._bytes = self._number.itemsize * size
        self.fixed_bytes: int | None = self._bytes

    def encode(self, contexts: Contexts) -> list[bytes]:
        encoded, size = contexts.values.astype(self._number, copy=False).tobytes(), self._bytes
        return [encoded[start : start + size] for start in range(0, len(encoded), size)]

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        if (np.diff(offsets) != self._bytes).any():
            raise StoreCorruptError(f"a stored context does not have {self._size} numbers")
        return Contexts.dense(np.frombuffer(parts, self._number).reshape(-1, self._size))


class VectorBlock(NamedTuple):
    """The place of a vector among all vectors of a model's features."""

    path: str
    start: int  # the index of its first number, minus the number of hashed indices
    size: int
    number: str  # the dtype of a stored number


class SparseCodec(ContextCodec):
    """Encodes a sparse context as pairs of a 32-bit index and a value.

    Args:
        size: d, the number of features; every index is smaller.
        number: the dtype of a value, which must represent the values of contexts exactly.
    """

    def __init__(self, size: int, number: str = "<f8") -> None:
        self.size = size
        self._pair = np.dtype([("index", "<i4"), ("value", number)])
        self.fixed_bytes: int | None = None

    def encode(self, contexts: Contexts) -> list[bytes]:
        pairs = np.empty(len(contexts.values), self._pair)
        pairs["index"], pairs["value"] = contexts.indices, contexts.values
        encoded, bounds = pairs.tobytes(), (contexts.starts * self._pair.itemsize).tolist()
        return [encoded[start:stop] for start, stop in pairwise(bounds)]

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        lengths = np.diff(offsets)
        if (lengths % self._pair.itemsize).any():
            raise StoreCorruptError("a stored context has a damaged entry")
        pairs = np.frombuffer(parts, self._pair)
        if ((pairs["index"] < 0) | (pairs["index"] >= self.size)).any():
            raise StoreCorruptError("a stored context has an index out of range")
        return Contexts.sparse(lengths // self._pair.itemsize, pairs["index"], pairs["value"])


class VectorCodec(ContextCodec):
    """Encodes a context with vectors: which it has, one byte each; the numbers of these; and the rest as `SparseCodec`.

    Args:
        size: the number of hashed indices. Vectors have the indices after these, and follow the other entries.
        blocks: the place of each vector, by path, in the order of indices.
    """

    def __init__(self, size: int, blocks: Mapping[str, VectorBlock]) -> None:
        self._size, self._blocks = size, [(np.dtype(each.number), each.size) for each in blocks.values()]
        self._hashed = SparseCodec(size)
        self._indices = [np.arange(each.size) + size + each.start for each in blocks.values()]
        self.fixed_bytes: int | None = None

    def encode(self, contexts: Contexts) -> list[bytes]:
        bounds = pairwise(contexts.starts.tolist())
        return [self._encoded(contexts.indices[start:stop], contexts.values[start:stop]) for start, stop in bounds]

    def _encoded(self, indices: IntArray, values: FloatArray) -> bytes:
        at = int(np.count_nonzero(indices < self._size))
        pairs = self._hashed.encode(Contexts(np.array([0, at]), indices[:at], values[:at], False))
        flags, parts = bytearray(), list[bytes]()
        for own, (dtype, size) in zip(self._indices, self._blocks, strict=True):
            found = at < len(indices) and int(indices[at]) == int(own[0])
            flags.append(found)
            if found:
                parts.append(values[at : at + size].astype(dtype).tobytes())
                at += size
        return b"".join([flags, *parts, *pairs])

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        rows = [self._decoded(parts[start:stop]) for start, stop in pairwise(offsets.tolist())]
        starts = np.cumsum([0, *(len(values) for _, values in rows)])
        indices = np.concatenate([np.empty(0, np.int64), *(each for each, _ in rows)])
        return Contexts(starts, indices, np.concatenate([np.empty(0), *(each for _, each in rows)]), False)

    def _decoded(self, part: bytes) -> tuple[IntArray, FloatArray]:
        at = len(self._blocks)
        flags = part[:at]
        if len(flags) < at or max(flags) > 1:
            raise StoreCorruptError("a stored context has a damaged list of vectors")
        values = list[FloatArray]()
        for dtype, size in compress(self._blocks, flags):
            if at + size * dtype.itemsize > len(part):
                raise StoreCorruptError("a stored context has a damaged vector")
            values.append(np.frombuffer(part, dtype, size, at))
            at += size * dtype.itemsize
        rest = self._hashed.decode(part[at:], np.array([0, len(part) - at]))
        indices = np.concatenate([rest.indices, *compress(self._indices, flags)])
        return indices, np.concatenate([rest.values, *values])
