"""The kinds of context a model may have: how one is checked, gathered with others, fingerprinted and shown.

A new kind is a class here, its features in `service.schemas.features`, and a line in `context_kind`. How contexts are
stored is told in `service.store.records.records`.
"""

import struct
from collections.abc import Sequence
from typing import Any, Protocol

from learners.base import Contexts
from service.errors import ContextIndexError, ContextLengthError
from service.schemas.features import DenseFeatures, GivenContext, SparseContext, SparseFeatures


class ContextKind(Protocol):
    """One kind of context, for a model with d features."""

    def check(self, context: GivenContext) -> Sequence[float]:
        """The numbers of a context that fits the model.

        Raises:
            ContextLengthError: if it is of another kind, or has not as many numbers as it should.
            ContextIndexError: if an index is out of range, or there twice.
        """

    def size(self, context: Any) -> int:
        """How many numbers a checked context has."""

    def gather(self, contexts: Sequence[Any]) -> Contexts:
        """Checked contexts as the learners want them."""

    def fingerprinted(self, context: Any) -> bytes:
        """Bytes that are equal for equal contexts, and for no others."""

    def show(self, contexts: Contexts, i: int) -> GivenContext:
        """The i-th context as a client gives it."""


class DenseKind:
    """Lists of d numbers."""

    def __init__(self, size: int) -> None:
        self._size = size

    def check(self, context: GivenContext) -> Sequence[float]:
        """See `ContextKind.check`."""
        if isinstance(context, SparseContext):
            raise ContextLengthError(f"the model wants a list of {self._size} numbers", "context")
        if len(context) != self._size:
            detail = f"the context has {len(context)} numbers, the model {self._size} features"
            raise ContextLengthError(detail, "context")
        return context

    def size(self, context: list[float]) -> int:
        """See `ContextKind.size`."""
        return len(context)

    def gather(self, contexts: Sequence[list[float]]) -> Contexts:
        """See `ContextKind.gather`."""
        return Contexts.dense(contexts)

    def fingerprinted(self, context: list[float]) -> bytes:
        """See `ContextKind.fingerprinted`."""
        return struct.pack(f"<{len(context)}d", *context)

    def show(self, contexts: Contexts, i: int) -> list[float]:
        """See `ContextKind.show`."""
        shown: list[float] = contexts.values[contexts.starts[i] : contexts.starts[i + 1]].tolist()
        return shown


class SparseKind:
    """Indices below d, in any order, and their numbers."""

    def __init__(self, size: int) -> None:
        self._size = size

    def check(self, context: GivenContext) -> Sequence[float]:
        """See `ContextKind.check`."""
        if not isinstance(context, SparseContext):
            raise ContextLengthError("the model wants an object with indices and values", "context")
        indices = context.indices
        if len(indices) != len(context.values):
            detail = f"there are {len(indices)} indices for {len(context.values)} values"
            raise ContextLengthError(detail, "context.indices")
        if max(indices) >= self._size:
            raise ContextIndexError(
                f"index {max(indices)}, where the model has {self._size} features", "context.indices"
            )
        if len(set(indices)) < len(indices):
            raise ContextIndexError("an index is there twice", "context.indices")
        return context.values

    def size(self, context: SparseContext) -> int:
        """See `ContextKind.size`."""
        return len(context.values)

    def gather(self, contexts: Sequence[SparseContext]) -> Contexts:
        """See `ContextKind.gather`."""
        indices = [index for context in contexts for index in context.indices]
        values = [value for context in contexts for value in context.values]
        return Contexts.sparse([len(context.indices) for context in contexts], indices, values)

    def fingerprinted(self, context: SparseContext) -> bytes:
        """See `ContextKind.fingerprinted`."""
        pairs = sorted(zip(context.indices, context.values, strict=True))
        return b"".join(struct.pack("<qd", *pair) for pair in pairs)

    def show(self, contexts: Contexts, i: int) -> SparseContext:
        """See `ContextKind.show`."""
        row = slice(contexts.starts[i], contexts.starts[i + 1])
        return SparseContext(indices=contexts.indices[row].tolist(), values=contexts.values[row].tolist())


def context_kind(features: DenseFeatures | SparseFeatures) -> ContextKind:
    """The kind that a model's features ask for."""
    return DenseKind(features.size) if isinstance(features, DenseFeatures) else SparseKind(features.size)
