"""How contexts are stored: each kind of context has a codec, and `records` does not know what is in them."""

from typing import Protocol

import numpy as np

from learners.base import Contexts, IntArray
from service.errors import StoreCorruptError

_PAIR = np.dtype([("index", "<i4"), ("value", "<f8")])
"""One number of a sparse context."""


class ContextCodec(Protocol):
    """The bytes of one kind of context."""

    fixed_bytes: int | None
    """Bytes of every context; None where they differ."""

    def encode(self, contexts: Contexts) -> tuple[bytes, IntArray]:
        """Return the bytes of n contexts, joined, and where each begins and the last ends, (n + 1,)."""

    def decode(self, parts: bytes, offsets: IntArray) -> Contexts:
        """Return the contexts that were encoded, in new arrays.

        Raises:
            StoreCorruptError: if one of them is no context of this kind.
        """


class DenseCodec:
    """d numbers, f64.

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
    """Pairs of index i32 and value f64, as many as each context has.

    Args:
        size: d, which every index is below.
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
            raise StoreCorruptError("a stored context has a broken entry")
        pairs = np.frombuffer(parts, _PAIR)
        if ((pairs["index"] < 0) | (pairs["index"] >= self.size)).any():
            raise StoreCorruptError("a stored context has an index out of range")
        return Contexts.sparse(lengths // _PAIR.itemsize, pairs["index"], pairs["value"])
