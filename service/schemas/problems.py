"""Problem details of RFC 9457, the body of every error response."""

from typing import Annotated

from pydantic import BaseModel, Field

from learners.field_docstrings import DescribedFields


class FieldError(DescribedFields, BaseModel):
    """One invalid field of a request."""

    field: str | None
    """The path of the field; null if the whole body is invalid."""
    detail: str


class Problem(DescribedFields, BaseModel):
    """An error, in the format of RFC 9457."""

    type: str
    """The kind of the error. Programs may rely on it."""
    title: str
    status: int
    detail: str
    """A human-readable description: the field, the value given, and the values allowed."""
    field: str | None = None
    """The first invalid field."""
    errors: list[FieldError] | None = None
    """The invalid fields, or the first ones if there are many."""
    request_id: Annotated[str | None, Field(exclude_if=lambda given: given is None)] = None
    """The `X-Request-ID` of the response, which the service's log contains."""
