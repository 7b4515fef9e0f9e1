"""The contract of a kind of context. A new kind is a class in a file of this folder, and a name in `registry.KINDS`."""

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
    # The default depends on the learner. Stored definitions without a norm mean "unit".
    schema.pop("default", None)


Norm = Annotated[
    Literal["unit", "scale", "reject"],
    Field(
        description="`unit` divides each context by its norm. `scale` shortens contexts longer than `norm_bound`; "
        "`reject` refuses them. The default is what the learner needs: see `norm` in `GET /learners`.",
        json_schema_extra=_without_default,
    ),
]
NormBound = Annotated[
    float,
    Field(
        ge=1e-6,
        le=1e6,
        description="X, the norm that no context exceeds; the theorems assume it. With `unit`, the norm of every "
        "context. For adahedge it is at most 1 and limits each number individually.",
    ),
]


class BaseFeatures(Body):
    """The features of a model, of any kind."""

    kind: str
    size: int
    """d, the number of features of the learner."""
    norm: Norm = "unit"
    norm_bound: NormBound = 1.0


class Entry(NamedTuple):
    """The origin of one number of a context in the request."""

    feature: int | str  # the number or name that the client uses
    field: str  # its path in the request


GivenT = TypeVar("GivenT")


class ContextKind(ABC, Generic[GivenT]):
    """One kind of context, for one model.

    Args:
        features: the model's features.

    Attributes:
        name: the name of the kind, the value of `kind` in the features.
        features: the schema of a model's features.
        given: the schema of a context in a request.
        shown: the schema of a context in the log.
        type: the Python type of a parsed context.
        form: what clients send for this kind, such as "a list of numbers".
        wanted: what clients send to this model, such as "a list of 3 numbers".
        example: a valid context of this model in JSON.
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
        """Check whether a JSON value or a parsed context is meant as this kind."""

    def check(self, context: object) -> Sequence[float]:
        """Return the numbers of a context that fits the model.

        Raises:
            ContextLengthError: if it is of another kind, or has the wrong length.
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
        """Return where a number that `check` returned comes from."""

    @abstractmethod
    def size(self, context: GivenT) -> int:
        """Return the number of numbers in a checked context."""

    @abstractmethod
    def gather(self, contexts: Sequence[GivenT]) -> Contexts:
        """Convert checked contexts to the arrays of the learners."""

    @abstractmethod
    def fingerprinted(self, context: GivenT) -> bytes:
        """Return bytes that are equal only for equal contexts."""

    @abstractmethod
    def show(self, contexts: Contexts, i: int) -> GivenT:
        """Return the i-th context in the form that clients send."""
