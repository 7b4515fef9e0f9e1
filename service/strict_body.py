"""What every body of a request is made of."""

from pydantic import BaseModel, ConfigDict, FailFast


class Body(BaseModel):
    """A body as a client must send it: nothing is coerced, nothing unknown passes."""

    model_config = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False, frozen=True, use_attribute_docstrings=True
    )


class FirstError(FailFast):
    """`FailFast` that may stand in a union, whose members Python 3.11 hashes."""

    def __hash__(self) -> int:
        return hash(type(self))
