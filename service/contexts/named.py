"""Named features: objects of numbers, strings, booleans, lists and objects, hashed to sparse vectors."""

import json
from array import array
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, WithJsonSchema

from learners.base import Contexts, FloatArray, IntArray
from service import costs
from service.contexts.canonical import canonical
from service.contexts.hashing import HALF, Hashes, hash_of, hashes_of, indices_of, signs_of
from service.contexts.interactions import Interactions, added_up, namespace_of
from service.contexts.kind import (
    MOST_COUNTED,
    BaseFeatures,
    ContextKind,
    Entry,
    FeatureEntry,
    Parts,
    Take,
    sparse_batch,
)
from service.contexts.named_reader import FieldSchema, Found, NamedReader, NumberField
from service.contexts.vectors import (
    MOST_ENTRIES,
    NO_NUMBERS,
    VectorField,
    from_row,
    mapped,
    number_names,
)
from service.error_messages.patterns import MOST_DEPTH, MOST_NAME
from service.error_messages.values import joined, quoted, shown
from service.errors import FeaturesError, NamespaceError, TooManyFeaturesError
from service.json_values import JsonObject
from service.store.records.codecs import SparseCodec, VectorBlock, VectorCodec

MOST_FEATURES = 4096  # maximum features of a context, interactions included, without those of vectors
MOST_INDEX = 2**31 - 1  # maximum number of indices of a vector

_SCHEMA = {
    "type": "object",
    "title": "NamedContext",
    "description": "Numbers, strings, booleans, null, lists of strings, vectors, or objects of these, by name.",
    "additionalProperties": True,
}

_Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Pair = Annotated[list[_Name], Field(min_length=2, max_length=2)]  # two namespaces that interact


class NamedFeatures(BaseFeatures):
    """Contexts are objects of named values, hashed to `size` numbers. The first name of a path is its namespace."""

    kind: Literal["named"]
    size: Annotated[int, Field(ge=1, le=2**31 - 1)] = 2**18
    """The number of indices that features are hashed to. The more, the fewer features share one."""
    fields: Annotated[dict[_Name, FieldSchema], Field(max_length=1000)] | None = None
    """The types and allowed values of features, by path, such as `user.age`. Features that are not listed are allowed
    too, unless `closed` is true."""
    closed: bool = False
    """Whether to refuse features that `fields` does not list."""
    interactions: Annotated[list[Pair], Field(max_length=64)] | None = None
    """Pairs of namespaces. Each product of a feature of the first and a feature of the second is a feature too. A pair
    of a namespace with itself has each product of two different features once."""

    @property
    def n_features(self) -> int:
        return self.size + vector_numbers(self)


def vector_numbers(features: BaseFeatures) -> int:
    """Return how many numbers all vectors of some features have."""
    fields = getattr(features, "fields", None) or {}
    return sum(field.size for field in fields.values() if isinstance(field, VectorField))


class NamedContext(NamedTuple):
    """A context, and its vector before the norm policy, in order of indices."""

    sent: JsonObject
    indices: list[int] | IntArray
    values: list[float] | FloatArray
    hashed: int  # the number of entries that do not belong to vectors


class NamedKind(ContextKind[NamedContext]):
    """Objects of named values."""

    name = "named"
    has_names = True
    features = NamedFeatures
    given = shown = Annotated[JsonObject, WithJsonSchema(_SCHEMA)]
    type = dict
    form = "an object of names and values for named ones"
    wanted = "an object of names and values"
    example = '{"age": 41, "country": "FR", "tags": ["new", "mobile"]}'
    smaller = " or choose a smaller features.size"

    def __init__(self, features: NamedFeatures) -> None:
        self._features = features
        self._size = features.size
        self._namespaces = {namespace_of(path) for path in features.fields or ()} if features.closed else None
        self.is_open = not (features.fields or features.closed or features.interactions)
        self._reader = NamedReader(features.fields or {}, features.closed)
        self.blocks = self._reader.blocks
        self._interactions = Interactions(features.interactions or [], self.blocks)
        self._in_vectors = added_up((namespace_of(path), block.size) for path, block in self.blocks.items())
        self.codec = VectorCodec(features.size, self.blocks) if self.blocks else SparseCodec(features.size)

    def check_new(self) -> None:
        fields, closed = self._features.fields or {}, self._features.closed
        if closed and not fields:
            raise FeaturesError("got true; must be false unless features.fields lists features", "features.closed")
        for path, field in fields.items():
            _check_field(path, field)
        self._check_blocks()
        pairs = self._features.interactions or []
        for number, pair in enumerate(pairs):
            for position, namespace in enumerate(pair):
                self.check_namespace(namespace, "features", f"features.interactions.{number}.{position}")
            if pair in pairs[:number]:
                raise FeaturesError(f"got {shown(pair)} twice", f"features.interactions.{number}")

    def _check_blocks(self) -> None:
        for path, block in self.blocks.items():
            if self._size + block.start + block.size > MOST_INDEX:
                most = f"must be at most {MOST_INDEX:,}"
                detail = f"got {self._size + block.start + block.size:,} indices, those of vectors included; {most}"
                raise FeaturesError(detail, f"features.fields.{path}.size")
        total = self._interactions.total(self._in_vectors)
        if total > MOST_ENTRIES:
            field = "interactions" if sum(self._in_vectors.values()) <= MOST_ENTRIES else "fields"
            detail = f"got vectors of {total:,} numbers, their products included; must be at most {MOST_ENTRIES:,}"
            raise FeaturesError(detail, f"features.{field}")

    @staticmethod
    def claims(given: object) -> bool:
        return type(given) is dict and bool(given)

    def reading_cost(self, given: object) -> int:
        if not self.blocks or type(given) is not dict:
            return super().reading_cost(given)
        names, lists, numbers = _sizes(given)
        return self.cost_of(names) + lists * costs.VECTOR + numbers * costs.CONTEXT_NUMBER

    def source_cost(self, source: bytes) -> int:
        if not self.blocks:
            return super().source_cost(source)
        names = source.count(b'"') // 2  # numbers of vectors have none
        return self.cost_of(names) + len(self.blocks) * costs.VECTOR + source.count(b",") * costs.CONTEXT_NUMBER

    def cost_of(self, count: int) -> int:
        # The worst case of a pair: two namespaces that have half of the features each, or one that has all of them.
        pairs = self._interactions.pairs
        own = sum(one == other for one, other in pairs)
        others = len(pairs) - own
        most = own * (count * (count - 1) // 2) + others * (count * count // 4)
        vectors = self._in_vectors
        with_vectors = sum(
            (vectors.get(one, 0) + count) * (vectors.get(other, 0) + count)
            for one, other in pairs
            if one in vectors or other in vectors
        )
        cost = count * costs.CONTEXT_FEATURE + min(MOST_FEATURES, most) * costs.CONTEXT_PRODUCT
        return cost + min(MOST_ENTRIES, with_vectors) * costs.VECTOR_PRODUCT

    def storing_cost(self, context: NamedContext) -> int:
        names = min(context.hashed, MOST_FEATURES)  # the other entries are numbers of vectors and their products
        return names * costs.STORED_FEATURE + (len(context.indices) - names) * costs.STORED_NUMBER

    def checked(self, context: JsonObject) -> NamedContext:
        found = self._reader.read(context)
        count = self._check_number(found)
        if not found.vectors:
            return NamedContext(context, *self._added_up(found, count))
        many = self._many_added_up if self._interactions.pairs else self._added_up
        indices, values, hashed = many(found, count)
        own = np.concatenate([np.array(indices, np.int64), self._places(found) + self._size])
        return NamedContext(context, own, np.concatenate([values, *found.vectors.values()]), hashed)

    def _added_up(self, found: Found, count: int) -> tuple[list[int], list[float], int]:
        """Return the indices of hashed features, the sum at each, and their number. `count` is that of the features."""
        vector = self._vector(found)
        if len(vector) < count:  # collisions: the sums must not depend on the order of the members
            vector = self._vector(_in_order(found))
        indices = sorted(vector)
        return indices, [vector[index] for index in indices], len(indices)

    def _many_added_up(self, found: Found, _: int) -> tuple[IntArray, FloatArray, int]:
        """Do the same as `_added_up`, faster for thousands of products."""
        hashes, values, _spaces = self._hashed(_in_order(found))
        indices, entries = np.unique(indices_of(hashes, self._size), return_inverse=True)
        sums = np.bincount(entries, signs_of(hashes) * values, len(indices)).astype(np.float64)
        return indices, sums, len(indices)

    def _vector(self, found: Found) -> dict[int, float]:
        vector, size = dict[int, float](), self._size
        for features in found.spaces.values():
            for name, value in features.items():
                hashed = hash_of(name)
                index = hashed % HALF % size
                vector[index] = vector.get(index, 0.0) + (value if hashed < HALF else -value)
        for hashes, values in self._interactions.products(found):
            signed = (signs_of(hashes) * values).tolist()
            for index, value in zip(indices_of(hashes, size).tolist(), signed, strict=True):
                vector[index] = vector.get(index, 0.0) + value
        return vector

    def _places(self, found: Found) -> IntArray:
        """Return the place of each number of a context's vectors."""
        return np.concatenate([np.empty(0, np.int64), *(self._block_places[path] for path in found.vectors)])

    @cached_property
    def _block_places(self) -> dict[str, IntArray]:
        return {path: np.arange(block.size) + block.start for path, block in self.blocks.items()}

    def part_names(self, context: object) -> list[str]:
        return self._names(_in_order(self._reader.read(self.typed(context))))

    def _names(self, found: Found) -> list[str]:
        numbers = chain.from_iterable(number_names(self.blocks[path]) for path in found.vectors)
        return [*chain.from_iterable(found.spaces.values()), *self._interactions.product_names(found), *numbers]

    def parts(self, context: object) -> Parts:
        found = self._reader.read(self.typed(context))
        self._check_number(found)
        return self._parts(_in_order(found))

    def _hashed(self, found: Found) -> tuple[Hashes, FloatArray, list[tuple[str, int]]]:
        """Return the hash and the number of each name, then of each product, and how many each namespace has."""
        hashes = [hashes_of(list(chain.from_iterable(found.spaces.values())))]
        values = [np.array(list(chain.from_iterable(each.values() for each in found.spaces.values())), np.float64)]
        for product_hashes, product_values in self._interactions.products(found):
            hashes.append(product_hashes)
            values.append(product_values)
        products = sum(map(len, values[1:]))
        spaces = [(space, len(features)) for space, features in found.spaces.items()]
        return np.concatenate(hashes), np.concatenate(values), [*spaces, ("", products)]

    def _parts(self, found: Found) -> Parts:
        hashes, values, spaces = self._hashed(found)
        if not self.blocks:
            return Parts(hashes, values, spaces, np.empty(0, np.int64))
        numbers, vectors = self._interactions.hashes_of_vectors(found.vectors), found.vectors
        return Parts(
            np.concatenate([hashes, *numbers]),
            np.concatenate([values, *vectors.values()]),
            [*spaces, *((namespace_of(path), len(each)) for path, each in vectors.items())],
            np.concatenate([np.full(len(values), -1), self._places(found)]),
        )

    def check_namespace(self, namespace: str, where: str, field: str) -> None:
        if "." in namespace:
            detail = f"got {quoted(namespace)}; must be a namespace: the first name of a path, without a dot"
            raise NamespaceError(detail, field)
        if self._namespaces is not None and namespace not in self._namespaces:
            names = joined(map(quoted, sorted(self._namespaces)), "or")
            detail = f"got {quoted(namespace)}; must be {names}, as {where}.closed is true"
            raise NamespaceError(detail, field)

    def _check_number(self, found: Found) -> int:
        """Return the number of features without those of vectors, but with all products."""
        lengths = {space: len(features) for space, features in found.spaces.items()}
        count = self._interactions.total(lengths)
        if count > MOST_FEATURES:
            detail = f"got {count} features, interactions included; must be at most {MOST_FEATURES}"
            raise TooManyFeaturesError(detail, "context")
        if not found.vectors:
            return count
        vectors = [(namespace_of(path), len(numbers)) for path, numbers in found.vectors.items()]
        total = self._interactions.total(added_up(chain(lengths.items(), vectors)))
        if total > MOST_ENTRIES:
            detail = f"got {total:,} features, vectors and interactions included; must be at most {MOST_ENTRIES:,}"
            raise TooManyFeaturesError(detail, "context")
        return total - sum(size for _, size in vectors)

    def numbers(self, context: NamedContext) -> Sequence[float]:
        values: list[float] = context.values.tolist() if isinstance(context.values, np.ndarray) else context.values
        return values

    def size(self, context: NamedContext) -> int:
        return len(context.values)

    def entry(self, context: NamedContext, position: int) -> Entry:
        """Return the names of all features at the number's index, and the path of the value if there is only one."""
        first, *others = [part for part in self.feature_entries(context) if part.at == context.indices[position]]
        if others or not first.path:  # several features, or a product of two
            return Entry(joined([quoted(part.name) for part in (first, *others)], "and"), "context")
        return Entry(quoted(first.name), f"context.{first.path}", first.sign)

    def to_batch(self, contexts: Sequence[NamedContext]) -> Contexts:
        if not self.blocks:
            return sparse_batch(contexts)
        starts = np.cumsum([0, *(len(each.indices) for each in contexts)])
        indices = np.concatenate([np.asarray(each.indices, np.int64) for each in contexts])
        return Contexts(starts, indices, np.concatenate([np.asarray(each.values) for each in contexts]), False)

    def fingerprinted(self, context: NamedContext) -> bytes:
        stored = self._without_numbers(context.sent)
        numbers = context.values[context.hashed :] if self.blocks else ()
        return canonical(stored) + (np.asarray(numbers) + 0.0).tobytes()  # -0.0 + 0.0 is 0.0

    def sent(self, context: NamedContext) -> bytes:
        return json.dumps(self._without_numbers(context.sent), ensure_ascii=False, separators=(",", ":")).encode()

    def show(self, contexts: Contexts, i: int, sent: bytes) -> JsonObject:
        return self.whole(json.loads(sent), from_row(contexts, i, self._size))

    def _without_numbers(self, context: JsonObject) -> JsonObject:
        return mapped(context, self.blocks, lambda *_: NO_NUMBERS) if self.blocks else context

    def split(self, given: Any) -> tuple[JsonObject, bytes]:
        if not self.blocks:
            return given or {}, b""
        parts = list[bytes]()

        def cut(block: VectorBlock, value: Any) -> int:
            parts.append(np.array(array("d", value), block.number).tobytes())
            return NO_NUMBERS

        return mapped(given or {}, self.blocks, cut), b"".join(parts)

    def ordered(self, given: Any) -> tuple[JsonObject, bytes]:
        vectors = {path: np.zeros(0) for path in self.blocks}

        def cut(block: VectorBlock, value: Any) -> int:
            vectors[block.path] = np.array(array("d", value)).astype(block.number).astype(np.float64)
            return NO_NUMBERS

        stored = mapped(given or {}, self.blocks, cut) if self.blocks else given or {}
        return stored, b"".join([(numbers + 0.0).tobytes() for numbers in vectors.values()])  # -0.0 + 0.0 is 0.0

    def whole(self, stored: JsonObject, take: Take) -> JsonObject:
        return mapped(stored, self.blocks, lambda block, _: take(block)) if self.blocks else dict(stored)

    def feature_entries(self, context: NamedContext) -> list[FeatureEntry]:
        found, of_names = self._reader.read(context.sent), dict(self._reader.paths(context.sent))
        hashes, values, _ = self._hashed(found)
        hashed, numbers = len(hashes), [float(x) for each in found.vectors.values() for x in each]
        indices = np.concatenate([indices_of(hashes, self._size), self._places(found) + self._size])
        signs = np.concatenate([signs_of(hashes), np.ones(len(numbers))])
        values = np.concatenate([values, numbers])
        paths = [of_names[name] for name in chain.from_iterable(found.spaces.values())]
        paths += [""] * (hashed - len(paths))  # products have no path
        paths += [f"{path}.{i}" for path, each in found.vectors.items() for i in range(len(each))]
        columns = indices.tolist(), (signs * values).tolist(), signs.astype(int).tolist(), paths
        return list(map(FeatureEntry, self._names(found), *columns))


def _in_order(found: Found) -> Found:
    return Found({space: dict(sorted(found.spaces[space].items())) for space in sorted(found.spaces)}, found.vectors)


def _check_field(path: str, field: FieldSchema) -> None:
    steps = path.split(".")
    if not all(steps) or len(steps) > MOST_DEPTH:
        detail = f"must be names joined by dots, at most {MOST_DEPTH}, none of them empty"
        raise FeaturesError(f"got {quoted(path)}; {detail}", f"features.fields.{path}")
    if isinstance(field, NumberField) and field.minimum is not None and field.maximum is not None:
        low, high = field.minimum, field.maximum
        if low > high:
            detail = f"got {shown(low)}; must be at most the maximum, {shown(high)}"
            raise FeaturesError(detail, f"features.fields.{path}.minimum")


def _sizes(given: JsonObject) -> tuple[int, int, int]:
    """Return how many names a parsed context has, at any depth, how many lists of numbers, and how many numbers."""
    names, lists, numbers, waiting = 0, 0, 0, [given]
    while waiting and names < MOST_COUNTED:
        members = waiting.pop().values()
        names += len(members)
        for value in members:
            if type(value) is dict:
                waiting.append(value)
            elif type(value) is list and value and type(value[0]) is not str:
                lists, numbers = lists + 1, numbers + len(value)
            elif type(value) is list:
                names += len(value)
    return names, lists, numbers
