"""Schemas of snapshots and shadows, and of requests that replace or copy a model's state."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from service.json_values import JsonObject
from service.schemas.models import Answer, LearnerChoice, ModelName, read_short_form
from service.strict_body import Body


class SnapshotRequest(Body):
    """A snapshot to take now."""

    id: Annotated[ModelName, Field(default_factory=str, examples=["before-sale"])]
    """Its id; by default a new one. The same request again returns the first snapshot."""
    note: Annotated[str, StringConstraints(max_length=1000), Field(examples=["before the sale"])] = ""
    """A text of your own."""


class SnapshotAnswer(Answer):
    """A kept snapshot of a model."""

    id: str
    rounds: int
    """The number of rounds that it has seen."""
    changes: int
    """The number of changes that it has seen."""
    at: datetime
    by: Annotated[str | None, Field(examples=[None])]
    """The id of the API key that took it; null if no keys were required."""
    note: str
    bytes: int
    """The size of the state in the store."""


class SnapshotList(Answer):
    """All kept snapshots of a model, the oldest first."""

    snapshots: list[SnapshotAnswer]
    most: int
    """The maximum number of kept snapshots."""


class RollbackRequest(Body):
    """The state to return to."""

    snapshot: ModelName
    """The id of a kept snapshot."""


class ResetRequest(Body):
    """An empty object: a reset has no options."""


class CloneRequest(Body):
    """A copy of a model."""

    name: ModelName
    """The name of the new model."""


class ShadowRequest(Body):
    """The learner of a shadow."""

    learner: Annotated[LearnerChoice, BeforeValidator(read_short_form, json_schema_input_type=LearnerChoice | str)]
    """The learner. A string means an object with this `algorithm` only."""


class PromoteRequest(Body):
    """The shadow to promote."""

    shadow: ModelName
    """Its name."""


class IntervalAnswer(Answer):
    """A confidence interval at the level 95 %."""

    low: float
    high: float


class ComparisonAnswer(Answer):
    """The comparison of a shadow with the policy that the model served, per round."""

    served: Annotated[float, Field(examples=[0.61])]
    """The mean reward of what the model answered."""
    ips: float
    """The estimated mean reward of the shadow: inverse propensity scoring."""
    snips: float | None
    """The same with normalized weights, which varies less; null if every weight is 0."""
    difference: float
    """`ips` minus `served`, from the same rounds."""
    normal_interval: IntervalAnswer
    """The interval of the difference by the normal approximation."""
    bernstein_interval: IntervalAnswer
    """The empirical Bernstein interval of the difference, with weights above 100 clipped. It needs no approximation,
    and is wider."""
    effective_sample_size: float
    """The number of rounds of the shadow's own policy that would tell as much."""
    largest_weight: float
    mean_weight: float
    """1 in expectation, if the model can answer every label that the shadow would."""
    clipped_rounds: int
    """Rounds with a weight above 100."""
    verdict: Literal["better", "worse", "undecided"]
    """Whether the normal interval excludes 0; `undecided` if there are warnings."""
    warnings: Annotated[list[str], Field(examples=[[]])]
    """Reasons not to trust the comparison."""


class ShadowAnswer(Answer):
    """A shadow: a learner that learns from the same rounds as the model, without answering."""

    name: str
    learner: JsonObject
    """The algorithm and all hyperparameters."""
    guarantee: str
    """The proven bound for these hyperparameters, and its assumptions."""
    created_at: datetime
    """When it got this learner."""
    by: Annotated[str | None, Field(examples=[None])]
    """The id of the API key; null if no keys were required."""
    since_round: int
    """The first round that it learns from."""
    rounds_seen: int
    """The last round of the log that it has seen."""
    lag: int
    """The number of rounds that it has not seen yet."""
    compared_rounds: int
    """The number of rounds in the comparison."""
    skipped_rounds: int
    """Rounds that it could not learn from, such as rewards between 0 and 1 for a learner of right and wrong answers."""
    restarts: int
    """How often it had to begin again, because the log no longer had the rounds that it needed."""
    comparison: ComparisonAnswer | None
    """Null before the first round."""


class ShadowList(Answer):
    """The shadows of a model, ordered by name."""

    shadows: list[ShadowAnswer]
