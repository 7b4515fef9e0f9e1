"""Declarations of named features, and the reader that converts a context to names and numbers."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import Field

from learners.base import FloatArray
from learners.mathematics.preparation import LARGEST_NUMBER
from service import errors
from service.contexts.kind import Number
from service.contexts.vectors import VectorField, blocks_of, read_numbers
from service.error_messages.patterns import MOST_DEPTH, MOST_NAME, MOST_TEXT
from service.error_messages.values import choices, quoted, shown
from service.json_values import JsonMapping
from service.strict_body import Body

_Values = Annotated[list[str], Field(min_length=1, max_length=10_000)]


class _Field(Body):
    _wanted: ClassVar[str]
    _types: ClassVar[tuple[type[Any], ...]]

    def wrong_type(self, value: object) -> str | None:
        """Return the wanted type, in words, if the value has another type; otherwise None."""
        return None if type(value) in self._types else self._wanted

    def wrong_value(self, value: Any) -> str | None:
        """Return the reason why a value of the right type is invalid; None if it is valid."""
        return None


class NumberField(_Field):
    """A number, within a range."""

    _wanted, _types = "a number", (float, int)

    type: Literal["number"]
    minimum: Number | None = None
    maximum: Number | None = None
    required: bool = False

    def wrong_value(self, value: float) -> str | None:
        low, high = self.minimum, self.maximum
        if (low is None or value >= low) and (high is None or value <= high):
            return None
        limits = {"at least": low, "at most": high}
        named = [f"{words} {limit:g}" for words, limit in limits.items() if limit is not None]
        return f"got {shown(value)}; must be {' and '.join(named)}"


class StringField(_Field):
    """A string, or one of a list of strings."""

    _wanted, _types = "a string", (str,)

    type: Literal["string"]
    values: _Values | None = None
    required: bool = False

    def wrong_value(self, value: str) -> str | None:
        return _not_among(self.values, value)


class BooleanField(_Field):
    """True or false."""

    _wanted, _types = "true or false", (bool,)

    type: Literal["boolean"]
    required: bool = False


class StringsField(_Field):
    """A list of strings."""

    _wanted, _types = "a list of strings", (list,)

    type: Literal["strings"]
    values: _Values | None = None
    required: bool = False

    def wrong_value(self, value: list[Any]) -> str | None:
        found = (_not_among(self.values, each) for each in value if type(each) is str)
        return next((wrong for wrong in found if wrong is not None), None)


FieldSchema: TypeAlias = Annotated[
    NumberField | StringField | BooleanField | StringsField | VectorField, Field(discriminator="type")
]


def _not_among(values: list[str] | None, value: str) -> str | None:
    if values is None or value in values:
        return None
    return f"got {quoted(value)}; {choices(value, tuple(values), 'allowed values')}"


_SURROGATE = re.compile("[\ud800-\udfff]")  # characters that UTF-8 cannot encode

Features: TypeAlias = dict[str, float]  # the features of one namespace: numbers by name


class Found(NamedTuple):
    """The features of a context."""

    spaces: dict[str, Features]  # of each namespace, without vectors
    vectors: dict[str, FloatArray]  # the numbers of each vector, (size,), by path and in the order of paths


class NamedReader:
    """Reads the contexts of a model. `fields` declares features by path; if `closed`, all others are refused."""

    def __init__(self, fields: Mapping[str, FieldSchema], closed: bool) -> None:
        self._fields = fields
        self._closed = closed
        self.blocks = blocks_of(fields)
        self._required = [path for path, field in fields.items() if field.required]
        self._namespaces = {path[:i] for path in fields for i, letter in enumerate(path) if letter == "."}

    def read(self, context: JsonMapping) -> Found:
        """Return the features of a context. Raises InvalidInputError with the invalid field."""
        found = Found({}, {})
        for name, value in context.items():
            features: Features = found.spaces.setdefault(name.partition(".")[0], {})
            self._read(name, value, features, found.vectors, 1)
        given = set(_given(context)) if self._required else set()
        for path in self._required:
            if path not in given:
                raise errors.MissingFeatureError("missing; the model's features require it", _field(path))
        return Found(found.spaces, dict(sorted(found.vectors.items()))) if len(found.vectors) > 1 else found

    def paths(self, context: JsonMapping, above: str = "") -> Iterator[tuple[str, str]]:
        """Yield the name of each feature of a valid context, without vectors, and the path of its value."""
        for name, value in context.items():
            path = above + name
            if type(value) is dict:
                yield from self.paths(value, f"{path}.")
            elif path not in self.blocks:
                features = Features()
                self._read(path, value, features, {}, 1)
                yield from ((feature, path) for feature in features)

    def _read(self, path: str, value: Any, features: Features, vectors: dict[str, FloatArray], depth: int) -> None:
        _check_name(path)
        if self._fields or self._closed:
            self._check(path, value)
            if path in self.blocks and value is not None:
                if path in vectors:
                    raise _twice(path)
                vectors[path] = read_numbers(self.blocks[path], value, _field(path))
                return
        kind = type(value)
        if kind is str:
            _add(features, f"{path}={_text(path, value)}", 1.0, path)
        elif kind is float or kind is int:
            _add(features, path, _number(path, value), path)
        elif kind is bool:
            _add(features, f"{path}={'true' if value else 'false'}", 1.0, path)
        elif kind is dict:
            self._read_members(path, value, features, vectors, depth)
        elif kind is list:
            for position, text in enumerate(value):
                features[f"{path}={_text(path, text, position)}"] = 1.0

    def _read_members(
        self, path: str, members: JsonMapping, features: Features, vectors: dict[str, FloatArray], depth: int
    ) -> None:
        if depth == MOST_DEPTH:
            raise errors.FeatureNameError(f"got objects in more than {MOST_DEPTH} levels", _field(path))
        for name, value in members.items():
            if not name:
                raise errors.FeatureNameError("got an empty name; must have 1 character or more", _field(path))
            self._read(f"{path}.{name}", value, features, vectors, depth + 1)

    def _check(self, path: str, value: Any) -> None:
        field = self._fields.get(path)
        if field is None:
            if self._closed and not (path in self._namespaces and (value is None or type(value) is dict)):
                detail = f"the model has no such feature; {choices(path, tuple(self._fields), 'its features')}"
                raise errors.UnknownFeatureError(detail, _field(path))
        elif value is not None:
            wanted = field.wrong_type(value)
            if wanted is not None:
                raise errors.FeatureTypeError(f"got {shown(value)}; must be {wanted}", _field(path))
            if type(value) is float:
                _check_finite(path, value)
            wrong = field.wrong_value(value)
            if wrong is not None:
                raise errors.FeatureValueError(wrong, _field(path))


def _field(path: str) -> str:
    return f"context.{path}"


def _check_name(path: str) -> None:
    if not 0 < len(path) <= MOST_NAME:
        detail = f"got a name of {len(path)} characters, with its namespaces; must have 1 to {MOST_NAME}"
        raise errors.FeatureNameError(detail, _field(path if len(path) <= MOST_NAME else f"{path[:MOST_NAME]}…"))
    if not _is_text(path):
        raise errors.FeatureNameError(f"got {shown(path)}; must be Unicode without half a surrogate pair", "context")


def _add(features: Features, name: str, value: float, path: str) -> None:
    if name in features:
        raise _twice(path)
    features[name] = value


def _twice(path: str) -> errors.InvalidInputError:
    return errors.FeatureNameError("got this name twice; a dot in a name is the same as nesting", _field(path))


def _number(path: str, value: float) -> float:
    if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        _check_finite(path, value)
        return LARGEST_NUMBER if value > 0 else -LARGEST_NUMBER
    return float(value)


def _check_finite(path: str, value: float) -> None:
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        finite = False
    if not finite:
        raise errors.NotFiniteError(f"got {shown(value)}; must be a finite number", _field(path))


def _text(path: str, text: object, position: int | None = None) -> str:
    field = _field(path) if position is None else f"{_field(path)}.{position}"
    if type(text) is not str:
        wanted = "must be a string; a list of numbers needs a field of type vector in the model's features"
        raise errors.FeatureTypeError(f"got {shown(text)}; {wanted}", field)
    if len(text) > MOST_TEXT:
        raise errors.FeatureValueError(f"got {quoted(text)}; must have at most {MOST_TEXT} characters", field)
    if not _is_text(text):
        raise errors.FeatureValueError(f"got {shown(text)}; must be Unicode without half a surrogate pair", field)
    return text


def _is_text(text: str) -> bool:
    return text.isascii() or not _SURROGATE.search(text)


def _given(members: JsonMapping, above: str = "") -> Iterator[str]:
    """Yield the path of each value that is neither null nor an object."""
    for name, value in members.items():
        if type(value) is dict:
            yield from _given(value, f"{above}{name}.")
        elif value is not None:
            yield above + name
