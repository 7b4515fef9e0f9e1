"""Codecs of contexts, one for each kind of context. `records` treats encoded contexts as opaque bytes."""

from typing import Protocol

import numpy as np

from learners.base import Contexts, IntArray
from service.errors import StoreCorruptError

_PAIR = np.dtype([("index", "<i4"), ("value", "<f8")])
"""One entry of a sparse context."""


class ContextCodec(Protocol):
    """Encodes one kind of context."""

    fixed_bytes: int | None
    """Size of every encoded context; None if sizes differ."""

    def encode(self, contexts: Contexts) -> tuple[bytes, IntArray]:
        """Encode n contexts; return the joined bytes, and the start of each context and the end, (n + 1,)."""

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """Decode contexts into new arrays.

        Raises:
            StoreCorruptError: if one of them is not a context of this kind.
        """


class DenseCodec:
    """Encodes a dense context as d numbers, f64.

    Args:
        size: d.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.fixed_bytes: int | None = 8 * size

    def encode(self, contexts: Contexts) -> tuple[bytes, IntArray]:
        """See `ContextCodec.encode`."""
        rows = contexts.values.reshape(contexts.n, self._size)
        return rows.astype("<f8", copy=False).tobytes(), np.arange(contexts.n + 1) * 8 * self._size

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """See `ContextCodec.decode`."""
        if (np.diff(offsets) != 8 * self._size).any():
            raise StoreCorruptError(f"a stored context does not have {self._size} numbers")
        return Contexts.dense(np.frombuffer(parts, "<f8").reshape(-1, self._size))


class SparseCodec:
    """Encodes a sparse context as pairs of index i32 and value f64.

    Args:
        size: d; every index is smaller.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.fixed_bytes: int | None = None

    def encode(self, contexts: Contexts) -> tuple[bytes, IntArray]:
        """See `ContextCodec.encode`."""
        pairs = np.empty(len(contexts.values), _PAIR)
        pairs["index"], pairs["value"] = contexts.indices, contexts.values
        return pairs.tobytes(), contexts.starts * _PAIR.itemsize

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """See `ContextCodec.decode`."""
        lengths = np.diff(offsets)
        if (lengths % _PAIR.itemsize).any():
            raise StoreCorruptError("a stored context has a damaged entry")
        pairs = np.frombuffer(parts, _PAIR)
        if ((pairs["index"] < 0) | (pairs["index"] >= self.size)).any():
            raise StoreCorruptError("a stored context has an index out of range")
        return Contexts.sparse(lengths // _PAIR.itemsize, pairs["index"], pairs["value"])
