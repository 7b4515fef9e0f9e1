"""Sparse contexts: indices below d, in any order, and their numbers."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
from pydantic import FailFast, Field

from learners.base import Contexts
from service.contexts.kind import (
    NUMBERS,
    BaseFeatures,
    ContextKind,
    Entry,
    FeatureEntry,
    Number,
    PlainNumbers,
    Precision,
    rounded,
    sparse_batch,
)
from service.error_messages.values import counted
from service.errors import ContextIndexError, ContextLengthError
from service.store.records.codecs import SparseCodec
from service.strict_body import Body


class SparseFeatures(BaseFeatures):
    """Contexts are objects with unique `indices` below `size`, and their `values`. All other numbers are zero."""

    kind: Literal["sparse"]
    size: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """d, one more than the largest allowed index."""
    precision: Precision = "float64"


class SparseContext(Body):
    """The non-zero numbers of a context, by index."""

    indices: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FailFast(), Field(min_length=1)]
    """Unique indices below the model's `size`."""
    values: Annotated[list[Number], FailFast(), Field(min_length=1)]
    """One for each index."""


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A `SparseContext`, for msgspec."""

    indices: Annotated[list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]], msgspec.Meta(min_length=1)]
    values: PlainNumbers


class SparseKind(ContextKind[SparseContext]):
    """Indices below d, in any order, and their numbers."""

    name = "sparse"
    features = SparseFeatures
    given = shown = type = SparseContext
    plain = _Plain
    form = 'an object with "indices" and "values" for sparse ones'
    example = '{"indices": [0], "values": [0.5]}'

    def __init__(self, features: SparseFeatures) -> None:
        self._size = features.size
        self.wanted = f'an object with "indices", integers from 0 to {self._size - 1}, and "values", numbers'
        self.codec = SparseCodec(self._size, NUMBERS[features.precision])
        self._rounds = features.precision != "float64"

    @staticmethod
    def claims(given: object) -> bool:
        """Claim an object that has `indices` and `values`, or nothing but one of them. Others are named features."""
        if type(given) is dict:  # faster than isinstance
            return ("indices" in given and "values" in given) or (
                len(given) == 1 and next(iter(given)) in ("indices", "values")
            )
        return type(given) is SparseContext

    @staticmethod
    def of_plain(context: _Plain) -> SparseContext:
        return SparseContext.model_construct(indices=context.indices, values=context.values)

    def checked(self, context: SparseContext) -> SparseContext:
        indices, values = context.indices, context.values
        if len(indices) != len(values):
            both = f"{counted(len(indices), 'indices', 'index')} and {counted(len(values), 'values')}"
            detail = f"got {both}; send one value for each index"
            raise ContextLengthError(detail, "context.indices")
        if max(indices) >= self._size:
            detail = f"got index {max(indices)}; the model's indices are integers from 0 to {self._size - 1}"
            raise ContextIndexError(detail, "context.indices")
        if len(set(indices)) < len(indices):
            repeated = next(one for one, other in pairwise(sorted(indices)) if one == other)
            raise ContextIndexError(f"got index {repeated} twice; indices must be unique", "context.indices")
        if self._rounds:
            return SparseContext.model_construct(indices=indices, values=rounded(self, context))
        return context

    def numbers(self, context: SparseContext) -> Sequence[float]:
        return context.values

    def entry(self, context: SparseContext, position: int) -> Entry:
        return Entry(str(context.indices[position]), f"context.values.{position}")

    def to_batch(self, contexts: Sequence[SparseContext]) -> Contexts:
        return sparse_batch(contexts)

    def fingerprinted(self, context: SparseContext) -> bytes:
        pairs = sorted(zip(context.indices, context.values, strict=True))
        return b"".join(struct.pack("<qd", *pair) for pair in pairs)

    def show(self, contexts: Contexts, i: int, sent: bytes) -> SparseContext:
        row = slice(contexts.starts[i], contexts.starts[i + 1])
        return SparseContext(indices=contexts.indices[row].tolist(), values=contexts.values[row].tolist())

    def feature_entries(self, context: SparseContext) -> list[FeatureEntry]:
        return [FeatureEntry(str(i), i, value) for i, value in zip(context.indices, context.values, strict=True)]
