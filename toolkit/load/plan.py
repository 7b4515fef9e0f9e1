"""The options of `wager load`: typer parses them, and pydantic checks them."""

import json
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from typer import Option

from service.error_messages.json_schemas import root_of
from service.error_messages.json_text import syntax_error, unreadable
from service.error_messages.patterns import PREFIX
from service.error_messages.validation import explain
from service.error_messages.values import quoted
from service.json_values import JsonObject
from toolkit.load.client import LoadError, Target

_DAY = 86_400
_DEFAULT_SECONDS = 20.0

Finite = Field(ge=0, le=_DAY, allow_inf_nan=False)
Positive = Field(gt=0, le=_DAY, allow_inf_nan=False)


def _check_url(value: str) -> str:
    try:
        Target.parse(value)
    except LoadError as error:
        raise ValueError(str(error)) from None
    return value


def _learner(text: str) -> JsonObject:
    if not text.startswith("{"):
        return {"algorithm": text}
    try:
        learner: JsonObject = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"got {quoted(text)}; {syntax_error(error.msg, error.pos)}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(unreadable(error)) from None
    return learner


def _check_learner(text: str | None) -> str | None:
    if text is not None:
        _learner(text)
    return text


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All options that determine the requests, their times, and the wait for responses."""

    url: Annotated[str, AfterValidator(_check_url), Option(help="URL of the service.")] = "http://127.0.0.1:8000"
    api_key: Annotated[
        str | None,
        Field(repr=False),
        Option(envvar="WAGER_API_KEY", help="Key to send as `Authorization: Bearer`."),
    ] = None
    rate: Annotated[
        float,
        Field(gt=0, le=1e6, allow_inf_nan=False),
        Option(help="Predict requests per second, over all processes."),
    ] = 200.0
    seconds: Annotated[
        float | None, Positive, Option(help=f"Length of the measurement. Default: {_DEFAULT_SECONDS:g}.")
    ] = None
    requests: Annotated[
        int | None, Field(ge=1), Option(help="Approximate number of requests, instead of --seconds.")
    ] = None
    warm_up: Annotated[float, Finite, Option(help="Seconds of load before the measurement.")] = 2.0
    processes: Annotated[int, Field(ge=1, le=256), Option(help="Generator processes.")] = 1
    connections: Annotated[int, Field(ge=1, le=10_000), Option(help="Connections of each process.")] = 32
    in_flight: Annotated[
        int,
        Field(ge=1, le=1_000_000),
        Option(help="Maximum requests in flight in each process; further ones are not sent."),
    ] = 1000
    models: Annotated[int, Field(ge=1, le=10_000), Option(help="Models to create and use in turn.")] = 1
    prefix: Annotated[str, Field(pattern=PREFIX), Option(help="Prefix of the models' names.")] = "load"
    keep: Annotated[bool, Option("--keep", help="Do not delete the models.")] = False
    labels: Annotated[int, Field(ge=2, le=100_000), Option(help="K, labels of each model.")] = 10
    features: Annotated[int, Field(ge=1, le=2**31 - 1), Option(help="d, features of each context.")] = 20
    nonzeros: Annotated[
        int | None, Field(ge=1, le=100_000), Option(help="Non-zeros of each context. Unset: contexts are dense.")
    ] = None
    batch: Annotated[
        int, Field(ge=1, le=100_000), Option(help="Contexts in each request; from 2, uses the batch endpoints.")
    ] = 1
    duplicates: Annotated[float, Field(ge=0, le=1), Option(help="Share of feedback to send twice.")] = 0.05
    delay: Annotated[float, Finite, Option(help="Mean seconds from a prediction to its feedback.")] = 0.5
    learner: Annotated[
        str | None,
        AfterValidator(_check_learner),
        Option(help="Name, or JSON with hyperparameters. Unset: the service's default."),
    ] = None
    true_labels: Annotated[
        bool, Option("--true-labels", help="Send true labels, for learners under full information.")
    ] = False
    seed: Annotated[int, Field(ge=0), Option(help="Seed of contexts, labels, arrival times and duplicates.")] = 1
    timeout: Annotated[float, Field(gt=0, le=3600), Option(help="Seconds to wait for a response.")] = 30.0
    settle: Annotated[float, Finite, Option(help="Seconds to retry unanswered requests at the end.")] = 60.0

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.requests is not None and self.seconds is not None:
            raise ValueError("--requests replaces --seconds: pass one of them")
        if self.duration > _DAY:
            raise ValueError("--requests: would take more than a day; pass a greater --rate")
        if self.nonzeros is None and self.features > 1_000_000:
            raise ValueError("more than 1000000 features must be sparse: pass --nonzeros")
        if self.nonzeros is not None and self.nonzeros > self.features:
            raise ValueError("--nonzeros is greater than --features")
        return self

    @classmethod
    def from_options(cls, **options: Any) -> Self:
        """Check the options of the command. Raises `LoadError`, naming all invalid ones."""
        try:
            return cls(**options)
        except ValidationError as error:
            wrong = [explain(each, root_of(Plan)) for each in error.errors(include_url=False)]
            reasons = [
                f"--{each.field.replace('_', '-')}: {each.reason}" if each.field else each.reason for each in wrong
            ]
            raise LoadError("; ".join(reasons)) from None

    @property
    def target(self) -> Target:
        """The server under load."""
        return Target.parse(self.url, self.api_key)

    @property
    def duration(self) -> float:
        """The seconds of the measurement."""
        return self.requests / self.rate if self.requests else self.seconds or _DEFAULT_SECONDS

    @property
    def rounds_expected(self) -> float:
        """The expected number of predictions in the whole run."""
        return self.rate * self.batch * (self.warm_up + self.duration)

    @property
    def definition(self) -> JsonObject:
        """The definition of every model, without its name."""
        kind = "dense" if self.nonzeros is None else "sparse"
        return {
            "labels": [f"label-{k}" for k in range(self.labels)],
            "features": {"kind": kind, "size": self.features},
            "retain_rounds": int(min(1e9, 2 * self.rounds_expected + 1000)),  # the audit reads the whole log
        } | ({} if self.learner is None else {"learner": _learner(self.learner)})

    def as_json(self) -> JsonObject:
        """Return all fields except the key, for a report."""
        return {name: value for name, value in asdict(self).items() if name != "api_key"}
