"""Schemas of explanations."""

from typing import Annotated

from pydantic import Field

from service.actions.definition import GivenActions
from service.contexts.kind import without_default
from service.contexts.registry import GivenContext
from service.schemas.models import Answer
from service.strict_body import Body


class ExplainRequest(Body):
    """A context to explain, with the actions to choose from if the model has actions."""

    context: Annotated[GivenContext, Field(json_schema_extra=without_default)] = None
    """Absent or `{}` if the model has no features."""
    actions: GivenActions | None = None
    """The actions, for a model with actions: up to 10,000, with different ids."""


class ExplainedFeature(Answer):
    """One feature of the context, as the learner sees it."""

    name: str
    """The name, such as `user.age` or `country=FR`; the index of a nameless one; `intercept` for the constant."""
    index: int
    """Its index in the vector. Features with the same index add up."""
    sign: int
    """1, or -1 if the hash of the name changes the sign of the value."""
    value: float
    """Its value in the vector, after the sign and the norm policy."""
    contributions: dict[str, float] | None
    """What it adds to the score of each label; null if the learner's scores are not sums over features."""


class ActionFeature(Answer):
    """One feature of an action, or its product with one of the context, as the learner sees it."""

    name: str
    """The name, such as `price`, or `user.country=FR*price` for a product; `intercept` for the constant."""
    index: int
    """Its index in the vector. Features with the same index add up."""
    sign: int
    """1, or -1 if the hash of the name changes the sign of the value."""
    value: float
    """Its value in the vector, after the sign and the norm policy."""
    contribution: float
    """What it adds to the score of the action."""


class ExplainedAction(Answer):
    """One of the actions of the request."""

    id: str
    features: list[ActionFeature]


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
    actions: Annotated[list[ExplainedAction] | None, Field(examples=[None])] = None
    """The actions of the request, in order; null if the model has labels."""
