"""The options of a load."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from service.error_messages.json_schemas import root_of
from service.error_messages.json_text import syntax_error, unreadable
from service.error_messages.patterns import PREFIX
from service.error_messages.validation import Wrong, explain
from service.error_messages.values import quoted
from toolkit.load.client import LoadError, Target


def _url(value: str) -> str:
    try:
        Target.parse(value)
    except LoadError as error:
        raise ValueError(str(error)) from None
    return value


Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All options that decide which requests are sent, when, and how long to wait for responses."""

    url: Annotated[str, AfterValidator(_url)]
    api_key: Annotated[str | None, Field(repr=False)] = None
    rate: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 200.0
    """Predict requests per second, over all processes."""
    seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 20.0
    """Measured time."""
    warm_up: Seconds = 2.0
    """Time of sending before the measured time."""
    processes: Annotated[int, Field(ge=1, le=256)] = 1
    connections: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Connections of each process."""
    in_flight: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    """Maximum outstanding requests of each process, waiting for a connection or a response."""
    models: Annotated[int, Field(ge=1, le=10_000)] = 1
    prefix: Annotated[str, Field(pattern=PREFIX)] = "load"
    """Prefix of the models' names."""
    labels: Annotated[int, Field(ge=2, le=100_000)] = 10
    features: Annotated[int, Field(ge=1, le=2**31 - 1)] = 20
    nonzeros: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Non-zeros of each context; None for dense contexts."""
    batch: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Contexts per predict request."""
    duplicates: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Share of the feedback that is sent twice."""
    delay: Seconds = 0.5
    """Mean time from a prediction to its feedback."""
    learner: dict[str, Any] | None = None
    true_labels: bool = False
    """Whether feedback has the true label instead of right or wrong."""
    seed: Annotated[int, Field(ge=0)] = 1
    timeout: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """Time after which a request counts as unanswered."""
    settle: Seconds = 60.0
    """How long to repeat unanswered requests at the end."""
    keep: bool = False
    """Whether to keep the models after the run."""

    @model_validator(mode="after")
    def _contexts_fit(self) -> Self:
        if self.nonzeros is None and self.features > 1_000_000:
            raise ValueError("more than 1000000 features must be sparse: pass --nonzeros")
        if self.nonzeros is not None and self.nonzeros > self.features:
            raise ValueError("--nonzeros is greater than --features")
        return self

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build a plan from the command's options: its fields, with `learner` as text; `requests` replaces `seconds`.

        Raises:
            LoadError: if options are invalid; the message names each of them.
        """
        given = dict(options)
        if "learner" in given:
            given["learner"] = _learner(given["learner"])
        requests = given.pop("requests", None)
        try:
            if requests is not None and "seconds" in given:
                raise LoadError("--requests replaces --seconds: pass one of them")
            plan = cls(**given)
            return plan if requests is None else cls(**given, seconds=requests / plan.rate)
        except ValidationError as error:
            wrong = [explain(each, root_of(Plan)) for each in error.errors(include_url=False)]
            raise LoadError("; ".join(map(_said, wrong))) from None

    @property
    def target(self) -> Target:
        """The server under load."""
        return Target.parse(self.url, self.api_key)

    @property
    def rounds_expected(self) -> float:
        """The mean number of predictions in the whole run."""
        return self.rate * self.batch * (self.warm_up + self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return all fields except the key, for a report."""
        return {name: value for name, value in asdict(self).items() if name != "api_key"}


PLAN_JSON: TypeAdapter[Plan] = TypeAdapter(Plan)
"""Writes and reads a plan with its key, to send it to the generators."""


def _said(wrong: Wrong) -> str:
    return wrong.reason if wrong.field is None else f"--{wrong.field.replace('_', '-')}: {wrong.reason}"


def _learner(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {"algorithm": text}
    try:
        learner: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise LoadError(f"--learner: got {quoted(text)}; {syntax_error(error.msg, error.pos)}") from None
    except (ValueError, RecursionError) as error:
        raise LoadError(f"--learner: {unreadable(error)}") from None
    return learner
