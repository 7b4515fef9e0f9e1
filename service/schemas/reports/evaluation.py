"""Schemas of `GET /models/{name}/evaluation`, and of the report of `wager evaluate`."""

from typing import Annotated

from pydantic import Field

from service.schemas.models import Answer


class EstimateAnswer(Answer):
    """The value of a policy by one estimator: its mean reward."""

    estimator: str
    """`ips`, `clipped_ips`, `snips`, `replay`, `direct` or `doubly_robust`: see docs/evaluation.md."""
    value: float
    low: Annotated[float | None, Field(examples=[0.71])] = None
    """The lower end of the bootstrap interval; null if the log is too small for one, and for `direct`."""
    high: Annotated[float | None, Field(examples=[0.75])] = None


class PolicyValue(Answer):
    """What the log says about a policy."""

    policy: str
    """`served`: what answered the rounds, holdout excluded. `holdout`: what the holdout answered. `uniform`: all
    labels with the same probability. `best_constant`: always the same label."""
    label: Annotated[str | None, Field(examples=[None])] = None
    """The label of a constant policy. One half of the rounds chooses the best one, and the other half evaluates it."""
    estimates: list[EstimateAnswer]
    low: float
    """The lower end of the conservative interval, an empirical Bernstein bound that holds whatever the weights."""
    high: float
    rounds: int
    """The number of rounds that evaluate it."""
    effective_rounds: float
    """The number of rounds of the policy itself that would be worth as much: (Σw)² / Σw²."""
    largest_weight: float
    """The largest probability of a logged answer under the policy, divided by its propensity."""
    mean_weight: float
    """Near 1 if the log can answer everything that the policy answers."""
    clipped_share: float
    """The share of the rounds whose weight exceeds the clip."""
    warnings: Annotated[list[str], Field(examples=[[]])]
    """What speaks against the estimates, in plain words. Empty if nothing does."""


class EvaluationAnswer(Answer):
    """The values of policies on the latest rounds of a model."""

    model: str
    rounds: int
    """The number of rounds that could be used."""
    first_round: Annotated[int | None, Field(examples=[1])] = None
    """The first of them; null if there is none."""
    last_round: Annotated[int | None, Field(examples=[10000])] = None
    level: float
    """The level of all intervals."""
    clip: float
    """The largest weight of `clipped_ips`."""
    seed: int
    """The seed of the bootstrap."""
    policies: list[PolicyValue]
    notes: Annotated[list[str], Field(examples=[[]])]
    """What holds for the whole log."""
