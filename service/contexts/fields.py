"""Declarations of named features: the type of each, and the values that it may have."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from service.contexts.kind import Number
from service.strict_body import Body
from service.wording.values import choices, quoted, shown

_Values = Annotated[list[str], Field(min_length=1, max_length=10_000)]


class NumberField(Body):
    """A number, within a range."""

    type: Literal["number"]
    minimum: Number | None = None
    maximum: Number | None = None
    required: bool = False

    def wrong_type(self, value: object) -> str | None:
        """Return what the value must be, if it has another type."""
        return None if type(value) in (float, int) else "a number"

    def wrong_value(self, value: float) -> str | None:
        """Return what is wrong with a value of the right type."""
        low, high = self.minimum, self.maximum
        if (low is None or value >= low) and (high is None or value <= high):
            return None
        limits = {"at least": low, "at most": high}
        named = [f"{words} {limit:g}" for words, limit in limits.items() if limit is not None]
        return f"got {shown(value)}; must be {' and '.join(named)}"


class StringField(Body):
    """A string, or one of a list of strings."""

    type: Literal["string"]
    values: _Values | None = None
    required: bool = False

    def wrong_type(self, value: object) -> str | None:
        """Return what the value must be, if it has another type."""
        return None if type(value) is str else "a string"

    def wrong_value(self, value: str) -> str | None:
        """Return what is wrong with a value of the right type."""
        return _not_among(self.values, value)


class BooleanField(Body):
    """True or false."""

    type: Literal["boolean"]
    required: bool = False

    def wrong_type(self, value: object) -> str | None:
        """Return what the value must be, if it has another type."""
        return None if type(value) is bool else "true or false"

    def wrong_value(self, _: bool) -> str | None:
        """Return None: both values are allowed."""
        return None


class StringsField(Body):
    """A list of strings."""

    type: Literal["strings"]
    values: _Values | None = None
    required: bool = False

    def wrong_type(self, value: object) -> str | None:
        """Return what the value must be, if it has another type."""
        return None if type(value) is list else "a list of strings"

    def wrong_value(self, value: list[Any]) -> str | None:
        """Return what is wrong with a value of the right type."""
        found = (_not_among(self.values, each) for each in value if type(each) is str)
        return next((wrong for wrong in found if wrong is not None), None)


FieldSchema: TypeAlias = Annotated[NumberField | StringField | BooleanField | StringsField, Field(discriminator="type")]


def _not_among(values: list[str] | None, value: str) -> str | None:
    if values is None or value in values:
        return None
    return f"got {quoted(value)}; {choices(value, tuple(values), 'allowed values')}"
