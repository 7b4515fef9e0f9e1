"""Sparse contexts: indices below d, in any order, and their numbers."""

import struct
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import FailFast, Field

from learners.base import Contexts
from service.contexts.kind import BaseFeatures, ContextKind, Entry, Number
from service.errors import ContextIndexError, ContextLengthError
from service.store.records.context_codec import SparseCodec
from service.strict_body import Body


class SparseFeatures(BaseFeatures):
    """Contexts are objects with `indices` below `size`, each once, and their `values`; the rest is zero."""

    kind: Literal["sparse"]
    size: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """d, one more than the largest index."""


class SparseContext(Body):
    """The non-zero numbers of a context, by index."""

    indices: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FailFast(), Field(min_length=1)]
    """Each below the model's `size`, and once."""
    values: Annotated[list[Number], FailFast(), Field(min_length=1)]
    """One for each index."""


class SparseKind(ContextKind[SparseContext]):
    """Indices below d, in any order, and their numbers."""

    name = "sparse"
    features = SparseFeatures
    given = shown = type = SparseContext
    form = "an object"
    wanted = "an object with indices and values"

    def __init__(self, features: SparseFeatures) -> None:
        self._size = features.size
        self.codec = SparseCodec(self._size)

    @classmethod
    def claims(cls, given: object) -> bool:
        """See `ContextKind.claims`."""
        return isinstance(given, dict | SparseContext)

    def numbers(self, context: SparseContext) -> Sequence[float]:
        """See `ContextKind.numbers`."""
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

    def entry(self, context: SparseContext, position: int) -> Entry:
        """See `ContextKind.entry`."""
        return Entry(context.indices[position], f"context.values.{position}")

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
