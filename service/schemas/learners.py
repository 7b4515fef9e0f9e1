"""Schemas of `GET /learners`."""

from typing import Any, Literal

from service.schemas.models import Answer


class LearnerDescription(Answer):
    """A learner with its defaults: its guarantee, the norm it needs, and the JSON Schema of its hyperparameters."""

    algorithm: str
    answer: Literal["label", "level", "label-set", "ranking"]
    """The kind of answer: one label; one label of an ordered list; a set of labels; all labels, ranked."""
    summary: str
    guarantee: str
    """The proven bound for the default hyperparameters. `GET /models/{name}` has a model's bound. It assumes that every
    label is eligible in every round, and that no label was added."""
    norm: Literal["none", "unit", "scale", "reject"]
    """The default of `features.norm` for new models."""
    intercept: bool
    """Whether the learner allows an intercept; the default of `features.intercept` for new models."""
    norm_bound_on: Literal["length", "entries"]
    """What `norm_bound` limits: the Euclidean norm of a context, or the magnitude of each number."""
    accepts_rewards: bool
    """Whether feedback may have a `reward` between 0 and 1."""
    labels_grow: bool
    """Whether labels can be added to a model."""
    recommended: bool
    hyperparameters: dict[str, Any]


class LearnerList(Answer):
    """All learners."""

    learners: list[LearnerDescription]
