"""What a load is to be."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from service.load.http.errors import LoadError
from service.load.http.target import Target
from service.wording.bad_json import syntax_error, unreadable
from service.wording.json_schemas import root_of
from service.wording.patterns import PREFIX
from service.wording.validation import Wrong, explain
from service.wording.values import quoted


def _url(value: str) -> str:
    try:
        Target.parse(value)
    except LoadError as error:
        raise ValueError(str(error)) from None
    return value


Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides what is sent, when, and how long to wait for answers."""

    url: Annotated[str, AfterValidator(_url)]
    api_key: Annotated[str | None, Field(repr=False)] = None
    rate: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 200.0
    """Predict requests per second, over all processes."""
    seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 20.0
    """How long to measure."""
    warm_up: Seconds = 2.0
    """How long to send before that."""
    processes: Annotated[int, Field(ge=1, le=256)] = 1
    connections: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Of each process."""
    in_flight: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    """Most requests under way in each process, waiting for a connection or for an answer."""
    models: Annotated[int, Field(ge=1, le=10_000)] = 1
    prefix: Annotated[str, Field(pattern=PREFIX)] = "load"
    """What the models' names begin with."""
    labels: Annotated[int, Field(ge=2, le=100_000)] = 10
    features: Annotated[int, Field(ge=1, le=2**31 - 1)] = 20
    nonzeros: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """Non-zeros of each context, which is sparse then."""
    batch: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Contexts in each predict request."""
    duplicates: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Share of the feedback that is sent twice."""
    delay: Seconds = 0.5
    """Mean time from an answer to its feedback."""
    learner: dict[str, Any] | None = None
    true_labels: bool = False
    """Whether feedback tells the true label instead of right or wrong."""
    seed: Annotated[int, Field(ge=0)] = 1
    timeout: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """When a request counts as without an answer."""
    settle: Seconds = 60.0
    """How long to ask again, at the end, where no answer came."""
    keep: bool = False
    """Whether the models stay."""

    @model_validator(mode="after")
    def _contexts_fit(self) -> Self:
        if self.nonzeros is None and self.features > 1_000_000:
            raise ValueError("more than 1000000 features must be sparse: give --nonzeros")
        if self.nonzeros is not None and self.nonzeros > self.features:
            raise ValueError("there are more non-zeros than features")
        return self

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """A plan from a command's options: its fields, `learner` as text, and `requests` instead of `seconds`.

        Raises:
            LoadError: naming each option that is wrong.
        """
        given = dict(options)
        if "learner" in given:
            given["learner"] = _learner(given["learner"])
        requests = given.pop("requests", None)
        try:
            if requests is not None and "seconds" in given:
                raise LoadError("--requests stands instead of --seconds: give one of them")
            plan = cls(**given)
            return plan if requests is None else cls(**given, seconds=requests / plan.rate)
        except ValidationError as error:
            wrong = [explain(each, root_of(Plan)) for each in error.errors(include_url=False)]
            raise LoadError("; ".join(map(_said, wrong))) from None

    @property
    def target(self) -> Target:
        """Where the requests go."""
        return Target.parse(self.url, self.api_key)

    @property
    def rounds_expected(self) -> float:
        """Mean number of predictions in the whole run."""
        return self.rate * self.batch * (self.warm_up + self.seconds)

    def as_json(self) -> dict[str, Any]:
        """All but the key, for a report."""
        return {name: value for name, value in asdict(self).items() if name != "api_key"}


PLAN_JSON: TypeAdapter[Plan] = TypeAdapter(Plan)
"""Writes and reads a plan, key included: how it goes to the generators."""


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
