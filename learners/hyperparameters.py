"""How the hyperparameters of a learner are declared, validated and refused."""

from typing import Any, TypeVar, cast, dataclass_transform

import pydantic

ClassT = TypeVar("ClassT")


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
