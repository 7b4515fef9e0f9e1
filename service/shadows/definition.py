"""The definition of a shadow: how it is checked and stored."""

import pydantic

from learners.base import AnyLearner
from service.error_messages.values import quoted
from service.errors import NewerVersionError, ShadowLearnerError, StoreCorruptError
from service.json_values import JsonObject
from service.models.learner_choice import hyperparameters
from service.models.model import Limits, Model, new_model
from service.schemas.models import LearnerChoice
from service.store.values import StoredShadow
from service.strict_body import Body


class Definition(Body):
    """The definition of a shadow, as stored."""

    learner: JsonObject
    """The algorithm and all hyperparameters."""
    at: float
    """When the shadow got this learner, in seconds since the epoch."""
    by: str | None = None
    """The id of the API key that requested this learner; None if no keys are required."""

    @property
    def choice(self) -> LearnerChoice:
        """The learner, as a `LearnerChoice`."""
        return LearnerChoice(**self.learner)

    def encode(self) -> str:
        """Return the definition as JSON."""
        return self.model_dump_json(exclude_defaults=True)


def read_definition(shadow: StoredShadow) -> Definition:
    """Decode the definition of a shadow.

    Raises:
        NewerVersionError: if a newer version wrote it.
        StoreCorruptError: if it is invalid.
    """
    try:
        return Definition.model_validate_json(shadow.text)
    except pydantic.ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        if all(each["type"] == "extra_forbidden" for each in wrong):
            raise NewerVersionError(f"a newer version wrote the shadow {quoted(shadow.name)}") from error
        raise StoreCorruptError(f"the shadow {quoted(shadow.name)} cannot be read") from error


def complete_choice(model: Model, choice: LearnerChoice | None, limits: Limits) -> JsonObject:
    """Return the algorithm and all hyperparameters of a new shadow.

    Args:
        model: the model, after all its changes.
        choice: the requested learner; None for the recommended one.
        limits: the limits of new models.

    Raises:
        ShadowLearnerError: if the model's feedback may lack what the learner needs, if the learner cannot be compared
            with the model's, or if it would refuse other contexts.
        InvalidInputError: if the learner is unknown, does not fit the model, or is too large or too slow.
    """
    _check_comparable(model.learner, "the model's learner", model)
    asked = model.definition.model_copy(update={"learner": choice})
    learner = new_model(asked, model.key.incarnation, limits).learner
    _check_comparable(learner, "the learner", model)
    if model.definition.features.norm == "reject" and learner.context_norm != model.learner.context_norm:
        detail = (
            f"{learner.algorithm} bounds another norm than {model.learner.algorithm}, the model's learner: a promotion "
            "would change which contexts the model refuses"
        )
        raise ShadowLearnerError(detail, "learner.algorithm")
    if learner.needs_true_label and not model.learner.needs_true_label:
        detail = f"{learner.algorithm} needs the true label of every round, which the model's feedback may lack"
        raise ShadowLearnerError(detail, "learner.algorithm")
    return hyperparameters(learner)


def _check_comparable(learner: AnyLearner, which: str, model: Model) -> None:
    if model.definition.actions is not None:
        detail = (
            "the model has actions, whose rounds contain only the chosen action; a shadow needs a model with labels"
        )
        raise ShadowLearnerError(detail, "learner")
    if learner.answer not in ("label", "level"):
        detail = f"{which}, {learner.algorithm}, answers several labels; a shadow needs single labels"
        raise ShadowLearnerError(detail, "learner.algorithm")
