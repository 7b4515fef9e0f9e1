"""The answers of `GET /learners`."""

from typing import Any, Literal

from service.schemas.models import Answer


class LearnerDescription(Answer):
    """A learner with its defaults: its guarantee, the norm it needs, and the JSON Schema of its hyperparameters."""

    algorithm: str
    aliases: list[str]
    """Names of the algorithm in older versions: accepted where a model is created, and answered as `algorithm`."""
    answer: Literal["label", "level", "label-set", "ranking"]
    """One of the labels; one of the labels, which have an order; any set of labels; all labels in some order."""
    summary: str
    guarantee: str
    """What is proved of the defaults; `GET /models/{name}` says it of a model's hyperparameters."""
    norm: Literal["unit", "scale", "reject"]
    """What `features.norm` of a new model is where it is not given."""
    norm_bound_on: Literal["length", "entries"]
    """What `norm_bound` bounds: the Euclidean length of a context, or the magnitude of each of its numbers."""
    recommended: bool
    hyperparameters: dict[str, Any]


class LearnerList(Answer):
    """All learners."""

    learners: list[LearnerDescription]
