"""Named features: objects of numbers, strings, booleans, lists of strings and objects, hashed to sparse vectors."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field, WithJsonSchema

from learners.base import Contexts, IntArray
from service import costs
from service.contexts.canonical import canonical
from service.contexts.hashing import HALF, combined, hash_of, hashes_of, indices_of, signs_of
from service.contexts.kind import BaseFeatures, ContextKind, Entry, FeatureEntry, Products, sparse_batch
from service.contexts.named_reader import Features, FieldSchema, NamedReader, NumberField
from service.error_messages.patterns import MOST_DEPTH, MOST_NAME
from service.error_messages.values import joined, quoted, shown
from service.errors import FeaturesError, NamespaceError, TooManyFeaturesError
from service.json_values import JsonObject
from service.store.records.codecs import SparseCodec

MOST_FEATURES = 4096  # maximum features of a context, interactions included

_SCHEMA = {
    "type": "object",
    "title": "NamedContext",
    "description": "Numbers, strings, booleans, null, lists of strings, or objects of these, by name.",
    "additionalProperties": True,
}

_Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Pair = Annotated[list[_Name], Field(min_length=2, max_length=2)]  # two namespaces that interact

_Feature: TypeAlias = tuple[str, float]


class _Factors(NamedTuple):
    """The features of two namespaces that interact, and the m pairs of them that are multiplied."""

    first: list[_Feature]
    second: list[_Feature]
    rows: IntArray  # (m,), positions in `first`
    columns: IntArray  # (m,), positions in `second`


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


class NamedContext(NamedTuple):
    """A context, and its vector before the norm policy, in order of indices."""

    sent: JsonObject
    indices: list[int]
    values: list[float]


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
        self._interactions = features.interactions or []
        self._own_products = sum(one == other for one, other in self._interactions)
        self._namespaces = {path.partition(".")[0] for path in features.fields or ()} if features.closed else None
        self.is_open = not (features.fields or features.closed or features.interactions)
        self._reader = NamedReader(features.fields or {}, features.closed)
        self.codec = SparseCodec(features.size)

    def check_new(self) -> None:
        fields, closed = self._features.fields or {}, self._features.closed
        if closed and not fields:
            raise FeaturesError("got true; must be false unless features.fields lists features", "features.closed")
        for path, field in fields.items():
            _check_field(path, field)
        for number, pair in enumerate(self._interactions):
            for position, namespace in enumerate(pair):
                self.check_namespace(namespace, "features", f"features.interactions.{number}.{position}")
            if pair in self._interactions[:number]:
                raise FeaturesError(f"got {shown(pair)} twice", f"features.interactions.{number}")

    @staticmethod
    def claims(given: object) -> bool:
        return type(given) is dict and bool(given)

    def cost_of(self, count: int) -> int:
        # The worst case of a pair: two namespaces that have half of the features each, or one that has all of them.
        own, others = self._own_products, len(self._interactions) - self._own_products
        most = own * (count * (count - 1) // 2) + others * (count * count // 4)
        return count * costs.CONTEXT_FEATURE + min(MOST_FEATURES, most) * costs.CONTEXT_PRODUCT

    def checked(self, context: JsonObject) -> NamedContext:
        spaces = self._reader.read(context)
        count = self._check_number(spaces)
        vector = self._vector(spaces)
        if len(vector) < count:  # collisions: the sums must not depend on the order of the members
            vector = self._vector({space: dict(sorted(spaces[space].items())) for space in sorted(spaces)})
        indices = sorted(vector)
        return NamedContext(context, indices, [vector[index] for index in indices])

    def _vector(self, spaces: Mapping[str, Features]) -> dict[int, float]:
        vector, size = dict[int, float](), self._size
        for features in spaces.values():
            for name, value in features.items():
                hashed = hash_of(name)
                index = hashed % HALF % size
                vector[index] = vector.get(index, 0.0) + (value if hashed < HALF else -value)
        for factors in self._factors(spaces):
            for index, value, _ in zip(*self._products(factors), strict=True):
                vector[index] = vector.get(index, 0.0) + value
        return vector

    def _in_order(self, context: object) -> dict[str, Features]:
        spaces = self._reader.read(self.typed(context))
        self._check_number(spaces)
        return {space: dict(sorted(spaces[space].items())) for space in sorted(spaces)}

    def factor_names(self, context: object) -> list[str]:
        spaces = self._in_order(context)
        products = chain.from_iterable(_product_names(factors) for factors in self._factors(spaces))
        return [*chain.from_iterable(spaces.values()), *products]

    def factors(self, context: object) -> tuple[dict[str, Features], Products]:
        spaces = self._in_order(context)
        found = [_product(factors) for factors in self._factors(spaces)]
        if not found:
            return spaces, Products(np.empty(0, np.uint64), np.empty(0))
        hashes, values = zip(*found, strict=True)
        return spaces, Products(np.concatenate(hashes), np.concatenate(values))

    def check_namespace(self, namespace: str, where: str, field: str) -> None:
        if "." in namespace:
            detail = f"got {quoted(namespace)}; must be a namespace: the first name of a path, without a dot"
            raise NamespaceError(detail, field)
        if self._namespaces is not None and namespace not in self._namespaces:
            names = joined(map(quoted, sorted(self._namespaces)), "or")
            detail = f"got {quoted(namespace)}; must be {names}, as {where}.closed is true"
            raise NamespaceError(detail, field)

    def _check_number(self, spaces: Mapping[str, Features]) -> int:
        pairs = [
            (len(spaces.get(one, ())), len(spaces.get(other, ())), one == other) for one, other in self._interactions
        ]
        count = sum(map(len, spaces.values())) + sum(n * (n - 1) // 2 if same else n * m for n, m, same in pairs)
        if count > MOST_FEATURES:
            detail = f"got {count} features, interactions included; must be at most {MOST_FEATURES}"
            raise TooManyFeaturesError(detail, "context")
        return count

    def _factors(self, spaces: Mapping[str, Features]) -> list[_Factors]:
        """Return the factors of each interaction that has products, by name if a namespace interacts with itself."""
        factors = []
        for one, other in self._interactions:
            first, second = (list(spaces.get(space, {}).items()) for space in (one, other))
            if one == other:
                first = second = sorted(first)
                rows, columns = np.triu_indices(len(first), 1)
            else:
                rows, columns = np.divmod(np.arange(len(first) * len(second)), max(1, len(second)))
            factors.append(_Factors(first, second, rows, columns))
        return [each for each in factors if len(each.rows)]

    def _products(self, factors: _Factors) -> tuple[list[int], list[float], list[int]]:
        hashes, values = _product(factors)
        signs = signs_of(hashes)
        return indices_of(hashes, self._size).tolist(), (signs * values).tolist(), signs.astype(int).tolist()

    def numbers(self, context: NamedContext) -> Sequence[float]:
        return context.values

    def entry(self, context: NamedContext, position: int) -> Entry:
        """Return the names of all features at the number's index, and the path of the value if there is only one."""
        first, *others = [part for part in self.feature_entries(context) if part.at == context.indices[position]]
        if others or not first.path:  # several features, or a product of two
            return Entry(joined([quoted(part.name) for part in (first, *others)], "and"), "context")
        return Entry(quoted(first.name), f"context.{first.path}", first.sign)

    def to_batch(self, contexts: Sequence[NamedContext]) -> Contexts:
        return sparse_batch(contexts)

    def fingerprinted(self, context: NamedContext) -> bytes:
        return canonical(context.sent)

    def sent(self, context: NamedContext) -> bytes:
        return json.dumps(context.sent, ensure_ascii=False, separators=(",", ":")).encode()

    def show(self, contexts: Contexts, i: int, sent: bytes) -> JsonObject:
        return dict(json.loads(sent))

    def feature_entries(self, context: NamedContext) -> list[FeatureEntry]:
        spaces, paths = self._reader.read(context.sent), dict(self._reader.paths(context.sent))
        found = [(name, value, hash_of(name)) for features in spaces.values() for name, value in features.items()]
        signed = [(name, value, hashed, 1 if hashed < HALF else -1) for name, value, hashed in found]
        parts = [
            FeatureEntry(name, h % HALF % self._size, sign * value, sign, paths[name])
            for name, value, h, sign in signed
        ]
        for factors in self._factors(spaces):
            parts += map(FeatureEntry, _product_names(factors), *self._products(factors))
        return parts


def _product_names(factors: _Factors) -> list[str]:
    names, others = ([name for name, _ in each] for each in factors[:2])
    return [f"{names[i]}*{others[j]}" for i, j in zip(factors.rows.tolist(), factors.columns.tolist(), strict=True)]


def _product(factors: _Factors) -> Products:
    (names, numbers), (others, values) = (zip(*each, strict=True) for each in factors[:2])
    rows, columns = factors.rows, factors.columns
    hashes = combined(hashes_of(names)[rows], hashes_of(others)[columns])
    return Products(hashes, np.array(numbers)[rows] * np.array(values)[columns])


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
