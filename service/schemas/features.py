"""Bodies that tell of features and contexts, in every kind there is."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, FailFast, Field, Tag

Number = Annotated[float, Field(allow_inf_nan=False)]


class Body(BaseModel):
    """A body as a client must send it: nothing is coerced, nothing unknown passes."""

    model_config = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False, frozen=True, use_attribute_docstrings=True
    )


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


class DenseFeatures(Body):
    """Contexts are lists of `size` numbers."""

    kind: Literal["dense"]
    size: Annotated[int, Field(ge=1, le=1_000_000)]
    """d, the length of every context."""
    norm: Norm = "unit"
    norm_bound: NormBound = 1.0


class SparseFeatures(Body):
    """Contexts are objects with `indices` below `size`, each once, and their `values`; the rest is zero."""

    kind: Literal["sparse"]
    size: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """d, one more than the largest index."""
    norm: Norm = "unit"
    norm_bound: NormBound = 1.0


Features = Annotated[DenseFeatures | SparseFeatures, Field(discriminator="kind")]


class SparseContext(Body):
    """The non-zero numbers of a context, by index."""

    indices: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FailFast(), Field(min_length=1)]
    """Each below the model's `size`, and once."""
    values: Annotated[list[Number], FailFast(), Field(min_length=1)]
    """One for each index."""


class FirstError(FailFast):
    """`FailFast` that may stand in a union, whose members Python 3.11 hashes."""

    def __hash__(self) -> int:
        return hash(type(self))


def _kind_of_context(given: object) -> str:
    return "sparse" if isinstance(given, (dict, BaseModel)) else "dense"


GivenContext = list[Number] | SparseContext
Context = Annotated[
    Annotated[list[Number], FirstError(), Field(min_length=1), Tag("dense")] | Annotated[SparseContext, Tag("sparse")],
    Discriminator(_kind_of_context),
    Field(description="For dense features a list of numbers, for sparse ones an object."),
]
