"""Declares and validates hyperparameters of learners; defines common ranges."""

from decimal import ROUND_CEILING, Context, Decimal
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, dataclass_transform

import pydantic

from learners.field_docstrings import described

ClassT = TypeVar("ClassT")

ExplorationRate: TypeAlias = Annotated[float, pydantic.Field(ge=1e-6, le=1)]  # γ, a fixed share of uniform exploration
LeastExploration: TypeAlias = Annotated[float, pydantic.Field(ge=0, le=1)]
"""A share of uniform exploration that may be zero."""
Exploration: TypeAlias = Literal["anytime"] | ExplorationRate  # γ, or a schedule that depends on the number of rounds
TheoremExploration: TypeAlias = Literal["anytime", "theorem"] | ExplorationRate
"""γ, or a schedule: `anytime`, or that of the learner's theorem."""
Horizon: TypeAlias = Annotated[int, pydantic.Field(ge=1, le=2**53)] | None  # T, the number of rounds, if known
Magnitude: TypeAlias = Annotated[float, pydantic.Field(ge=1e-6, le=1e6)]
"""The radius of a ball of weights, or a regularization; its range avoids overflow and underflow."""
Positive: TypeAlias = Annotated[float, pydantic.Field(gt=0, le=1e6)]  # a step, a factor or a radius, greater than 0


class _Settings(dict[str, Any]):
    """Hyperparameters by name, hashable so that a learner with them is hashable too. Nothing may change them."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


Settings: TypeAlias = Annotated[
    dict[str, str | bool | int | float | None], pydantic.Field(min_length=1), pydantic.AfterValidator(_Settings)
]
"""Hyperparameters of another learner, by name; at least one."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def hyperparameters(cls: type[ClassT]) -> type[ClassT]:
    """Turn a class into a frozen, keyword-only dataclass that raises `pydantic.ValidationError` for invalid values."""
    cls.__get_pydantic_json_schema__ = classmethod(described)  # type: ignore[attr-defined]
    config = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)
    return cast(type[ClassT], pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=config)(cls))


def check_horizon(horizon: int | None, exploration: str | float) -> None:
    """Raise `ValueError` for a horizon without exploration `theorem`, or for that exploration without a horizon."""
    if (horizon is None) == (exploration == "theorem"):
        raise ValueError("exploration theorem requires a horizon, and a horizon requires exploration theorem")


def rounded_up(bound: float) -> str:
    """Return a four-digit number just above a positive bound, as text, so that suggested values are accepted."""
    exact = Decimal(bound) * Decimal("1.000001")  # strictly above, to cover the caller's rounding errors
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(exact)):g}"


def refusal(field: str, reason: str) -> pydantic.ValidationError:
    """Return the error for a hyperparameter that is in its range but contradicts others."""
    error = {"type": "value_error", "loc": (field,), "input": None, "ctx": {"error": ValueError(reason)}}
    return pydantic.ValidationError.from_exception_data("hyperparameters", [cast(Any, error)])
