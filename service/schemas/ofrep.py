"""Schemas of the OpenFeature Remote Evaluation Protocol (OFREP)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from learners.field_docstrings import DescribedFields
from service.json_values import JsonObject
from service.schemas.rounds import answer

ErrorCode = Literal["FLAG_NOT_FOUND", "GENERAL", "INVALID_CONTEXT", "PARSE_ERROR", "TARGETING_KEY_MISSING"]

TARGETING_KEY = "context.targetingKey"
"""The path of the targeting key in a request."""

_VALUE = {"anyOf": [{"type": each} for each in ("boolean", "string", "number", "object")]}


class EvaluationRequest(DescribedFields, BaseModel):
    """A request to evaluate flags. Other members are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    context: Annotated[JsonObject, Field(default_factory=dict, examples=[{"targetingKey": "user-1", "country": "FR"}])]
    """The evaluation context. `targetingKey` identifies the user, or whatever is to get the same value again. All other
    members are the context of the prediction; a model without features ignores them."""


@answer
class EvaluationMetadata:
    """The prediction of an evaluation."""

    predictionId: str  # noqa: N815  OpenFeature names metadata in this style
    """For `POST /feedback`, and, after a bulk evaluation, first for `POST /activate`."""
    propensity: float
    """The probability of the variant, in (0, 1]."""
    holdout: bool
    """Whether the model's holdout answered."""


@answer
class Evaluation:
    """The evaluation of a flag."""

    key: str
    """The model's name."""
    value: Annotated[Any, WithJsonSchema(_VALUE)]
    """The model's value for the label; by default, the label."""
    variant: str
    """The label."""
    reason: Literal["SPLIT"]
    metadata: EvaluationMetadata


@answer
class EvaluationFailure:
    """Why a flag, or a request, cannot be evaluated."""

    errorCode: ErrorCode  # noqa: N815
    errorDetails: str  # noqa: N815
    key: str | None = None
    """The requested key; absent for a whole bulk evaluation."""


@answer
class BulkEvaluation:
    """The evaluations of the models with `ofrep.bulk`, in the order of their names: at most 100.

    If there are more, the next one has a failure that says so.
    """

    flags: list[Evaluation | EvaluationFailure]
