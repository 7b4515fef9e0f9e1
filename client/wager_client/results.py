"""What the service answers, as frozen dataclasses. `raw` is the JSON object, with fields unknown to this version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wager_client.errors import ProblemError

Json = Mapping[str, Any]
"""A JSON object."""


_LOCAL = {"local": True}  # marks fields that answers do not have


@dataclass(frozen=True)
class Slot:
    """One of the answers to a request with `top`. Send its feedback to its own id."""

    prediction_id: str | None
    label: str
    propensity: float | None
    is_default: bool = field(default=False, metadata=_LOCAL)


@dataclass(frozen=True)
class Prediction:
    """An answer of a model, or the caller's default answer.

    Attributes:
        prediction_id: for feedback; None for a default answer.
        label: the label or level, or the id of an action; None if the model answers several, and with `top`.
        labels: the set or ranking; None if the model answers one label.
        propensity: the probability of the answer; None for a default answer, and with `top`.
        distribution: the probability of each label, if requested.
        holdout: whether the holdout answered.
        slots: the answers in order, with `top`.
        is_default: whether the service was away, and this is the caller's default. It is never learned.
    """

    prediction_id: str | None
    model: str
    label: str | None = None
    labels: tuple[str, ...] | None = None
    propensity: float | None = None
    rounds_seen: int | None = None
    expires_at: datetime | None = None
    distribution: Mapping[str, float] | None = None
    holdout: bool = False
    slots: tuple[Slot, ...] | None = None
    is_default: bool = field(default=False, metadata=_LOCAL)
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Feedback:
    """Recorded feedback.

    Attributes:
        status: `recorded`; `duplicate` if it was recorded before; `ignored` for a default answer, which is never sent.
        round: the number of the round; None while it waits for the window to close, and if it was ignored.
    """

    prediction_id: str | None
    status: str
    correct: bool | None = None
    reward: float | None = None
    round: int | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Activation:
    """An active prediction. `status` is `activated`, `duplicate`, or `ignored` for a default answer."""

    prediction_id: str | None
    status: str
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Model:
    """A model and its counts.

    Attributes:
        etag: identifies the definition, for `change_model`; None where the service does not return it.
    """

    name: str
    labels: tuple[str, ...]
    learner: Json
    created_at: datetime
    rounds_seen: int
    predictions: int
    correct: int
    reward: float
    retired_labels: tuple[str, ...] = ()
    features: Json | None = None
    actions: Json | None = None
    guarantee: str = ""
    warnings: tuple[str, ...] = ()
    etag: str | None = field(default=None, metadata=_LOCAL)
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class ModelSummary:
    """A model in a list. `problem` is the reason why the service cannot read it; the counts are then None."""

    name: str
    label_count: int | None = None
    rounds_seen: int | None = None
    predictions: int | None = None
    correct: int | None = None
    reward: float | None = None
    problem: ProblemError | None = field(default=None, metadata=_LOCAL)
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Round:
    """One round of a model's log: a prediction and its feedback.

    Attributes:
        rounds_seen: the rounds in the log that the answer took into account.
        changes_seen: the changes of the model that the answer took into account.
        changes: the changes in the log before this round.
    """

    round: int
    prediction_id: str
    outcome: str
    context: Any
    predicted_at: datetime
    feedback_at: datetime
    label: str | None = None
    labels: tuple[str, ...] | None = None
    propensity: float | None = None
    correct: bool | None = None
    reward: float | None = None
    true_label: str | None = None
    true_labels: tuple[str, ...] | None = None
    eligible: tuple[str, ...] | None = None
    holdout: bool = False
    rounds_seen: int = 0
    changes_seen: int = 0
    changes: int = 0
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Explanation:
    """How a model sees a context. See `POST /models/{name}/explain`."""

    model: str
    rounds_seen: int
    scores: Mapping[str, float] | None = None
    distribution: Mapping[str, float] | None = None
    features: tuple[Any, ...] = ()
    actions: tuple[Any, ...] | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Health:
    """The state of the service and of its store."""

    status: str
    store: str = ""
    durability: str = ""
    warnings: tuple[str, ...] = ()
    raw: Json = field(default_factory=dict, repr=False, compare=False)
