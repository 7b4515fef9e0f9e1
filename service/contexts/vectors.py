"""Vector fields of named features: lists of numbers, such as embeddings. Each has its own block of indices."""

from array import array
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from learners.base import Contexts, FloatArray
from learners.mathematics.preparation import LARGEST_NUMBER
from service.contexts.hashing import Hashes, combined, hash_of
from service.contexts.kind import NUMBERS, Take
from service.error_messages.values import counted, shown
from service.errors import FeatureTypeError, NotFiniteError, StoreCorruptError
from service.json_values import JsonMapping, JsonObject
from service.store.records.codecs import VectorBlock
from service.strict_body import Body

MOST_ENTRIES = 65_536
"""Maximum features of a context, or of an action in its context, vectors and products included. Each costs up to 150
nanoseconds, so that all take about as long as reading 4,096 names, and 12 bytes in the store."""


NO_NUMBERS = 0  # what replaces a vector in JSON whose numbers are stored elsewhere; no valid value of the field


class VectorField(Body):
    """A list of `size` numbers, such as an embedding. Its numbers have `size` indices after the hashed ones."""

    type: Literal["vector"]
    size: Annotated[int, Field(ge=1, le=MOST_ENTRIES)]
    """The length of the list."""
    precision: Literal["float64", "float32"] = "float64"
    """With `float32`, each number is rounded to single precision when it is read, and stored in half the bytes."""
    required: bool = False

    def wrong_type(self, value: object) -> str | None:
        """Return the wanted type, in words, if the value has another type; otherwise None."""
        return None if type(value) is list else f"a list of {counted(self.size, 'numbers')}"

    def wrong_value(self, value: list[Any]) -> str | None:
        """Return the reason why a list has a wrong length; None if it is right."""
        if len(value) == self.size:
            return None
        return f"got a list of {counted(len(value), 'numbers')}; must have {self.size:,}"


def blocks_of(fields: Mapping[str, Any]) -> dict[str, VectorBlock]:
    """Return the block of each vector field by path, in the order of paths, which is that of their indices."""
    blocks, start = dict[str, VectorBlock](), 0
    for path, field in sorted(fields.items()):
        if isinstance(field, VectorField):
            blocks[path] = VectorBlock(path, start, field.size, NUMBERS[field.precision])
            start += field.size
    return blocks


def read_numbers(block: VectorBlock, value: list[Any], field: str) -> FloatArray:
    """Return a list of the right length as numbers (size,), rounded to the field's precision.

    Raises `InvalidInputError` with the position of the first entry that is no number, or too large.
    """
    if not _NUMBERS.issuperset(map(type, value)):
        i = next(i for i, each in enumerate(value) if type(each) not in _NUMBERS)
        raise FeatureTypeError(f"got {shown(value[i])}; must be a number", f"{field}.{i}")
    numbers = _packed(value)
    if numbers is None or not np.abs(numbers).max() <= LARGEST_NUMBER:  # false for NaN, too
        i = next(i for i, each in enumerate(value) if not -LARGEST_NUMBER <= each <= LARGEST_NUMBER)
        limits = f"must be between -{LARGEST_NUMBER:g} and {LARGEST_NUMBER:g}"
        raise NotFiniteError(f"got {shown(value[i])}; {limits}", f"{field}.{i}")
    return numbers.astype(block.number).astype(np.float64)


_NUMBERS = frozenset({float, int})


def _packed(value: list[Any]) -> FloatArray | None:
    try:
        return np.frombuffer(array("d", value))  # faster than `np.array` of a list
    except OverflowError:
        return None


def number_hashes(block: VectorBlock) -> Hashes:
    """Return the hash of each number of a vector, (size,), from which those of its products are computed."""
    return combined(np.full(block.size, hash_of(block.path), np.uint64), np.arange(block.size, dtype=np.uint64))


def number_names(block: VectorBlock) -> list[str]:
    """Return the name of each number of a vector, such as `user.embedding[17]`."""
    return [f"{block.path}[{i}]" for i in range(block.size)]


def mapped(
    members: JsonMapping, blocks: Mapping[str, VectorBlock], change: Callable[[VectorBlock, Any], Any], above: str = ""
) -> JsonObject:
    """Return a copy of a valid object in which `change` has replaced each vector, in the order of members."""
    found = JsonObject()
    for name, value in members.items():
        path = above + name
        if path in blocks and value is not None:
            found[name] = change(blocks[path], value)
        else:
            found[name] = mapped(value, blocks, change, f"{path}.") if type(value) is dict else value
    return found


def from_row(contexts: Contexts, i: int, hashed: int) -> Take:
    """Return a function that takes vectors from context i; indices below `hashed` belong to no vector."""
    row = slice(contexts.starts[i], contexts.starts[i + 1])
    indices, values = contexts.indices[row], contexts.values[row]
    first = len(indices) - int((indices >= hashed).sum())  # vectors follow the other entries

    def take(block: VectorBlock) -> list[float]:
        at = first + int(np.searchsorted(indices[first:], hashed + block.start))
        if at == len(indices) or indices[at] != hashed + block.start:
            raise StoreCorruptError(f"a round lacks the numbers of {block.path}")
        numbers: list[float] = values[at : at + block.size].tolist()
        return numbers

    return take


def from_bytes(data: bytes) -> Take:
    """Return a function that takes one vector after the other from their joined bytes."""
    place = 0

    def take(block: VectorBlock) -> list[float]:
        nonlocal place
        dtype, start = np.dtype(block.number), place
        place += dtype.itemsize * block.size
        if place > len(data):
            raise StoreCorruptError(f"a round lacks the numbers of {block.path}")
        numbers: list[float] = np.frombuffer(data, dtype, block.size, start).astype(np.float64).tolist()
        return numbers

    return take
