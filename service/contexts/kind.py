"""What a kind of context is. A new one is a class in a file of this folder, and a name in `registry.KINDS`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from learners.base import Contexts
from service.errors import ContextLengthError
from service.store.records.context_codec import ContextCodec
from service.strict_body import Body
from service.wording.values import shown

Number = Annotated[float, Field(allow_inf_nan=False)]


def _without_default(schema: dict[str, Any]) -> None:
    # It depends on the learner; "unit" is what a stored definition without it means.
    schema.pop("default", None)


Norm = Annotated[
    Literal["unit", "scale", "reject"],
    Field(
        description="`unit` divides each context by its norm; `scale` only one longer than `norm_bound`; `reject` "
        "refuses that. Without it, what the learner needs: see `norm` in `GET /learners`.",
        json_schema_extra=_without_default,
    ),
]
NormBound = Annotated[
    float,
    Field(
        ge=1e-6,
        le=1e6,
        description="X, the norm that no context exceeds: the theorems assume it. With `unit`, the norm that each "
        "gets. Of adahedge, at most 1, and on each number by itself.",
    ),
]


class BaseFeatures(Body):
    """The features of a model, of whatever kind."""

    kind: str
    size: int
    """d, the number of features that the learner has."""
    norm: Norm = "unit"
    norm_bound: NormBound = 1.0


class Entry(NamedTuple):
    """One number of a given context."""

    feature: int | str  # as the client knows it
    field: str  # of the request


GivenT = TypeVar("GivenT")


class ContextKind(ABC, Generic[GivenT]):
    """One kind of context, for one model.

    Args:
        features: of the model.

    Attributes:
        name: of the kind: the value of `kind` in the features.
        features: the schema of a model's features.
        given: the schema of a context in a request.
        shown: the schema of a context in the log.
        type: the Python type of a context that was read.
        form: what a client sends, such as "a list of numbers".
        wanted: what a client of this model sends, such as "a list of 3 numbers".
        example: the JSON of a context that a client of this model may send.
        codec: encodes and decodes the stored bytes.
    """

    name: ClassVar[str]
    features: ClassVar[type[BaseFeatures]]
    given: ClassVar[Any]
    shown: ClassVar[Any]
    type: ClassVar[type[Any]]
    form: ClassVar[str]
    wanted: str
    example: str
    codec: ContextCodec

    @abstractmethod
    def __init__(self, features: Any) -> None: ...

    @staticmethod
    @abstractmethod
    def claims(given: object) -> bool:
        """Whether a JSON value, or a context that was read, is meant as a context of this kind."""

    def check(self, context: object) -> Sequence[float]:
        """Return the numbers of a context that fits the model.

        Raises:
            ContextLengthError: if it is of another kind, or has the wrong number of numbers.
            ContextIndexError: if an index is out of range, or occurs twice.
        """
        if not isinstance(context, self.type):
            given = shown(context if isinstance(context, (list, dict)) else vars(context))
            raise ContextLengthError(f"got {given}; {self.hint}", "context")
        return self.numbers(context)

    @property
    def hint(self) -> str:
        """The kind of the model's features, and what to send."""
        return f"the model has {self.name} features: send {self.wanted}, such as {self.example}"

    @abstractmethod
    def numbers(self, context: GivenT) -> Sequence[float]:
        """Return the numbers of a context of this kind. See `check`."""

    @abstractmethod
    def entry(self, context: GivenT, position: int) -> Entry:
        """Return where a number that `check` returned is in the context."""

    @abstractmethod
    def size(self, context: GivenT) -> int:
        """Return how many numbers a checked context has."""

    @abstractmethod
    def gather(self, contexts: Sequence[GivenT]) -> Contexts:
        """Return checked contexts in the arrays of the learners."""

    @abstractmethod
    def fingerprinted(self, context: GivenT) -> bytes:
        """Return bytes that are equal for equal contexts, and for no others."""

    @abstractmethod
    def show(self, contexts: Contexts, i: int) -> GivenT:
        """Return the i-th context as a client gives it."""
