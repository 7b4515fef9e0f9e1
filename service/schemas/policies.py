"""Policies of models: how predictions are answered, when they expire, and what the log keeps."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from service.schemas.labels import Label
from service.strict_body import Body


class ExpiryReward(Body):
    """A reward for predictions that expire without feedback."""

    reward: Annotated[float, Field(ge=0, le=1)]
    """The reward, for models whose learner accepts rewards."""


def _form_of(given: object) -> str:
    return "object" if isinstance(given, (dict, ExpiryReward)) else "word"


OnExpiry = Annotated[
    Annotated[Literal["drop", "incorrect"], Tag("word")] | Annotated[ExpiryReward, Tag("object")],
    Discriminator(_form_of),
]


class FixedLabel(Body):
    """A holdout that always answers one label."""

    label: Label


def _kind_of_policy(given: object) -> str:
    return "label" if isinstance(given, (dict, FixedLabel)) else "name"


class Holdout(Body):
    """A share of the requests that another policy answers, to compare it with the learner, which ignores them."""

    fraction: Annotated[float, Field(gt=0, lt=1)]
    """The share of the requests, chosen at random."""
    policy: Annotated[
        Annotated[Literal["uniform", "baseline"], Tag("name")] | Annotated[FixedLabel, Tag("label")],
        Discriminator(_kind_of_policy),
    ]
    """`uniform` draws an eligible label, `baseline` answers the baseline in the request, and an object with `label`
    answers this label, or draws an eligible one if it is not eligible."""


class Freshness(Body):
    """How new the state of a prediction is."""

    max_lag_seconds: Annotated[float, Field(ge=0, le=60)] = 0.0
    """A prediction includes every round that was acknowledged more than this time before its request. 0 means every
    round that was acknowledged before the request. Changes of the model are never late."""


SHORTEST_WINDOW, LONGEST_WINDOW = 0.001, 366 * 86_400.0
"""Seconds."""


class Policies(Body):
    """The policies of a model. `PATCH /models/{name}` can change each of them."""

    window_seconds: Annotated[float, Field(ge=SHORTEST_WINDOW, le=LONGEST_WINDOW)] = 86_400.0
    """How long a prediction accepts feedback. A request that sets `on_expiry` to other than `drop` must give it: choose
    the time within which nearly all feedback arrives, such as 95 % of the clicks. A model that had such an `on_expiry`
    keeps its window."""
    late_feedback: Literal["reject", "accept"] = "reject"
    """Whether to accept feedback after the window, until the prediction is deleted one hour later."""
    on_expiry: OnExpiry = "drop"
    """What a prediction without feedback becomes when its window closes: no round, or a round that is incorrect or has
    this reward. If clients only report successes, such as clicks, use `incorrect`. A request that sets or changes it
    sets `learn` as well, unless it gives `learn`."""
    learn: Literal["on_arrival", "at_window_close"] = "on_arrival"
    """When feedback becomes a round. At window close, feedback that arrives early has no advantage over silence, so it
    is the default of a request that sets `on_expiry` to other than `drop`. With `on_arrival`, such a model follows
    clicks for a whole window before it learns from silence, and has a warning."""
    retain_rounds: Annotated[int, Field(ge=0, le=1_000_000_000)] = 100_000
    """The minimum number of latest rounds that the log keeps, for reading and replay."""
    retain_seconds: Annotated[float, Field(ge=60, le=100 * 366 * 86_400)] | None = None
    """How long the log keeps a round at most, for contexts with personal data; by default as long as `retain_rounds`
    says. Rounds go within two minutes, but the last one stays until another follows."""
    mode: Literal["online", "logging", "frozen"] = "online"
    """`online` answers and learns. `logging` draws from the `policy` of the request, or uniformly, and learns. `frozen`
    answers and records rounds, but does not learn from them."""
    holdout: Annotated[Holdout | None, Field(examples=[None])] = None
    """A share of the requests that another policy answers; null for none."""
    freshness: Freshness = Freshness()
    """How new the state of a prediction is. Several workers serve a model with much traffic at a lower cost if its
    predictions may lag."""


POLICIES = tuple(Policies.model_fields)
"""The names of the policies."""


def policies_of(model: Policies) -> dict[str, Any]:
    """Return the values of the policies, by name."""
    return {name: getattr(model, name) for name in POLICIES}
