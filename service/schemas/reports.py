"""Schemas of evaluations, explanations and health checks."""

from typing import Annotated, Literal

from pydantic import Field

from service.actions.definition import GivenActions
from service.contexts.kind import without_default
from service.contexts.registry import GivenContext
from service.schemas.models import Answer
from service.strict_body import Body


class EstimateAnswer(Answer):
    """The value of a policy by one estimator: its mean reward, or its mean cost."""

    estimator: str
    """`doubly_robust`, `snips`, `ips`, `clipped_ips`, `replay` or `direct`: see docs/guides/evaluation.md."""
    value: float
    low: Annotated[float | None, Field(examples=[0.71])] = None
    """The lower end of the bootstrap interval; null if the log is too small for one, and for `direct`."""
    high: Annotated[float | None, Field(examples=[0.75])] = None
    doubt: Annotated[str | None, Field(examples=["worth only 25 rounds"])] = None
    """Why the value should not be trusted; read the conservative interval of the policy instead. Null if there is no
    reason for doubt."""


class AbstentionValue(Answer):
    """How often a policy abstains, and how good its other answers are. The values are self-normalized, like `snips`."""

    rate: float
    """The share of its answers that abstain."""
    cost: float
    """What abstentions cost for each round, where a mistake costs 1."""
    accuracy: Annotated[float | None, Field(examples=[0.91])]
    """The mean reward of the rounds that it answers; null if it answers none."""
    low: Annotated[float | None, Field(examples=[0.88])]
    """The lower end of the bootstrap interval of the accuracy; null if the log is too small for one."""
    high: Annotated[float | None, Field(examples=[0.94])]


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
    abstention: Annotated[AbstentionValue | None, Field(examples=[None])] = None
    """Null if it never abstains. An abstention has the reward 1 - c in the estimates, for the learner's
    `abstention_cost` c."""
    cost: Annotated[EstimateAnswer | None, Field(examples=[None])] = None
    """The mean cost of its answers by `snips`, over the rounds with a known cost; null if no round has one."""
    trust: Literal["yes", "care", "no"]
    """Whether to trust the first estimate. With `care`, read the conservative interval, `low` and `high`, as well; with
    `no`, nothing else."""
    trust_reason: str
    """Why, in one sentence."""
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


class ExplainRequest(Body):
    """A context to explain, with the actions to choose from if the model has actions."""

    context: Annotated[GivenContext, Field(json_schema_extra=without_default)] = None
    """Absent or `{}` if the model has no features."""
    actions: GivenActions | None = None
    """The actions, for a model with actions: up to 10,000, with different ids."""


class _Feature(Answer):
    name: str
    index: int
    """Its index in the vector. Features with the same index add up."""
    sign: int
    """1, or -1 if the hash of the name changes the sign of the value."""
    value: float
    """Its value in the vector, after the sign and the norm policy."""


class ExplainedFeature(_Feature):
    """One feature of the context, as the learner sees it."""

    name: str
    """The name, such as `user.age` or `country=FR`; the index of a nameless one; `intercept` for the constant."""
    contributions: dict[str, float] | None
    """What it adds to the score of each label; null if the learner's scores are not sums over features."""


class ActionFeature(_Feature):
    """One feature of an action, or its product with one of the context, as the learner sees it."""

    name: str
    """The name, such as `price`, or `user.country=FR*price` for a product; `intercept` for the constant."""
    contribution: float
    """What it adds to the score of the action."""


class ExplainedAction(Answer):
    """One of the actions of the request."""

    id: str
    features: list[ActionFeature]


class BaseRatesAnswer(Answer):
    """What the learner predicts from each label's rounds alone, whatever the context."""

    rates: dict[str, float]
    """The reward rate of each label that is not retired, as if half a reward in one more round had come first."""
    weight: Annotated[float, Field(examples=[0.12])]
    """The weight of the rates in the learner's predictions, from 0 to 1. The features have the rest."""


class ExplainAnswer(Answer):
    """How the model sees a context, and why it prefers some labels or actions. Nothing is stored."""

    model: str
    rounds_seen: int
    """The number of rounds in the log that the model takes into account."""
    scores: dict[str, float] | None
    """The score of each label or action: the sum of the contributions. Null if the learner has no such scores."""
    distribution: dict[str, float] | None
    """The probability of each action, or of each label that is not retired, by the learner, whatever the mode; null if
    the model answers rankings."""
    features: list[ExplainedFeature]
    """Empty if the model has actions: their vectors hold the features of the context."""
    base_rates: BaseRatesAnswer | None = None
    """The base rates of the labels, apart from the features; null for actions, and for learners that count none."""
    actions: Annotated[list[ExplainedAction] | None, Field(examples=[None])] = None
    """The actions of the request, in order; null if the model has labels."""


class Health(Answer):
    """The state of the service."""

    status: Literal["ready", "alive"]


class Readiness(Health):
    """The state of the service and of its store."""

    store: str
    durability: str
    warnings: list[str]
