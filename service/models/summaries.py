"""Summaries of models: definitions without labels and listed sets, which the store keeps for fast lists of models.

A summary is valid if it can be read, its learner can be built, and it records the length of the stored definition and
the digest of the model's history. Otherwise the reader falls back to the definition, and reports errors in it.
"""

from functools import lru_cache

from pydantic import ValidationError

from learners.base import AnyLearner
from service.actions.definition import ActionsDefinition
from service.contexts.registry import Features
from service.errors import InvalidInputError
from service.json_values import JsonObject
from service.models.learner_choice import choose_learner, hyperparameters
from service.models.model import Model
from service.schemas.models import LearnerChoice, Policies, policies_of
from service.store.stored_models import ListedModel

_MOST_BYTES = 16_384  # maximum bytes of a summary


_ANY_SET: JsonObject = {"sets": None, "loss": "sparsemap", "regularization": None}
"""Hyperparameters of a learner without listed sets, which gives the same kind of answers as one that lists sets."""


class Summary(Policies):
    """A definition in which counts replace the labels and, in the hyperparameters of the learner, all lists."""

    label_count: int
    features: Features
    actions: ActionsDefinition | None = None
    learner: JsonObject
    definition_bytes: int
    digest: str = ""  # of the history that it summarizes, in hexadecimal


def summary_of(model: Model, definition: str) -> Summary:
    """Summarize a model with this stored definition."""
    defined, learner = model.definition, hyperparameters(model.learner)
    return Summary(
        label_count=len(defined.labels),
        features=defined.features,
        actions=defined.actions,
        learner={name: len(value) if isinstance(value, list) else value for name, value in learner.items()},
        **policies_of(defined),
        definition_bytes=len(definition.encode()),
        digest=model.digest.hex(),
    )


def read_summary(listed: ListedModel) -> Summary | None:
    """Return the summary in a list entry; None if it is invalid, or older than the last change."""
    text = listed.summary
    if text is None or len(text) > _MOST_BYTES:
        return None
    summary = _parsed(text)
    of_definition = (listed.definition_bytes, listed.digest.hex())
    return summary if summary is not None and (summary.definition_bytes, summary.digest) == of_definition else None


def encoded_summary(model: Model, definition: str) -> str:
    """Encode the summary of a model with this stored definition."""
    return summary_of(model, definition).model_dump_json(exclude_defaults=True)


@lru_cache(maxsize=1024)
def _parsed(text: bytes) -> Summary | None:
    try:
        summary = Summary.model_validate_json(text)
        learner_of(summary)
    except (ValidationError, InvalidInputError, TypeError):
        return None
    return summary


def learner_of(summary: Summary) -> AnyLearner:
    """Build the learner of a summary. If it lists sets, build one that answers any set instead: see `_ANY_SET`."""
    given = summary.learner | (_ANY_SET if isinstance(summary.learner.get("sets"), int) else {})
    return choose_learner(LearnerChoice(**given), summary.label_count, summary.features, summary.actions)
