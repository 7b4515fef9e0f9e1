"""Dense contexts: lists of d numbers."""

import struct
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from learners.base import Contexts, IntArray
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
)
from service.error_messages.values import counted
from service.errors import ContextLengthError
from service.store.records.codecs import DenseCodec
from service.strict_body import FirstError


class DenseFeatures(BaseFeatures):
    """Contexts are lists of `size` numbers."""

    kind: Literal["dense"]
    size: Annotated[int, Field(ge=1, le=1_000_000)]
    """d, the length of every context."""
    precision: Precision = "float64"


class DenseKind(ContextKind[list[float]]):
    """Lists of d numbers."""

    name = "dense"
    features = DenseFeatures
    given = Annotated[list[Number], FirstError(), Field(min_length=1)]
    shown = list[float]
    type = list
    plain = PlainNumbers
    form = "a list of numbers for dense features"

    def __init__(self, features: DenseFeatures) -> None:
        self._size = features.size
        self.wanted = f"a list of {counted(self._size, 'numbers')}"
        self.example = _example(self._size)
        self.codec = DenseCodec(self._size, NUMBERS[features.precision])
        self._rounds = features.precision != "float64"
        self._pack = struct.Struct(f"<{self._size}d").pack
        self._one = np.array([0, self._size])  # `starts` of a batch of one

    @staticmethod
    def claims(given: object) -> bool:
        return isinstance(given, list)

    def check(self, context: object) -> list[float]:
        if type(context) is list and len(context) == self._size and not self._rounds:
            return context
        return super().check(context)

    def reading_cost(self, given: object) -> int:
        return self.cost_of(len(given)) if type(given) is list else super().reading_cost(given)

    def checked(self, context: list[float]) -> list[float]:
        if len(context) != self._size:
            raise ContextLengthError(f"got a list of {counted(len(context), 'numbers')}; {self.hint}", "context")
        return rounded(self, context) if self._rounds else context

    def fit_together(self, contexts: Sequence[Any]) -> bool:
        alike = set(map(type, contexts)) == {list} and set(map(len, contexts)) == {self._size}
        return alike and not self._rounds

    def numbers(self, context: list[float]) -> Sequence[float]:
        return context

    def entry(self, context: list[float], position: int) -> Entry:
        return Entry(str(position), f"context.{position}")

    def to_batch(self, contexts: Sequence[list[float]]) -> Contexts:
        packed = bytearray().join([self._pack(*context) for context in contexts])  # faster than `np.array` of lists
        starts = self._one if len(contexts) == 1 else np.arange(len(contexts) + 1) * self._size
        return Contexts(starts, self._indices, np.frombuffer(packed), True)

    @cached_property
    def _indices(self) -> IntArray:
        return np.arange(self._size)

    def fingerprinted(self, context: list[float]) -> bytes:
        return struct.pack(f"<{len(context)}d", *context)

    def show(self, contexts: Contexts, i: int, sent: bytes) -> list[float]:
        return list(contexts.values[contexts.starts[i] : contexts.starts[i + 1]].tolist())

    def feature_entries(self, context: list[float]) -> list[FeatureEntry]:
        return [FeatureEntry(str(i), i, value) for i, value in enumerate(context)]


def _example(size: int) -> str:
    numbers = ["0.5", "-1", "0.25"][:size]
    return f"[{', '.join(numbers if size <= len(numbers) else [*numbers, '…'])}]"
