"""An error, as RFC 9457 has it: the body of every answer that is none."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class _Described(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class FieldError(_Described):
    """One wrong field of a request."""

    field: str | None
    """The path of the field; null where the whole body is wrong."""
    detail: str


class Problem(_Described):
    """An error, as RFC 9457 has it."""

    type: str
    """Stable; made for programs."""
    title: str
    status: int
    detail: str
    """What happened this time, for a person."""
    field: str | None = None
    """The first wrong field."""
    errors: list[FieldError] | None = None
    """The wrong fields, or the first of them where there are many."""
    request_id: Annotated[str | None, Field(exclude_if=lambda given: given is None)] = None
    """The `X-Request-ID` of the answer, by which the service's log tells of it."""
