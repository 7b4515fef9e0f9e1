"""Schemas of the explanation of a decision."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from service.contexts.registry import ShownContext
from service.json_values import JsonObject
from service.schemas.costs import Budget
from service.schemas.models import Answer, FixedLabel
from service.schemas.rounds import LoggedAction
from service.schemas.rules import Rules


class DecisionOutcome(Answer):
    """The feedback of a prediction, or what its model made of silence."""

    outcome: Literal["feedback", "expired"]
    """`expired` if the window closed without feedback, and the model's `on_expiry` made the round."""
    correct: bool | None
    """Null if the reward is neither 0 nor 1."""
    reward: Annotated[float, Field(examples=[1.0])]
    abstained: Annotated[bool, Field(examples=[False])]
    """Whether the answer abstained, which is neither right nor wrong."""
    true_label: str | None
    true_labels: Annotated[list[str] | None, Field(examples=[None])]
    feedback_at: datetime
    """When the feedback arrived, or when the prediction was closed without feedback."""
    round: int | None
    """The number of the round; null while the feedback waits for the window to close."""


class DecisionAnswer(Answer):
    """Why a prediction has its answer: what the model knew, what it chose from, what it drew, and what became of it."""

    prediction_id: str
    model: str
    status: Literal["open", "waiting", "inactive", "expired", "recorded"]
    """`open`: it accepts feedback. `waiting`: it has feedback, which counts when its window closes. `inactive`: it must
    be activated before feedback. `expired`: its window has closed without feedback, and it has no round. `recorded`: it
    has a round."""
    label: str | None
    """The label or level, or the id of an action; null if the model answers several labels, and for an action whose
    round the log no longer keeps."""
    labels: Annotated[list[str] | None, Field(examples=[None])]
    """The set or ranking; null if the model answers one label."""
    propensity: float
    """The probability with which the answer was drawn."""
    holdout: bool | None
    """Whether the holdout answered instead of the learner."""
    predicted_at: datetime | None
    expires_at: datetime
    """When the feedback window closes."""
    rounds_seen: int
    """The number of rounds in the log that the answer took into account."""
    changes_seen: int
    """The number of changes of the model that the answer took into account."""
    context: ShownContext | None
    """The context that the client sent."""
    actions: Annotated[list[LoggedAction] | None, Field(examples=[None])]
    """The chosen action, or all actions to choose from if `log_actions` is `all`; null for a model with labels."""
    action_count: Annotated[int | None, Field(examples=[None])]
    """The number of actions to choose from; null for a model with labels."""
    eligible: Annotated[list[str] | None, Field(examples=[None])]
    """The labels to choose from; null if these were all labels that the model had."""
    mode: Literal["online", "logging", "frozen"]
    """The mode at the time, as all policies here."""
    rules: Annotated[Rules | None, Field(examples=[None])]
    rules_left_out: Annotated[list[str] | None, Field(examples=[None])]
    """The rules that the eligible labels or actions could not obey; null if there are none, and if the distribution is
    unknown."""
    cost: Annotated[float | None, Field(examples=[None])]
    """What the answer cost; null if neither model nor request had costs."""
    cost_weight: Annotated[float | None, Field(examples=[None])]
    """λ in the decision; null without a cost, and if another policy decided."""
    costs: Annotated[dict[str, float] | None, Field(examples=[None])]
    """What each eligible label, or each stored action, cost; null without costs."""
    budget: Annotated[Budget | None, Field(examples=[None])]
    holdout_policy: Annotated[Literal["uniform", "baseline"] | FixedLabel | None, Field(examples=[None])]
    """The policy of the holdout, if the holdout answered."""
    learner: JsonObject
    """The algorithm and all hyperparameters at the time."""
    distribution: dict[str, float] | None
    """The probability of each eligible label or action, recomputed with the state that decided. Null if `reason` says
    why it is unknown."""
    scores: dict[str, float] | None
    """The learner's score of each label, as `POST /models/{name}/explain` computes it. Null if the distribution is
    unknown, if the holdout answered, for actions, for learners without such scores, and if there would be more than a
    million contributions."""
    draw: float | None
    """The stored random number: (u - the probabilities of all labels before the answer, in order) / propensity."""
    u: float | None
    """The uniform random number from 0 to 1 that drew the answer; null if the distribution is unknown."""
    reason: Annotated[str | None, Field(examples=[None])]
    """Why the distribution is unknown, or fields of the request are null."""
    outcome: DecisionOutcome | None
    """Null without feedback."""
