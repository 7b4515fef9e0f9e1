"""Prediction ids in requests. Ids that the service generates begin with `~`; ids that clients choose do not."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetPydanticSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from service.prediction_id import PredictionId
from service.wording.patterns import GIVEN_ID, QUALIFIED_ID
from service.wording.values import shown

_OURS = re.compile(r"(^|:)~[^:]*\Z")


def _not_ours(given: Any) -> Any:
    if isinstance(given, str) and _OURS.search(given):
        message = "got {given}; ids that begin with ~ are reserved for the service"
        raise PydanticCustomError("reserved_id", message, {"given": shown(given)})
    return given


def _parse_given(text: str) -> PredictionId:
    return PredictionId.parse(text if ":" in text else f":{text}")


def _parsed(parse: Callable[[str], PredictionId], pattern: str) -> CoreSchema:
    text, written = core_schema.str_schema(pattern=pattern), core_schema.to_string_ser_schema()
    return core_schema.no_info_after_validator_function(parse, text, serialization=written)


def _qualified(*_: Any) -> CoreSchema:
    return _parsed(PredictionId.parse, QUALIFIED_ID)


def _given(*_: Any) -> CoreSchema:
    return _parsed(_parse_given, GIVEN_ID)


QualifiedId = Annotated[
    PredictionId,
    GetPydanticSchema(_qualified),
    Field(description="`<model>:<id>`, as `/predict` returns it."),
]
GivenId = Annotated[
    PredictionId,
    GetPydanticSchema(_given),
    BeforeValidator(_not_ours),
    Field(
        description="Your own id, unique within the model, optionally after `<model>:`. It must not begin with `~`, "
        "which marks ids of the service."
    ),
]
"""The parsed id's `model` is empty if the request leaves it out."""
