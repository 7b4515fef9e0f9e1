"""How the hyperparameters of a learner are declared, validated and refused, and the ranges that several have."""

from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, dataclass_transform

import pydantic

ClassT = TypeVar("ClassT")

ExplorationRate: TypeAlias = Annotated[float, pydantic.Field(ge=1e-6, le=1)]
"""γ, a fixed share of uniform exploration."""
LeastExploration: TypeAlias = Annotated[float, pydantic.Field(ge=0, le=1)]
"""A share of uniform exploration that may be nothing."""
Exploration: TypeAlias = Literal["anytime"] | ExplorationRate
"""γ, or the name of a schedule of the rounds so far."""
TheoremExploration: TypeAlias = Literal["anytime", "theorem"] | ExplorationRate
"""As `Exploration`, or the schedule of the learner's theorem."""
Magnitude: TypeAlias = Annotated[float, pydantic.Field(ge=1e-6, le=1e6)]
"""The radius of a ball of weights, or a regularization: far from both ends of floats."""
Positive: TypeAlias = Annotated[float, pydantic.Field(gt=0, le=1e6)]
"""A step, a factor or a radius: more than 0, and no further limit below."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def hyperparameters(cls: type[ClassT]) -> type[ClassT]:
    """Makes a class a frozen, keyword-only set of validated hyperparameters, with a JSON Schema for free.

    Constructing it with a value out of range raises `pydantic.ValidationError`, naming the field.
    """
    config = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
    return cast(type[ClassT], pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=config)(cls))


def refusal(field: str, reason: str) -> pydantic.ValidationError:
    """What a learner raises where a hyperparameter that is in its range cannot be had with the others."""
    error = {"type": "value_error", "loc": (field,), "input": None, "ctx": {"error": ValueError(reason)}}
    return pydantic.ValidationError.from_exception_data("hyperparameters", [cast(Any, error)])
