"""Codecs of contexts, one for each kind of context. `records` treats encoded contexts as opaque bytes."""

from itertools import pairwise
from typing import Protocol

import numpy as np

from learners.base import Contexts, IntArray
from service.errors import StoreCorruptError


class ContextCodec(Protocol):
    """Encodes one kind of context."""

    fixed_bytes: int | None
    """Size of every encoded context; None if sizes differ."""

    def encode(self, contexts: Contexts) -> list[bytes]:
        """Encode each of n contexts."""

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """Decode contexts into new arrays.

        Raises:
            StoreCorruptError: if one of them is not a context of this kind.
        """


class DenseCodec:
    """Encodes a dense context as d numbers.

    Args:
        size: d.
        number: the dtype of a number, which represents all numbers of contexts exactly.
    """

    def __init__(self, size: int, number: str = "<f8") -> None:
        self._size, self._number = size, np.dtype(number)
        self._bytes = self._number.itemsize * size
        self.fixed_bytes: int | None = self._bytes

    def encode(self, contexts: Contexts) -> list[bytes]:
        """See `ContextCodec.encode`."""
        encoded, size = contexts.values.astype(self._number, copy=False).tobytes(), self._bytes
        return [encoded[start : start + size] for start in range(0, len(encoded), size)]

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """See `ContextCodec.decode`."""
        if (np.diff(offsets) != self._bytes).any():
            raise StoreCorruptError(f"a stored context does not have {self._size} numbers")
        return Contexts.dense(np.frombuffer(parts, self._number).reshape(-1, self._size))


class SparseCodec:
    """Encodes a sparse context as pairs of index i32 and value.

    Args:
        size: d; every index is smaller.
        number: the dtype of a value, which represents all values of contexts exactly.
    """

    def __init__(self, size: int, number: str = "<f8") -> None:
        self.size = size
        self._pair = np.dtype([("index", "<i4"), ("value", number)])
        self.fixed_bytes: int | None = None

    def encode(self, contexts: Contexts) -> list[bytes]:
        """See `ContextCodec.encode`."""
        pairs = np.empty(len(contexts.values), self._pair)
        pairs["index"], pairs["value"] = contexts.indices, contexts.values
        encoded, bounds = pairs.tobytes(), (contexts.starts * self._pair.itemsize).tolist()
        return [encoded[start:stop] for start, stop in pairwise(bounds)]

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """See `ContextCodec.decode`."""
        lengths = np.diff(offsets)
        if (lengths % self._pair.itemsize).any():
            raise StoreCorruptError("a stored context has a damaged entry")
        pairs = np.frombuffer(parts, self._pair)
        if ((pairs["index"] < 0) | (pairs["index"] >= self.size)).any():
            raise StoreCorruptError("a stored context has an index out of range")
        return Contexts.sparse(lengths // self._pair.itemsize, pairs["index"], pairs["value"])
