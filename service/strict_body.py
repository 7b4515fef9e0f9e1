"""The base of all request bodies."""

from pydantic import BaseModel, ConfigDict, FailFast

from learners.field_docstrings import DescribedFields


class Body(DescribedFields, BaseModel):
    """A request body. It coerces nothing and refuses unknown fields, NaN and infinities."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class FirstError(FailFast):
    """A hashable `FailFast`: unions in Python 3.11 hash their members."""

    def __hash__(self) -> int:
        return hash(type(self))
