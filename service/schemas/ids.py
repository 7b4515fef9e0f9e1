"""Prediction ids in requests. Those that the service makes begin with `~`, those of clients never do."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

_MODEL = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}:"
_TOKEN = r"(0|[1-9][0-9]{0,14})"
_GIVEN = rf"^({_MODEL})?[A-Za-z0-9._=+/@-][A-Za-z0-9._~=+/@-]{{0,127}}$"
_QUALIFIED = rf"^{_MODEL}[A-Za-z0-9._~=+/@-]{{1,128}}(:{_TOKEN})?$"
"""What the service makes itself may end with a token."""


def _not_ours(given: Any) -> Any:
    if isinstance(given, str) and given.rpartition(":")[2].startswith("~"):
        message = "an id that begins with ~ is one that the service made: begin yours with another character"
        raise PydanticCustomError("reserved_id", message)
    return given


QualifiedId = Annotated[
    str,
    StringConstraints(pattern=_QUALIFIED),
    Field(description="`<model>:<id>`, as `/predict` answered it."),
]
GivenId = Annotated[
    str,
    StringConstraints(pattern=_GIVEN),
    BeforeValidator(_not_ours),
    Field(
        description="Your own id, unique within the model, with or without `<model>:` before it. "
        "It does not begin with `~`, as the service's do."
    ),
]
