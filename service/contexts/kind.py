"""The interface of a kind of context. A new kind is a class in a new file of this folder, and in `registry.KINDS`."""

import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import isfinite
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from pydantic import BaseModel, Field

from learners.base import Contexts, FloatArray, IntArray
from service import costs
from service.contexts.hashing import Hashes
from service.error_messages.values import quoted, shown
from service.errors import ContextLengthError, MissingFieldError, NamespaceError, NotFiniteError
from service.json_values import JsonObject
from service.store.records.codecs import ContextCodec, VectorBlock
from service.strict_body import Body

Number = Annotated[float, Field(allow_inf_nan=False)]

_Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
PlainNumbers = Annotated[list[_Finite], msgspec.Meta(min_length=1)]  # a list of finite numbers, for msgspec


def without_default(schema: JsonObject) -> None:
    """Remove the default, such as one that depends on the learner, from a JSON Schema."""
    schema.pop("default", None)


class BaseFeatures(Body):
    """The features of a model, of any kind."""

    kind: str
    size: int
    """d, the number of features, without the intercept."""
    norm: Annotated[Literal["none", "unit", "scale", "reject"], Field(json_schema_extra=without_default)] = "unit"
    """`none` leaves contexts as they are. `scale` shortens those that are too long for `norm_bound`; `reject` refuses
    them; `unit` gives all of them the same length. The log keeps what was sent. The default is what the learner needs:
    see `norm` in `GET /learners`."""
    norm_bound: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """X, the norm that no context exceeds, unless `norm` is `none`; the theorems assume this bound. With an intercept,
    the constant is X/2, and no context exceeds 0.866 X. For adahedge, X is at most 1 and limits each number of a
    context individually."""
    intercept: Annotated[bool, Field(json_schema_extra=without_default)] = False
    """Whether the learner gets a constant feature in addition. By default it does, if it allows one."""

    @property
    def n_features(self) -> int:
        """The number of indices of a context's vector, without the intercept."""
        return self.size


class Entry(NamedTuple):
    """Where one number of a context comes from."""

    feature: str  # its index or, in quotes, its name
    field: str  # its path in the request
    sign: int = 1  # the sign by which the value sent was multiplied


class FeatureEntry(NamedTuple):
    """One feature of a context."""

    name: str
    at: int  # its index
    value: float  # with its sign, before the norm policy
    sign: int = 1
    path: str = ""  # of its value in a named context; empty for a product of features, which has none


class Parts(NamedTuple):
    """The m features of a named context, products included. Numbers of vectors are the last ones."""

    hashes: Hashes  # (m,)
    values: FloatArray  # (m,), without signs
    spaces: list[tuple[str, int]]  # the namespaces in order, with the number of their features; empty for products
    places: IntArray  # (m,), the index after the hashed ones of a vector's number; -1 for others; (0,) without vectors


Take: TypeAlias = Callable[[VectorBlock], list[float]]
"""Returns the numbers of a vector."""

MOST_COUNTED = 4096  # reading a named context with this many values always needs a thread

_NESTED = frozenset({dict, list})

_LARGEST_EXACT = 2**53  # every smaller integer is exactly a float

GivenT = TypeVar("GivenT")


class ContextKind(ABC, Generic[GivenT]):
    """One kind of context, for one model.

    Attributes:
        name: the value of `kind` in the features, whose schema is `features`.
        given: the schema of a context in a request.
        plain: the same schema for msgspec; None if only pydantic reads this kind.
        shown: the schema of a context in the log.
        type: the Python type of a parsed context.
        form: what clients send for this kind, such as "a list of numbers for dense features".
        wanted: what clients send to this model, such as "a list of 3 numbers".
        example: a valid context of this model in JSON.
        smaller: how to reduce the size of a model's features, as the end of an error message; empty if impossible.
        codec: encodes and decodes the stored bytes.
        has_features: False only for the kind of empty contexts.
        has_names: whether features have names and namespaces, so that they are hashed.
        blocks: the block of each vector field, by path.
        is_open: whether the model declares no fields, allows all names, and has no interactions; False without names.
    """

    name: ClassVar[str]
    features: ClassVar[type[BaseFeatures]]
    given: ClassVar[Any]
    shown: ClassVar[Any]
    type: ClassVar[type[Any]]
    plain: ClassVar[Any] = None
    form: ClassVar[str]
    wanted: str
    example: str
    codec: ContextCodec
    smaller: ClassVar[str] = ""
    has_features: ClassVar[bool] = True
    has_names: ClassVar[bool] = False
    blocks: Mapping[str, VectorBlock] = MappingProxyType({})
    is_open: bool = False

    @abstractmethod
    def __init__(self, features: object) -> None: ...

    @staticmethod
    @abstractmethod
    def claims(given: object) -> bool:
        """Check whether a JSON value or a parsed context looks like this kind."""

    @staticmethod
    def of_plain(context: Any) -> Any:
        """Convert a context that `plain` accepted to the parsed context that `given` would return."""
        return context

    def reading_cost(self, given: object) -> int:
        """Return the cost of `check`, or of reading an action's features, in multiply-adds."""
        return self.cost_of(values_in(given))

    def source_cost(self, source: bytes) -> int:
        """Return the cost of reading an action's features from their JSON, in multiply-adds."""
        return self.cost_of(source.count(b",") + 1)

    def cost_of(self, count: int) -> int:
        """Return the cost of reading `count` values, in multiply-adds."""
        return costs.CONTEXT_NUMBER * count

    def storing_cost(self, context: GivenT) -> int:
        """Return the cost of encoding a checked context, in multiply-adds."""
        return costs.STORED_NUMBER * self.size(context)

    def check(self, context: object) -> GivenT:
        """Return a parsed context in the checked form. Raises InvalidInputError if it does not fit the model."""
        return self.checked(self.typed(context))

    def typed(self, context: object) -> Any:
        """Return a parsed context unchanged if its type is that of this kind; otherwise raise as `check` does."""
        if context is None:
            raise MissingFieldError(f"missing; {self.hint}", "context")
        if not isinstance(context, self.type):
            given = shown(context if isinstance(context, dict) else _as_written(context))
            raise ContextLengthError(f"got {given}; {self.hint}", "context")
        return context

    @property
    def hint(self) -> str:
        """The kind of the model's features, and what to send."""
        return f"the model has {self.name} features: send {self.wanted}, such as {self.example}"

    def fit_together(self, contexts: Sequence[Any]) -> bool:
        """Return True only if `check` would accept all these parsed contexts and return them unchanged; a fast test."""
        return False

    @abstractmethod
    def checked(self, context: Any) -> GivenT:
        """Return the checked form of a parsed context that has the type of this kind; raise as `check` does."""

    @abstractmethod
    def numbers(self, context: GivenT) -> Sequence[float]:
        """Return the numbers of a checked context."""

    @abstractmethod
    def entry(self, context: GivenT, position: int) -> Entry:
        """Return where the number at a position of a checked context comes from."""

    def size(self, context: GivenT) -> int:
        """Return how many numbers a checked context has."""
        return len(self.numbers(context))

    @abstractmethod
    def to_batch(self, contexts: Sequence[GivenT]) -> Contexts:
        """Convert checked contexts to the arrays of the learners."""

    @abstractmethod
    def fingerprinted(self, context: GivenT) -> bytes:
        """Return bytes that are equal only for equal checked contexts."""

    @abstractmethod
    def show(self, contexts: Contexts, i: int, sent: bytes) -> Any:
        """Return the i-th logged context as the client sent it. `sent` is what the method `sent` returned for it."""

    @abstractmethod
    def feature_entries(self, context: GivenT) -> list[FeatureEntry]:
        """Return the features of a checked context. Values at the same index add up."""

    def parts(self, context: object) -> Parts:
        """Return a parsed context's features; raise as `check` does."""
        raise TypeError(f"{self.name} features have no names")

    def part_names(self, context: object) -> list[str]:
        """Return the names of a parsed context's features, in the order of `parts`."""
        return [part.name for part in self.feature_entries(self.check(context))]

    def check_namespace(self, namespace: str, where: str, field: str) -> None:
        """Raise NamespaceError, with the path `field`, if no context can have this namespace.

        `where` is the path of the features, for the message.
        """
        detail = f"got {quoted(namespace)}; {where} are {self.name}, and only features with names have namespaces"
        raise NamespaceError(detail, field)

    def sent(self, context: GivenT) -> bytes:
        """Return the JSON of a checked context, to store; empty if `show` needs only its numbers."""
        return b""

    def split(self, given: object) -> tuple[Any, bytes]:
        """Return a valid parsed context as JSON value without the numbers of vectors, and these numbers as bytes."""
        return given.model_dump() if isinstance(given, BaseModel) else {} if given is None else given, b""

    def ordered(self, given: object) -> tuple[Any, bytes]:
        """Do the same as `split`, but with the numbers in the order of their indices."""
        return self.split(given)

    def whole(self, stored: Any, take: Take) -> Any:
        """Return the JSON value of a context that `split` returned; `take` returns each vector in turn."""
        return stored

    def check_new(self) -> None:
        """Refuse features of a new model that contradict each other. Raises InvalidInputError with the field."""


def values_in(given: object) -> int:
    """Return the number of values in a parsed context, at any depth; counting may stop at `MOST_COUNTED` or above."""
    if type(given) is list or (type(given) is dict and _NESTED.isdisjoint(map(type, given.values()))):  # most are flat
        return len(given)
    if not isinstance(given, (dict, list)):
        return sum(map(len, vars(given).values())) if hasattr(given, "__dict__") else 1
    count, waiting = 0, [given]
    while waiting and count < MOST_COUNTED:
        each = waiting.pop()
        count += len(each)
        if type(each) is dict and not _NESTED.isdisjoint(map(type, each.values())):
            waiting += [value for value in each.values() if type(value) in _NESTED]
    return count


def _as_written(context: object) -> Any:
    if not isinstance(context, list):
        return vars(context)
    return [int(x) if abs(x) < _LARGEST_EXACT and x == int(x) else x for x in context]  # parsing has turned 1 into 1.0


def sparse_batch(contexts: Sequence[Any]) -> Contexts:
    """Convert contexts with `indices` and `values` to the arrays of the learners."""
    lengths = [len(context.indices) for context in contexts]
    indices = np.fromiter(chain.from_iterable([context.indices for context in contexts]), np.int64, sum(lengths))
    values = np.fromiter(chain.from_iterable([context.values for context in contexts]), np.float64, sum(lengths))
    return Contexts.sparse(lengths, indices, values)


Precision = Annotated[
    Literal["float64", "float32"],
    Field(
        description="With `float32`, each number of a context is rounded to single precision when it is read, and "
        "stored in half the bytes. The log shows the rounded numbers. Models with actions need `float64`."
    ),
]

NUMBERS = {"float64": "<f8", "float32": "<f4"}  # the dtype of a stored number

_LARGEST = 3.4e38  # approximately the largest float32


def rounded(kind: ContextKind[Any], context: object) -> list[float]:
    """Return the numbers of a checked context in single precision. Raises NotFiniteError if one is too large."""
    given = kind.numbers(context)
    numbers = array("f", given).tolist()
    if isfinite(sum(numbers)):  # faster than a check of each number
        return numbers
    position = [isfinite(number) for number in numbers].index(False)
    feature, field, _ = kind.entry(context, position)
    limits = f"must be between -{_LARGEST:g} and {_LARGEST:g}, as the model's features have the precision float32"
    raise NotFiniteError(f"got {shown(given[position])} for feature {feature}; {limits}", field)
